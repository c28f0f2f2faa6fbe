"""How a start ended, as restart policies have it, and what a policy says about that."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from lastbeat.causes.error_file import FILE
from lastbeat.causes.explaining import explain
from lastbeat.causes.log_reader import LogReader
from lastbeat.causes.log_summary import LogSummary
from lastbeat.child.exit_reason import ChildExit
from lastbeat.decide.restart import cause_key, decide_restart
from lastbeat.in_place.looking import LeftBehind
from lastbeat.model.cause import Explanation
from lastbeat.model.checkpoint import CheckpointSurvey
from lastbeat.model.restart import JobEnd, Mode, RestartDecision, RestartEntry, RestartPolicy
from lastbeat.model.signal import Catalogue
from lastbeat.signals.error_types import HANG, UNKNOWN

QUICK_S: Final = 60.0
"""Who lives no longer than that and makes no step has failed at once."""
LONGEST_PAUSE_S: Final = 60.0
_RANK: Final = re.compile(r"ranks/(\d{1,7})\.error")


@dataclass(frozen=True, slots=True)
class HowItEnded:
    """All that is known of the end of one start."""

    exit: ChildExit | None
    """None: it could not be ended."""
    hang: str | None = None
    """Why it counted as hanging, and was ended."""
    text: bytes = b""
    """The end of its output."""
    error: str = ""
    """What its ``_error`` says, if it is not started again."""
    left: LeftBehind = field(default_factory=LeftBehind)
    lived_s: float = 0.0
    step: int | None = None
    """The last step that was seen."""
    resumed_from: str | None = None
    """The checkpoint that it was given, and its step."""
    resumed_step: int | None = None
    node: str = ""


def explained(ended: HowItEnded, catalogue: Catalogue) -> Explanation:
    """The cause, as its output, its ranks' errors, its exit status and what would be its ``_error`` show it: what
    watchers will find, too."""
    logs = [_summary(ended.text, catalogue, "output", None), _summary(ended.error.encode(), catalogue, FILE, None)]
    # Of one that hung its ranks say that they were ended.
    for each in ended.left.errors if ended.hang is None else ():
        named = _RANK.fullmatch(each.name)
        logs.append(_summary(each.text.encode(), catalogue, each.name, int(named[1]) if named is not None else None))
    status = ended.exit.status if ended.exit is not None and ended.hang is None else None
    return explain(logs, catalogue, exit_code=status)


def _summary(text: bytes, catalogue: Catalogue, name: str, rank: int | None) -> LogSummary:
    reader = LogReader(catalogue, name, rank=rank)
    reader.feed(text)
    reader.finish()
    return reader.summary()


def job_end(
    ended: HowItEnded, why: Explanation, found: CheckpointSurvey | None, *, stop_wanted: str | None = None
) -> JobEnd:
    """The end as a policy has it. ``stop_wanted``: who or what had asked training to end early."""
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
    return JobEnd(
        Mode.CRASH if ended.hang is None else Mode.STALL,
        error_type,
        cause.subsystem if cause is not None else None,
        cause.signal if cause is not None else None,
        confidence,
        second.error_type if second is not None else None,
        cause_key=key,
        step=ended.step,
        checkpoint_step=found.newest_step if found is not None else None,
        node=ended.node or None,
        exit_code=ended.exit.status if ended.exit is not None and ended.exit.status >= 0 else None,
        asked_by=asked,
        resumed_from=ended.resumed_from,
        first_step=True if stepped else False if ended.lived_s < QUICK_S or ended.step is not None else None,
    )


def ruled(
    policy: RestartPolicy,
    ended: HowItEnded,
    end: JobEnd,
    history: Sequence[RestartEntry],
    most: int,
    now: datetime,
) -> RestartDecision:
    """What ``policy`` says, and within how many restarts in place: ``most`` in this job.

    Some ends are none that anybody starts again: what had already ended well, and what could not be ended.
    """
    if ended.exit is None:
        return RestartDecision(restart=False, reason="some of its processes could not be ended, and still run")
    if ended.left.done is not None:
        return RestartDecision(restart=False, reason=f"it had ended already ({ended.left.done})")
    decision = decide_restart(policy, end, history, now, delay_s=0.0, chance=0.0)
    if decision.restart and len(history) >= most:
        times = "once" if most == 1 else f"{most} times"
        reason = f"restarted in place {times} in this job already, and no more are allowed (--max-restarts {most})"
        return RestartDecision(restart=False, reason=reason, budgets=decision.budgets)
    return decision


def pause_s(history: Sequence[RestartEntry], end: JobEnd, lived_s: float) -> float:
    """How long to wait before the next start: not at all, unless it fails at once, and again."""
    if lived_s >= QUICK_S or end.first_step:
        return 0.0
    quick = 1
    for each in reversed(history):
        if each.first_step is not False:
            break
        quick += 1
    return min(LONGEST_PAUSE_S, 2.0 ** min(quick, 10) / 2.0)
