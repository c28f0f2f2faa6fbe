"""A watch's way to its logs: what is loaded when, and what becomes of it when that goes wrong."""

import pytest

from lastbeat.fleet.context import KEPT_WITH_LOGS, WatchCache
from lastbeat.model.signal import Catalogue
from lastbeat.training.exec.child.exit_reason import ChildExit, sentinel_text
from lastbeat.watch.observe.log_observer import LogSettings, exit_code
from lastbeat.watch.watchdog import WatchContext
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


def test_of_so_many_watches_and_no_more_a_sweep_keeps_what_logs_said_and_of_all_the_record() -> None:
    world = World()
    watches = WatchCache(
        WatchContext(store=world.store, channels=[], policy=world.policy, state=world.state, clock=lambda: world.now)
    )
    runs = [f"run-{number:04}" for number in range(KEPT_WITH_LOGS + 3)]
    for run_id in runs:
        world.run(run_id).log("step 1 loss 2.5\n")
        watch = watches.take(run_id)
        watch.tick()
        watches.put_back(watch)
    kept = [watches.take(run_id) for run_id in runs]
    assert [watch.reads_logs for watch in kept] == [False] * 3 + [True] * KEPT_WITH_LOGS
    world.store.calls.clear()
    assert kept[0].tick().status.value == "RUNNING"
    assert not [key for operation, key in world.store.calls if operation == "read" and key.endswith("_watchdog.json")]
