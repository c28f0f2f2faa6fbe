"""Hints: fills their placeholders from the evidence, and has the hints for what only heartbeats show."""

import re
from collections.abc import Mapping
from typing import Final

from lastbeat.model.cause import CERTAIN, LIKELY

STALE: Final = (
    "SSH to the instance and check whether the process lives: training.log, nvidia-smi, dmesg (OOM killer) "
    "and disk space (df -h). If the instance is gone (spot reclaim), restart from the last checkpoint."
)
SILENT: Final = (
    "Nothing has come from the process for several of its own beats: it was probably killed, or its machine or network "
    "is gone. Look for it (squeue or sacct, kubectl get pods, ps on its instance), for the OOM killer "
    "(dmesg -T | grep -i oom) and for a spot reclaim; then restart from the last checkpoint."
)
STORED_AGAIN: Final = (
    "The times in its documents are older than its files: something stores old documents again (a copy, a sync tool), "
    f"or the instance's clock is slow (chronyc tracking). If neither: {STALE}"
)
NEVER_STARTED: Final = (
    "The run never started, or writes elsewhere: check the setup logs (cloud-init, job output), the run id, the "
    "place, and that training may write there. LASTBEAT_START_MINUTES gives a run time to its first heartbeat."
)
NOT_STARTED: Final = (
    "Nothing runs. Fix what the reason names (a partition, an account, a path), then run the same command again."
)
STALLED: Final = (
    "The process lives but makes no progress: SSH to the instance, look at nvidia-smi (0% is a hang, 100% may be "
    "a stuck collective) and dump the stacks with py-spy dump --pid PID on every rank."
)
STALLED_OR_DEAD: Final = (
    "No progress, and the last heartbeat is minutes old: find out whether the process still lives (squeue, ps, "
    "nvidia-smi). If it does, dump the stacks with py-spy dump --pid PID on every rank; if not, dmesg -T | grep -i oom "
    "and the scheduler say what ended it."
)
UNEXPLAINED_FAILURE: Final = (
    "Read the stack trace in _error and the end of the training log; fix the cause before restarting."
)

ENDED_NOT_FINITE: Final = (
    "The run is over: do not use its last weights. Go back to the last good checkpoint; lower the learning rate, clip "
    "gradients, check the data around this step and the loss scale."
)

GUESS: Final = "The cause is only a guess, so check it first. "
"""Beginning of the hint of an uncertain cause."""
_SHORT: Final = 220
"""Most characters of a shortened hint of several sentences."""
_MOST_OF_A_SENTENCE: Final = 400
"""Most characters of a single sentence. Commands make sentences long, and half a command is worse than none."""
ENDED_BY_ITSELF: Final = (
    "It was not killed: it ended by itself with exit status {status}, and nothing that was read says why. Look for "
    "what ends with that status (grep -rn 'exit(' in its code, exit and set -e in its script) and at what it printed "
    "last."
)
ENDED_BY_SIGNAL: Final = (
    "It {ended}, and nothing that was read says why: sacct -j ID --format=JobID,State,ExitCode,MaxRSS, dmesg -T | tail "
    "-50 on its node, df -h and nvidia-smi may. PYTHONFAULTHANDLER=1 shows next time where it was."
)
ABORTED: Final = (
    "It {ended}: code that found something wrong aborted the process, and said what in its own log, above the end: an "
    "assertion, what(): of a C++ exception, NCCL's watchdog, free() or malloc() of glibc. Without a word: ulimit -c "
    "unlimited, then gdb python core (bt); PYTHONFAULTHANDLER=1 shows where Python was."
)
KILLED_WITHOUT_OOM: Final = (
    "It was killed by SIGKILL, and its cgroup counted no OOM kill: by a person, the scheduler, or a program that "
    "watches memory (systemd-oomd, earlyoom). sacct -j ID --format=JobID,State,ExitCode,End and, on its node, "
    "journalctl --since -1h | grep -iE 'oom|kill' may tell. What ran in a container or on another node is counted "
    "there: dmesg -T | grep -i oom. If it was unintended, restart from the last checkpoint."
)
MISSING_RANK: Final = (
    "Read the end of its log; on its node, py-spy dump --pid PID shows where it stands, dmesg -T | grep -iE 'xid|oom' "
    "what killed it. If it was rightly busy (a checkpoint, an evaluation), raise the process group's timeout."
)


def either(*readings: tuple[str, str]) -> str:
    """The shortened advice for an undecided cause. Each of ``readings`` is an error type and its hint."""
    return " ".join(f"If {error_type}: {shortened(hint)}" for error_type, hint in readings)


def shortened(hint: str) -> str:
    """The first sentences of a hint that fit into a short line; at least one, which may be cut."""
    sentences = re.split(r"(?<=[.!?]) (?=[A-Z'])", hint.removeprefix(GUESS))
    kept = sentences[0]
    for sentence in sentences[1:]:
        if len(kept) + 1 + len(sentence) > _SHORT:
            break
        kept += f" {sentence}"
    if len(kept) <= _MOST_OF_A_SENTENCE:
        return kept
    return kept[:_MOST_OF_A_SENTENCE].rpartition(" ")[0].rstrip(" ,;:(") + " …"


def restart_hint(restartable: bool | None, confidence: float) -> str:
    """Whether a restart helps, worded according to the confidence in the cause."""
    if restartable is None:
        return "it depends on what was behind this."
    guess = confidence < LIKELY
    if restartable:
        return f"from the last checkpoint, it may {'' if guess else 'well '}get past this."
    if guess:
        return "if this is the cause, only after a change."
    will = "will" if confidence >= CERTAIN else "will probably"
    return f"only after a change; without one it {will} end here again."


# Not compiled here: hints are filled only after a failure, and each start of --once loads this module.
_PLACEHOLDER: Final = r"(?<!\$)\{([a-z][a-z0-9_]{0,40})\}"
STANDING: Final = frozenset({"rank", "host", "file", "line", "raised_at", "peer"})
"""Fields that every evidence may have; a hint may name them without extracting them."""
_OPTIONAL: Final = r"\[([^\[\]]{1,300})\]"
_IN_MS: Final = r"\{([a-z][a-z0-9_]{0,36}_ms)\} ms\b"
_MS: Final = r"(\d{1,12}) ?ms"
_UNITS: Final = ((7_200_000, 3_600_000, "hours"), (120_000, 60_000, "minutes"), (1000, 1000, "s"), (0, 1, "ms"))
_VALUE_LIMIT: Final = 120
"""Most characters of a value in a hint."""
_WHO: Final = r"\b([Rr])ank \{rank\}"
_UNKNOWN: Final = {"host": "its node", "file": "its log"}


def fields_of(hint: str) -> frozenset[str]:
    """The fields whose placeholders are in ``hint``."""
    return frozenset(re.findall(_PLACEHOLDER, hint))


def filled(hint: str, fields: Mapping[str, object]) -> str:
    """``hint`` with its placeholders filled from ``fields``.

    ``[with {free} free]`` is omitted if ``free`` is unknown; brackets without a field stay as they are. Elsewhere an
    unknown rank becomes "this process", an unknown host "its node" (NODE in a command), and any other field ``?``.
    """
    known = {
        name: _readable(name, str(value)[:_VALUE_LIMIT]) for name, value in fields.items() if value not in (None, "")
    }

    def optional(found: "re.Match[str]") -> str:
        wanted = fields_of(found[1])
        if not wanted:
            return found[0]
        return found[1] if wanted <= known.keys() else ""

    text = re.sub(_OPTIONAL, optional, re.sub(_IN_MS, r"{\1}", hint))
    if "host" not in known:
        text = text.replace("={host}", "=NODE")
    if "rank" not in known:
        text = re.sub(_WHO, lambda found: "This process" if found[1] == "R" else "this process", text)
    return re.sub(_PLACEHOLDER, lambda found: known.get(found[1]) or _UNKNOWN.get(found[1], "?"), text)


def _readable(name: str, value: str) -> str:
    """Milliseconds in a readable unit; any other value unchanged."""
    found = re.fullmatch(_MS, f"{value} ms" if name.endswith("_ms") else value)
    if found is None:
        return value
    milliseconds = int(found[1])
    each, unit = next((each, unit) for least, each, unit in _UNITS if milliseconds >= least)
    return f"{milliseconds / each:.3g} {unit}"
