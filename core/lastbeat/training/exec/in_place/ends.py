"""Describes how a start ended in terms of restart policies, and applies a policy to it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from lastbeat.explain.causes.error_file import FILE
from lastbeat.explain.causes.explaining import explain
from lastbeat.explain.causes.log_reader import LogReader
from lastbeat.explain.causes.log_summary import LogSummary
from lastbeat.explain.flight_recorder.cause import with_stuck
from lastbeat.explain.signals.error_types import HANG, UNKNOWN
from lastbeat.model.cause import Explanation
from lastbeat.model.checkpoint import CheckpointSurvey
from lastbeat.model.restart import JobEnd, Mode, RestartDecision, RestartEntry, RestartPolicy
from lastbeat.model.signal import Catalogue
from lastbeat.model.stuck_collective import StuckCollective
from lastbeat.model.times import backoff_s
from lastbeat.training.exec.child.exit_reason import ChildExit, sentinel_text
from lastbeat.training.exec.in_place.looking import LeftBehind
from lastbeat.training.sdk.run import CANCELLED
from lastbeat.watch.decide.restart import RESUME_ELSEWHERE, cause_key, decide_restart
from lastbeat.watch.observe.flight_recorders import OF_A_PASS, read_dumps
from lastbeat.watch.observe.local_dumps import below

QUICK_S: Final = 60.0
"""A start that lives no longer than this many s without a step has failed at once."""
LONGEST_PAUSE_S: Final = 60.0
"""Longest pause in s before a start."""
FAILED: Final = 1
"""Exit status after a command that lastbeat had to end."""
_RANK: Final = re.compile(r"ranks/(\d{1,7})\.error")


@dataclass(frozen=True, slots=True)
class HowItEnded:
    """The end of one start."""

    exit: ChildExit | None
    """Exit of the command; None if it could not be ended."""
    hang: str | None = None
    """Why it counted as hanging and was ended; None if it did not hang."""
    text: bytes = b""
    """Tail of its output."""
    error: str = ""
    """Text of its ``_error`` if it is not restarted."""
    left: LeftBehind = field(default_factory=LeftBehind)
    lived_s: float = 0.0
    step: int | None = None
    """The last observed step."""
    resumed_from: str | None = None
    """The checkpoint that it resumed from. ``resumed_step`` is its step."""
    resumed_step: int | None = None
    node: str = ""
    dumps: Path | None = None
    """The folder for the dumps of its flight recorders."""
    began: float = 0.0
    """When it began, in Unix time: older dumps are of an earlier start."""


def explained(ended: HowItEnded, catalogue: Catalogue) -> Explanation:
    """The cause shown by its output, its ranks' errors, its exit status, its potential ``_error``, and the dumps of its
    flight recorders. Watchers will find the same."""
    logs = [_summary(ended.text, catalogue, "output", None), _summary(ended.error.encode(), catalogue, FILE, None)]
    # After a hang, the ranks only report that they were ended.
    for each in ended.left.errors if ended.hang is None else ():
        named = _RANK.fullmatch(each.name)
        logs.append(_summary(each.text.encode(), catalogue, each.name, int(named[1]) if named is not None else None))
    status = ended.exit.status if ended.exit is not None and ended.hang is None else None
    found = explain(logs, catalogue, exit_code=status)
    stuck = _stuck(ended.dumps, ended.began) if ended.dumps is not None else None
    return found if stuck is None else with_stuck(found, stuck, catalogue.error_types)


def _stuck(folder: Path, began: float) -> StuckCollective | None:
    """What the dumps in ``folder`` show that were written from ``began`` (Unix time) on."""
    try:
        names = [each.name for each in folder.iterdir()]
    except OSError:
        return None
    dumps = [each for each in below(folder, names, ("*",)) if each.modified.timestamp() >= began]
    return read_dumps(dumps, limits=OF_A_PASS).stuck if dumps else None


def _summary(text: bytes, catalogue: Catalogue, name: str, rank: int | None) -> LogSummary:
    reader = LogReader(catalogue, name, rank=rank)
    reader.feed(text)
    reader.finish()
    return reader.summary()


def error_text(ended: HowItEnded, program: str, error: str | None, tail: str, last_words: str) -> str:
    """The text of ``_error``, which is training's own error if there is one. ``error`` is the exception at the end of
    the output, ``tail`` its last lines, and ``last_words`` those before a hang was ended."""
    if ended.hang is not None:
        words = f"The last lines of its output:\n{last_words}\n" if last_words else ""
        return f"Hang: {ended.hang}; lastbeat exec ended {program}\n\n{words}"
    own = next((each.text for each in ended.left.errors if not each.text.startswith(CANCELLED)), None)
    exited = ended.exit or ChildExit(FAILED)
    if own is None or exited.cancelled:
        return sentinel_text(exited, program, error, tail)
    return own


def job_end(ended: HowItEnded, why: Explanation, *, stop_wanted: str | None = None) -> JobEnd:
    """The end in the terms of a policy, without its checkpoints. ``stop_wanted`` names the origin of a request to end
    early."""
    cause = why.cause
    stepped = ended.step is not None and ended.step != ended.resumed_step
    asked = ended.left.asked.by if ended.left.asked is not None else stop_wanted
    if asked is None and ended.exit is not None and ended.exit.cancelled:
        asked = "a signal"
    if cause is not None and (ended.hang is None or why.ended):
        error_type, confidence, second = cause.error_type, cause.confidence, why.second
        key = cause_key(error_type, cause.evidence.text)
    else:
        cause, second = None, None
        error_type, confidence = HANG if ended.hang is not None else UNKNOWN, 1.0
        key = cause_key(error_type, ended.hang or "")
    if ended.hang is not None and error_type == UNKNOWN:
        error_type, confidence = HANG, 1.0
    status = ended.exit.status if ended.exit is not None and ended.exit.status >= 0 else None
    rerun = ended.left.rerun if ended.hang is None else None
    return JobEnd(
        Mode.CRASH if ended.hang is None else Mode.STALL,
        error_type,
        cause.subsystem if cause is not None else None,
        cause.signal if cause is not None else None,
        confidence,
        second.error_type if second is not None else None,
        cause_key=key,
        step=ended.step,
        node=ended.node or None,
        exit_code=rerun.exit_code if rerun is not None and rerun.exit_code is not None else status,
        suspect_nodes=rerun.suspect_hosts if rerun is not None else (),
        asked_by=asked,
        resumed_from=ended.resumed_from,
        first_step=True if stepped else False if ended.lived_s < QUICK_S or ended.step is not None else None,
    )


def ruled(
    policy: RestartPolicy,
    ended: HowItEnded,
    end: JobEnd,
    history: Sequence[RestartEntry],
    now: datetime,
) -> RestartDecision:
    """The decision of ``policy`` after the restarts in ``history``.

    Three ends are never followed by a restart in place: one after success, one with processes that could not be ended,
    and one that asks for other hardware.
    """
    if ended.exit is None:
        return RestartDecision(restart=False, reason="some of its processes could not be ended, and still run")
    if ended.left.done is not None:
        return RestartDecision(restart=False, reason=f"it had ended already ({ended.left.done})")
    decision = decide_restart(policy, end, history, now, delay_s=0.0, chance=0.0)
    if decision.restart and end.exit_code == RESUME_ELSEWHERE:
        # A restart on the same device would be useless.
        reason = f"exit status {RESUME_ELSEWHERE}: it asks to be resumed on other hardware, so in another job"
        return RestartDecision(restart=False, reason=reason)
    return decision


def within(decision: RestartDecision, made: int, most: int) -> RestartDecision:
    """``decision``, limited to ``most`` restarts in place in this job, of which ``made`` are used."""
    if not decision.restart or made < most:
        return decision
    times = "once" if most == 1 else f"{most} times"
    reason = f"restarted in place {times} in this job already, and no more are allowed (--max-restarts {most})"
    return RestartDecision(restart=False, reason=reason, budgets=decision.budgets)


def resumes(found: CheckpointSurvey | None, given: str | None, given_step: int | None) -> tuple[str | None, int | None]:
    """Checkpoint and step for the next start: the newest complete one in ``found``, or else that ``given`` to this
    start. (None, None) if the given one lies in a folder without a usable checkpoint."""
    if found is None:
        return given, given_step
    if found.chosen is not None:
        return found.chosen.url, found.chosen.step
    inside = given is not None and f"{given.rstrip('/')}/".startswith(f"{found.url.rstrip('/')}/")
    return (None, None) if inside else (given, given_step)


def exit_status(ended: HowItEnded, *, asked: bool, asked_by: int | None, followed: bool) -> int:
    """The exit status of ``lastbeat exec`` after its last start, which failed; or minus the signal to die by.

    ``asked`` says that the end was requested, by the signal ``asked_by`` if that is set. The status is then the
    command's own. ``followed`` says that the command was ended because those on other nodes were.
    """
    by_itself = ended.exit is not None and ended.hang is None
    if asked and by_itself and ended.exit is not None:
        return ended.exit.status
    if asked_by is not None:
        # The command did not end by itself, so this process dies by the signal.
        return -asked_by
    if ended.exit is None or not by_itself or followed:
        return FAILED
    return ended.exit.status or FAILED


def pause_s(history: Sequence[RestartEntry], end: JobEnd, lived_s: float) -> float:
    """Pause in s before the next start: 0, unless starts fail at once repeatedly."""
    if lived_s >= QUICK_S or end.first_step:
        return 0.0
    quick = 1
    for each in reversed(history):
        if each.first_step is not False:
            break
        quick += 1
    return backoff_s(quick, 1.0, LONGEST_PAUSE_S)
