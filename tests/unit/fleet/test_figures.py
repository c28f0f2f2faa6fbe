"""What a pass reports of each run in numbers, and in notes that name the run that they are about."""

import pytest

from lastbeat.model.fleet import FIGURES_LIMIT, PassReport, RunFigures
from lastbeat.stores.port import DeniedError
from support.world import World, running


def of(report: PassReport, run_id: str) -> RunFigures:
    (found,) = (each for each in report.figures if each.line.run_id == run_id)
    return found


def test_a_run_has_its_step_its_loss_and_the_age_of_its_last_beat() -> None:
    world = World()
    run = world.run("run-1")
    run.beat(age_s=90)
    run.progress(7, age_s=40, loss=1.25)
    found = of(world.sweep(), "run-1")
    assert (found.step, found.total_steps, found.loss) == (7, 1000, 1.25)
    assert found.beat_age_s == 40
    assert found.step_at is not None
    assert (world.now - found.step_at).total_seconds() == 40


def test_without_heartbeats_nothing_is_made_up() -> None:
    world = World()
    world.run("run-1").error()
    found = of(world.sweep(), "run-1")
    assert (found.beat_age_s, found.step, found.total_steps, found.loss, found.step_at) == (None,) * 5


def test_the_step_of_an_earlier_attempt_does_not_count() -> None:
    world = World()
    world.run("run-1").both(900)
    world.sweep()
    world.after(3600)
    world.run("run-1").beat(start_time=world.now.isoformat(), attempt=2)
    found = of(world.sweep(), "run-1")
    assert found.line.attempt == 2
    assert (found.step, found.loss) == (None, None)


def test_the_age_of_a_beat_that_was_listed_and_not_read_is_known_all_the_same() -> None:
    world = running(200)
    world.sweep()
    world.after(60)
    world.beat_all()
    world.after(20)
    found = of(world.sweep(), "run-0150")
    assert found.beat_age_s == 20
    assert found.step == 1, "as it was read last"
    assert found.step_at is not None
    assert (world.now - found.step_at).total_seconds() == 80


def test_they_are_bounded_and_those_that_need_people_come_first() -> None:
    world = running(FIGURES_LIMIT + 5)
    world.run(f"run-{FIGURES_LIMIT + 4:04}").error()
    report = world.sweep()
    assert len(report.figures) == FIGURES_LIMIT
    assert report.figures[0].line.run_id == f"run-{FIGURES_LIMIT + 4:04}"
    assert sum(report.statuses.values()) == FIGURES_LIMIT + 5


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
