"""Each transition tells how far its attempt had come, and what showed its cause: what people later learn from."""

from collections.abc import Callable

import pytest

from lastbeat.model.policy import Policy
from support.world import World

MINUTE = 60.0


@pytest.mark.parametrize(
    ("act", "step"),
    [
        pytest.param(lambda s: (s.beat(), s.progress(7), s.look(), s.error("boom")), 7,
                     id="a failure has the step of progress.json"),
        pytest.param(lambda s: (s.beat(step=9), s.look(), s.error("boom")), 9,
                     id="or that of metadata.json"),
        pytest.param(lambda s: (s.beat(), s.progress(7), s.look(), s.after(3600)), 7,
                     id="a silence has the step before it"),
        pytest.param(lambda s: (s.beat(), s.progress(7), s.look(), s.delete("progress.json"), s.error("x")), 7,
                     id="a file that was cleaned up told it before"),
        pytest.param(lambda s: (s.beat(), s.look(), s.error("boom")), None,
                     id="unknown is not zero"),
    ],
)  # fmt: skip
def test_a_transition_has_the_last_step_of_its_attempt(act: Callable[[World], object], step: int | None) -> None:
    world = World(Policy())
    act(world)
    record = world.record_after_look()
    assert record.history[-1].step == step


def test_a_new_attempt_does_not_inherit_the_step_of_the_last_one() -> None:
    world = World(Policy())
    world.beat(start_time=world.now.isoformat())
    world.progress(700)
    world.look()
    world.after(120)
    world.beat(start_time=world.now.isoformat())
    record = world.record_after_look()
    assert [(each.attempt, each.step) for each in record.history] == [(1, 700), (2, None)]


def test_a_failure_with_a_cause_says_how_sure_that_is_and_what_showed_it() -> None:
    world = World(Policy())
    world.beat()
    world.look()
    world.error("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    record = world.record_after_look()
    assert record.explained is not None
    last, cause = record.history[-1], record.explained.cause
    assert (last.cause, last.signal, last.subsystem) == ("oom", cause.signal, cause.subsystem)
    assert last.confidence == pytest.approx(cause.confidence, abs=0.001)
    assert record.history[0].confidence is None
