"""What a look costs, and what it must not be led astray by."""

import pytest

from lastbeat.model.observation import Seen
from lastbeat.watch.observe.run import Observer, last_lines
from support.memory import MemoryStore
from support.there import there
from support.world import RUN, World


def observer_of(store: MemoryStore) -> Observer:
    store.calls.clear()
    return Observer(store, RUN)


@pytest.mark.parametrize(
    ("names", "requests"),
    [
        pytest.param([], 1, id="only its own files: one listing"),
        pytest.param([f"checkpoints/step-{n}/shard-{m}.pt" for n in range(300) for m in range(10)], 2,
                     id="thousands of checkpoint shards in folders: one more"),
        pytest.param([f"checkpoint-{n:06d}.pt" for n in range(5000)], 2,
                     id="thousands of checkpoints beside the heartbeats: one more"),
        pytest.param([f"{prefix}-{n}" for prefix in "Zaknot" for n in range(1500)], 4,
                     id="thousands of files everywhere: never more than one a name"),
    ],
)  # fmt: skip
def test_other_files_in_the_folder_cost_next_to_nothing(names: list[str], requests: int) -> None:
    world = World()
    for name in names:
        world.put(name, "x")
    world.both(5)
    world.complete()
    world.log("hello")
    observer = observer_of(world.store)
    seen, _ = observer.look()
    assert isinstance(seen, Seen)
    assert seen.metadata is not None
    assert seen.progress is not None
    assert seen.complete is not None
    assert there(seen.log).size_bytes == 5
    assert sum(operation == "list" for operation, _ in world.store.calls) <= requests


def test_a_5_gb_error_costs_a_few_kilobytes() -> None:
    world = World()
    world.error("OSError: disk full\n" + "x" * 1_000_000)
    observer = observer_of(world.store)
    seen, _ = observer.look()
    assert isinstance(seen, Seen)
    assert len(there(seen.error).text) == 32 * 1024


@pytest.mark.parametrize(
    ("tail", "cut", "lines"),
    [
        pytest.param(b"one\ntwo\n\nthree\n", False, ("one", "two", "three"), id="empty lines are left out"),
        pytest.param(b"alf a line\ntwo\n", True, ("two",), id="half a line at the cut is left out"),
        pytest.param(b"10%\r20%\r30%\ndone", False, ("30%", "done"), id="a progress bar is its last state"),
        pytest.param(b"one\r\ntwo\r\n", False, ("one", "two"), id="Windows line ends"),
        pytest.param(b"no end", True, ("no end",), id="one line longer than the window"),
        pytest.param("über\n".encode()[1:], False, ("\ufffdber",), id="half a character"),
        pytest.param(b"x" * 100_000, False, ("x" * 400,), id="a line without end is cut"),
        pytest.param(b"", False, (), id="nothing"),
    ],
)
def test_the_last_lines_of_a_log(tail: bytes, cut: bool, lines: tuple[str, ...]) -> None:
    assert last_lines(tail, cut_at_start=cut) == lines
