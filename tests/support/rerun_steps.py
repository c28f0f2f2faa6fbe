"""A training loop round a re-run state machine, whose results a test makes up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lastbeat.rerun import RerunDataIterator, RerunStateMachine


@dataclass(frozen=True)
class StepSeen:
    """What training saw of one step."""

    passes: int
    leaves: tuple[bool, bool, int]
    verdicts: tuple[str, ...]


def run_step(
    machine: RerunStateMachine,
    result: Callable[[int], float] | Sequence[float],
    batches: "RerunDataIterator[Any] | None" = None,
    **how: Any,
) -> StepSeen:
    """One step, of whose pass number ``n`` (from 0) the loss is ``result(n)`` or ``result[n]``; ``how`` goes to
    ``validate``."""
    passes = 0
    while machine.should_run_forward_backward(batches):
        machine.validate(result[passes] if isinstance(result, Sequence) else result(passes), **how)
        passes += 1
        assert passes < 10, "the step never ends"
    return StepSeen(
        passes, machine.should_checkpoint_and_exit(), tuple(each.verdict.value for each in machine.verdicts)
    )


def resumed(state: dict[str, Any], device: str, **how: Any) -> RerunStateMachine:
    """The machine of another process, on ``device``, that was given ``state``."""
    machine = RerunStateMachine(mode="validate_results", device=device, **how)
    machine.load_state_dict(state)
    return machine
