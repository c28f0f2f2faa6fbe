"""A watch's way to its logs: what is loaded when, and what becomes of it when that goes wrong."""

import pytest

from lastbeat.fleet.context import KEPT_WITH_LOGS
from lastbeat.model.signal import Catalogue
from lastbeat.training.exec.child.exit_reason import ChildExit, sentinel_text
from lastbeat.watch.observe.log_observer import LogSettings, exit_code
from support.world import World


@pytest.mark.parametrize(
    ("child_exit", "code"),
    [
        pytest.param(ChildExit(3), 3, id="an exit status"),
        pytest.param(ChildExit(-9), -9, id="a signal"),
        pytest.param(ChildExit(-9, oom_kills=1), -9, id="a signal of the OOM killer"),
        pytest.param(ChildExit(137), 137, id="an exit status that stands for a signal"),
        pytest.param(ChildExit(-15, signals=(15,)), -15, id="a signal that was passed on"),
    ],
)
def test_how_a_process_ended_is_read_from_what_exec_writes(child_exit: ChildExit, code: int) -> None:
    assert exit_code(sentinel_text(child_exit, "train.py", None, "the end")) == code


@pytest.mark.parametrize(
    "text", ["", "boom", "exit status of the job", "x" * 10_000 + "exit status 3", "boom\nnon-zero exit status 137"]
)
def test_a_text_that_says_nothing_of_the_end_gives_no_code(text: str) -> None:
    assert exit_code(text) is None


def test_signals_that_cannot_be_loaded_hide_no_heartbeat() -> None:
    world = World()

    def gone() -> Catalogue:
        raise FileNotFoundError("own.yaml")

    world.beat()
    world.put("logs/rank0.log", "step 1 loss 2.5\n")
    world.watch = world.fresh_watch(signals=LogSettings(gone, "own.yaml"))
    outcome = world.look(restarted=False)
    assert outcome.status.value == "RUNNING"
    assert any("could not be understood" in note for note in outcome.notes)
    world.error("RuntimeError: CUDA out of memory")
    outcome = world.look(restarted=False)
    assert (outcome.status.value, outcome.cause) == ("FAILED", None)
    assert outcome.action


def test_a_sweep_keeps_what_so_many_logs_said_and_no_more_and_every_record() -> None:
    world = World()
    for number in range(KEPT_WITH_LOGS + 30):
        world.run(f"run-{number:04}").log("step 1 loss 2.5\n")
    world.sweep()
    watches = world.sweeper._context.watches
    assert watches is not None
    assert sum(watch.reads_logs for watch in watches._kept.values()) == KEPT_WITH_LOGS
    assert world.sweep().statuses == {"RUNNING": KEPT_WITH_LOGS + 30}
    for number in range(KEPT_WITH_LOGS + 30):
        world.run(f"run-{number:04}").log("step 1 loss 2.5\nstep 2 loss 2.5\n")
    world.after(1300)
    world.store.calls.clear()
    assert world.sweep().looked == KEPT_WITH_LOGS + 30
    assert not [key for operation, key in world.store.calls if operation == "read" and key.endswith("_watchdog.json")]
