"""A fleet in which two runs died of one cause, two of another, on three nodes, and what is known of that."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from lastbeat.model.cause import Cause, Evidence
from lastbeat.model.record import Attempt, HeartbeatMemory, Record, Transition
from lastbeat.model.similar import WENT_ON, SimilarFailure
from lastbeat.model.state import RecordedCause, State
from lastbeat.model.status import Status
from lastbeat.model.timesheet import AttemptTimes, Timesheet
from lastbeat.watch.record.codec import encode

_START = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(days=3)
_RUNNING, _FAILED = Status.RUNNING, Status.FAILED
_CAUSES = {
    "oom": ("cuda_oom", "aaaa", "torch.OutOfMemoryError: CUDA out of memory"),
    "nccl": ("nccl_timeout", "bbbb", "Watchdog caught collective operation timeout"),
}


def _at(hours: float) -> datetime:
    return _START + timedelta(hours=hours)


def _failed(
    run_id: str, owner: str, node: str, cause: str, *, resumed: int | None, back: float | None = 12.0, longer: str = ""
) -> bytes:
    """100 steps in 10 hours, dead then, seen half an hour later, going on after ``back`` hours from ``resumed``."""
    signal, fingerprint, reason = _CAUSES[cause]
    reason, fingerprint = reason + longer, fingerprint + longer[-1:]
    history = [
        Transition(1, _at(0), None, _RUNNING, "began", 1),
        Transition(2, _at(10.5), _RUNNING, _FAILED, reason, 1, cause, step=100, signal=signal, fingerprint=fingerprint,
                   node=node),
    ]  # fmt: skip
    first = AttemptTimes(
        1, started_at=_at(0), first_step=1, first_step_at=_at(0.1), first_is_told=True, last_step=100,
        last_step_at=_at(10), died_at=_at(10), seen_at=_at(10.5), end=_FAILED,
    )  # fmt: skip
    sheet = [first]
    if back is not None:
        history.append(Transition(3, _at(back), _FAILED, _RUNNING, "Attempt 2 started", 2))
        again = AttemptTimes(2, started_at=_at(back))
        if resumed is not None:
            step, at = resumed + 1, _at(back)
            again = replace(
                again, first_step=step, first_step_at=at, first_is_told=True, last_step=step, last_step_at=at
            )
        sheet.append(again)
    made = Record(
        run_id, State(history[-1].after), attempt=Attempt(history[-1].attempt), history=tuple(history),
        transitions=len(history), timesheet=Timesheet(tuple(sheet)), metadata=HeartbeatMemory(_at(0), owner=owner),
    )  # fmt: skip
    if back is None:
        # Nobody has started it again, so its record says of what it died, and who died of that before.
        shown = Cause(cause, Evidence("train.log", 7, reason), 0.9, signal=signal, fingerprint=fingerprint)
        before = SimilarFailure("gpt-1", _at(1), runs=2, aftermath=WENT_ON)
        why = RecordedCause(shown, similar=before)
        made = replace(made, state=State(history[-1].after, reason, cause, explained=why))
    return encode(made)


FAILED_FLEET = {
    "llama-1": _failed("llama-1", "alice", "node-1", "oom", resumed=50),
    "llama-2": _failed("llama-2", "alice", "node-2", "oom", resumed=90, longer=" on GPU 3 of 8"),
    "gpt-1": _failed("gpt-1", "bob", "node-1", "nccl", resumed=None, back=30.5),
    "gpt-2": _failed("gpt-2", "bob", "node-3", "nccl", resumed=100, back=None),
    "thin": encode(Record("thin")),
}
