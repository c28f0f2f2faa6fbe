"""Hints: their places filled with what the evidence says, and those for what only heartbeats and conditions tell."""

import re
from collections.abc import Mapping
from typing import Final

from lastbeat.model import status as names

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

CONDITION_HINTS: Final = {
    names.BEATS_MISSED: SILENT,
    names.LOSS_NAN: "Stop and go back to the last good checkpoint; lower the learning rate, clip gradients, check the "
    "data around this step and the loss scale.",
    names.STALLED: STALLED,
    names.METADATA_STALE: "Progress is still written, so training lives: check the process that writes metadata.json.",
    names.PROGRESS_STALE: "The process beats but reports no step: a long evaluation or checkpoint, or a hang. Look at "
    "the training log and nvidia-smi.",
    names.HEARTBEAT_UNREADABLE: "Fix the script that writes this document; write to a temporary file and rename it.",
    names.CLOCK_SKEW: "Check time synchronisation on the instance (chronyc tracking or timedatectl); lastbeat goes by "
    "the store's clock meanwhile.",
}

# Not compiled here: hints are filled when something failed, and this module is loaded at each look.
_PLACEHOLDER: Final = r"(?<!\$)\{([a-z][a-z0-9_]{0,40})\}"
STANDING: Final = frozenset({"rank", "host", "file", "line"})
"""Fields that every evidence may have; a hint may name them without extracting them."""
_OPTIONAL: Final = r"\[([^\[\]]{1,300})\]"
_IN_MS: Final = r"\{([a-z][a-z0-9_]{0,36}_ms)\} ms\b"
_MS: Final = r"(\d{1,12}) ?ms"
_UNITS: Final = ((7_200_000, 3_600_000, "hours"), (120_000, 60_000, "minutes"), (1000, 1000, "s"), (0, 1, "ms"))
_VALUE_LIMIT: Final = 120
_WHO: Final = r"\b([Rr])ank \{rank\}"
_UNKNOWN: Final = {"host": "its node", "file": "its log"}


def fields_of(hint: str) -> frozenset[str]:
    """The fields that ``hint`` has a place for."""
    return frozenset(re.findall(_PLACEHOLDER, hint))


def filled(hint: str, fields: Mapping[str, object]) -> str:
    """``hint`` with what is known.

    ``[with {free} free]`` is left out whole where ``free`` is not known; brackets without a field stay as they are.
    Elsewhere an unknown rank is "this process", an unknown host "its node" (NODE in a command), anything else ``?``.
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
    """Milliseconds as people say them; anything else as it is."""
    found = re.fullmatch(_MS, f"{value} ms" if name.endswith("_ms") else value)
    if found is None:
        return value
    milliseconds = int(found[1])
    each, unit = next((each, unit) for least, each, unit in _UNITS if milliseconds >= least)
    return f"{milliseconds / each:.3g} {unit}"
