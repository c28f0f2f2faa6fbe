"""Attributes a bad result to the hardware, as a transient or persistent error, or to the computation. Pure.

A step with a rejected result is run again on the same device, with the same data and the same random numbers. A bad
result that does not come back was a transient error of the hardware. One that does is computed once more on another
device, after a resume. If that gives another result, the first device computes wrongly; if it gives the same, the
computation is wrong. The method is that of Megatron-LM's re-run state machine.

A result *comes back* if it is the same within the tolerance, or is rejected once more: two different bad results do not
make a good one. So hardware is blamed only if one device rejects a result that another, or the same one, accepts.

``READY → INITIAL → READY`` is a step without a rejected result. With one, on any rank::

    INITIAL → IN_PLACE ┬ came back on any rank ─────────► LEAVING (checkpoint, 16) ~ resumed ~► ELSEWHERE
                       ├ something else was rejected ───► IN_PLACE (three times at most, then LEAVING)
                       └ a good result ─────────────────► READY

    ELSEWHERE ┬ another result, by any rank in doubt ───► FAILED (17)
              ├ on the same device ─────────────────────► STUCK (16)
              ├ the same result, where that is fatal ───► FAILED (17)
              ├ something else was rejected ────────────► IN_PLACE
              └ the same result ────────────────────────► READY
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lastbeat.model.rerun import (
    EXIT_CODE_FAILED_ON_RESULT_VALIDATION,
    EXIT_CODE_RESUME_TO_DISAMBIGUATE,
    RerunVerdict,
)

MOST_RERUNS: Final = 3
"""Most re-runs of one step in place."""


class RerunPhase(str, Enum):
    """The phase of a step in training."""

    READY = "ready"
    """Between two steps."""
    INITIAL = "initial_run"
    IN_PLACE = "rerunning_in_place"
    LEAVING = "will_rerun_from_checkpoint"
    """The step is done with a bad result, so training should save a checkpoint and be resumed elsewhere."""
    ELSEWHERE = "rerunning_from_checkpoint"
    """In the same step again, after a resume."""
    STUCK = "rerunning_again_from_checkpoint"
    """The step was repeated on the same device. As LEAVING, but with the existing checkpoint."""
    FAILED = "failed"
    """The step was repeated, and training should not be resumed."""

    @property
    def in_step(self) -> bool:
        """Whether the step is being run."""
        return self in {RerunPhase.INITIAL, RerunPhase.IN_PLACE, RerunPhase.ELSEWHERE}

    @property
    def leaves(self) -> tuple[bool, bool, int]:
        """Whether to save a checkpoint, whether to end, and with which exit status."""
        return _LEAVES.get(self, (False, False, 0))


_LEAVES: Final = {
    RerunPhase.LEAVING: (True, True, EXIT_CODE_RESUME_TO_DISAMBIGUATE),
    RerunPhase.STUCK: (False, True, EXIT_CODE_RESUME_TO_DISAMBIGUATE),
    RerunPhase.FAILED: (False, True, EXIT_CODE_FAILED_ON_RESULT_VALIDATION),
}


class PassEvent(str, Enum):
    """The finding of one rank's pass through a step. All ranks exchange these flags in this order."""

    REJECTED = "rejected"
    """A result was rejected for the first time."""
    NOT_REPRODUCED = "not_reproduced"
    REPRODUCED = "reproduced"
    SAME_DEVICE = "same_device"
    DIFFERS = "differs"
    """Another device gave another result."""
    SAME_RESULT = "same_result"
    """Another device gave the same result."""
    FATAL = "fatal"
    """Another device gave the same result, which ends training."""
    UNREACHED = "unreached"
    """No verdict: the pass did not reach the result again, the two could not be compared, or a result that was rejected
    only once on one device is good on another."""


VERDICTS: Final = {
    PassEvent.NOT_REPRODUCED: RerunVerdict.TRANSIENT_ERROR,
    PassEvent.REPRODUCED: RerunVerdict.REPRODUCED,
    PassEvent.SAME_DEVICE: RerunVerdict.SAME_DEVICE,
    PassEvent.DIFFERS: RerunVerdict.PERSISTENT_ERROR,
    PassEvent.SAME_RESULT: RerunVerdict.CORRECT_RESULT,
    PassEvent.UNREACHED: RerunVerdict.UNDECIDED,
}


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rejected result."""

    name: str
    number: int
    """Number of the result among those of its name in the step, from 1."""
    value: object
    why: str
    """Why it was rejected."""
    iteration: int
    rank: int
    device: str
    host: str
    fatal: bool = False
    """Whether training should end if it turns out to be correct."""
    injected: bool = False
    once: bool = False
    """Whether it was not repeated on that device, so that a good result on another proves nothing."""


@dataclass(frozen=True, slots=True)
class CheckedResult:
    """One checked result of a pass."""

    name: str
    number: int
    value: object
    why: str | None
    """Why it is rejected; None if it is accepted."""
    same_as: Callable[[object], bool | None]
    """Returns whether another value is the same within the tolerance, or None if they cannot be compared."""
    fatal: bool = False
    injected: bool = False
    """Whether it is rejected on purpose, so that its value does not matter."""

    def is_again(self, suspect: Suspect) -> bool | None:
        """Whether ``suspect`` has come back in it; None if unknown."""
        if self.injected or suspect.injected:
            return self.why is not None
        return True if self.why is not None else self.same_as(suspect.value)


@dataclass(frozen=True, slots=True)
class PassOutcome:
    """The outcome of a pass on this rank."""

    events: frozenset[PassEvent]
    again: CheckedResult | None = None
    """This pass's value of the result that was in doubt before."""
    fresh: CheckedResult | None = None
    """The first rejected result that was not in doubt before."""


def look(
    phase: RerunPhase, suspect: Suspect | None, results: Sequence[CheckedResult], device: str, settled: Collection[str]
) -> PassOutcome:
    """The outcome of a pass with ``results``. ``suspect`` is the result in doubt on this rank, if there is one.

    ``settled`` are the names of results that are known to be bad because of the computation, and cause no re-run.
    """
    again, found, known = None, set[PassEvent](), set(settled)
    call: tuple[str, int] | None = None
    if suspect is not None:
        call = (suspect.name, suspect.number)
        again = next((each for each in results if (each.name, each.number) == call), None)
        found = _of_suspect(phase, suspect, again, device)
        if PassEvent.SAME_RESULT in found:
            # Its computation is wrong, and so would be each other result of that name.
            known.add(suspect.name)
    others = (each for each in results if (each.name, each.number) != call and each.name not in known)
    fresh = next((each for each in others if each.why is not None), None)
    return PassOutcome(frozenset(found | {PassEvent.REJECTED} if fresh is not None else found), again, fresh)


def _of_suspect(phase: RerunPhase, suspect: Suspect, again: CheckedResult | None, device: str) -> set[PassEvent]:
    if phase is RerunPhase.ELSEWHERE and device and device == suspect.device:
        return {PassEvent.SAME_DEVICE}
    came_back = again.is_again(suspect) if again is not None else None
    if came_back is None:
        return {PassEvent.UNREACHED}
    if phase is RerunPhase.IN_PLACE:
        return {PassEvent.REPRODUCED if came_back else PassEvent.NOT_REPRODUCED}
    if not (device and suspect.device):
        # It is unknown whether the device is another one.
        return {PassEvent.UNREACHED}
    if not came_back and suspect.once:
        return {PassEvent.UNREACHED}
    if not came_back:
        return {PassEvent.DIFFERS}
    return {PassEvent.SAME_RESULT, PassEvent.FATAL} if suspect.fatal else {PassEvent.SAME_RESULT}


def following(phase: RerunPhase, agreed: Collection[PassEvent], reruns: int) -> RerunPhase:
    """The phase after a pass with the events ``agreed`` on all ranks together, which was the ``reruns``-th in place."""
    if phase is RerunPhase.ELSEWHERE:
        for event, then in _ELSEWHERE:
            if event in agreed:
                return then
        return RerunPhase.READY
    if phase is RerunPhase.IN_PLACE and PassEvent.REPRODUCED in agreed:
        return RerunPhase.LEAVING
    if PassEvent.REJECTED not in agreed:
        return RerunPhase.READY
    return RerunPhase.IN_PLACE if reruns < MOST_RERUNS else RerunPhase.LEAVING


_ELSEWHERE: Final = (
    (PassEvent.DIFFERS, RerunPhase.FAILED),
    (PassEvent.SAME_DEVICE, RerunPhase.STUCK),
    (PassEvent.FATAL, RerunPhase.FAILED),
    (PassEvent.REJECTED, RerunPhase.IN_PLACE),
)
"""Event → next phase. The first event that any rank has found decides."""
