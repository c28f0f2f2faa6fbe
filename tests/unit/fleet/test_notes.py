"""Notes of a pass: whoever reads one knows which run it is about, and what is true of all runs is said once."""

import pytest

from lastbeat.stores.port import DeniedError
from support.world import World, running

DENIED = DeniedError("not allowed to list it: Permission denied", "ask its owner")


def closed_logs(runs: int, closed: int) -> World:
    """The first ``closed`` of so many runs have logs that nobody may read."""
    world = running(runs)
    for number in range(closed):
        run = f"run-{number:04}"
        world.run(run).log("step 1/100 loss 2.5\n")
        world.store.closed[f"{run}/logs/"] = DENIED
    return world


def test_what_is_to_be_noted_of_many_runs_is_one_note_with_their_number() -> None:
    world = closed_logs(20, 15)
    (note,) = world.sweep().notes
    assert note.startswith("run-0000 and 14 more: ")


def test_of_many_notes_few_are_told_and_the_others_are_counted() -> None:
    world = running(15)
    for number in range(15):
        world.run(f"run-{number:04}").put("_watchdog.json", "{")
    *told, more = world.sweep().notes
    assert [note[:10] for note in told] == [f"run-{number:04}: " for number in range(10)]
    assert all("was damaged" in note for note in told)
    assert more == "5 more notes about runs are left out; `lastbeat show RUN` has those of one"


@pytest.mark.parametrize("runs", [1, 12])
def test_what_is_true_of_the_store_is_told_once_and_of_no_run(runs: int) -> None:
    world = running(runs)
    honest = world.store.write
    world.store.write = lambda key, body, expect=None: honest(key, body)  # type: ignore[method-assign]
    for _ in range(3):
        (note,) = world.sweep().notes
        assert note.startswith(f"{world.store.url} ignores conditional writes")
        world.after(60)
        world.beat_all()
