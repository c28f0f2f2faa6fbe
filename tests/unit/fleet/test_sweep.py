"""A sweep tells the truth about every run, and pays for little more than its listing."""

from collections import Counter

import pytest

from lastbeat.model.policy import FleetPolicy, Policy
from support.pairwise import all_pairs
from support.world import World, running

CRASH = (
    'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\nRuntimeError: CUDA out of memory.\n'
)


def test_every_run_is_looked_at_once_and_its_end_is_told() -> None:
    world = running(30)
    world.run("run-0003").error("RuntimeError: CUDA out of memory")
    world.run("run-0004").complete()
    report = world.sweep()
    assert report.statuses == {"RUNNING": 28, "FAILED": 1, "SUCCEEDED": 1}
    assert report.lines[0].run_id == "run-0003"
    assert report.lines[0].cause == "oom"
    assert {(run, transition.after.value) for run, transition in report.transitions} >= {
        ("run-0003", "FAILED"),
        ("run-0004", "SUCCEEDED"),
    }
    assert sorted(world.channel.events) == ["FAILED", "SUCCEEDED"]
    assert report.complete
    assert report.exit_status == 2


@pytest.mark.parametrize("restarted", [False, True], ids=["warm", "cold"])
def test_a_healthy_fleet_costs_its_listing_and_a_few_reads(restarted: bool) -> None:
    world = running(400)
    world.sweep()
    world.after(60)
    world.beat_all()
    world.store.calls.clear()
    report = world.sweep(restarted=restarted)
    counts = Counter(operation for operation, _ in world.store.calls)
    assert counts["list"] == 2  # 1,201 keys: two heartbeats and a record each, and the memory
    assert counts["read"] <= 80  # a twentieth of the fleet, as each minute
    assert counts["write"] <= 1
    assert report.statuses == {"RUNNING": 400}


def test_in_a_large_fleet_a_loss_that_is_no_number_is_found_within_the_reading_time() -> None:
    world = running(100)
    world.sweep()
    for _ in range(21):
        world.after(60)
        world.beat_all(but=("run-0075",))
        world.run("run-0075").both(3)
        world.run("run-0075").progress(3, loss="NaN")
        world.sweep()
    assert world.told("run-0075") == ["WARNING"]


def test_a_document_that_is_written_again_and_again_is_found_out() -> None:
    world = running(10)
    frozen = world.now.isoformat()
    for _ in range(30):
        world.after(60)
        world.beat_all(but=("run-0009",))
        world.run("run-0009").put("metadata.json", f'{{"last_update": "{frozen}"}}')
        world.run("run-0009").put("progress.json", f'{{"step": 1, "last_updated": "{frozen}"}}')
        world.sweep()
    assert world.told("run-0009") == ["TIMED_OUT"]


def test_what_ended_long_before_anybody_watched_is_history() -> None:
    world = World()
    for number in range(50):
        run = world.run(f"old-{number}")
        run.both(1, age_s=90_000)
        run.complete(age_s=90_000)
    world.run("silent").both(1, age_s=90_000)
    fresh = world.run("fresh")
    fresh.both(1, age_s=80_000)
    fresh.error(age_s=80_000)
    report = world.sweep()
    assert report.finished == 51
    assert report.statuses == {"FAILED": 1}
    assert world.told("fresh") == ["FAILED"]
    assert len(world.channel.sent) == 1
    assert world.run("old-3").record is None


def test_a_living_run_whose_files_are_all_deleted_is_not_forgotten() -> None:
    world = running(10)
    world.sweep()
    world.run("run-0005").delete()
    report = world.sweeps(12, but=("run-0005",), restarted=True)
    assert world.told("run-0005") == ["TIMED_OUT"]
    assert report.statuses == {"RUNNING": 9, "TIMED_OUT": 1}


TIDYING: dict[str, list[tuple[str, ...]]] = {
    "all at once": [()],
    "in the order of its keys, with many checkpoints in between": [("_complete", "_error", "_watchdog.json"), ()],
}
"""The files that each step deletes; without any, the whole folder."""


@pytest.mark.parametrize(("tidying", "end", "restarted"), all_pairs(TIDYING, ["complete", "silence"], [False, True]))
def test_tidying_up_after_a_run_that_is_over_is_no_news(tidying: str, end: str, restarted: bool) -> None:
    world = running(10)
    world.sweep()
    if end != "silence":
        getattr(world.run("run-0005"), end)()
    world.sweeps(12, but=("run-0005",), restarted=restarted)
    told = world.told("run-0005")
    assert len(told) == 1
    for names in TIDYING[tidying]:
        world.run("run-0005").delete(*names)
        report = world.sweeps(15, but=("run-0005",), restarted=restarted)
    assert world.told("run-0005") == told
    assert report.statuses == {"RUNNING": 9}


@pytest.mark.parametrize("restarted", [False, True], ids=["warm", "cold"])
def test_a_run_that_has_a_log_alone_lives_by_it(restarted: bool) -> None:
    world = World()
    for minute in range(30):
        world.run("run-1").log("".join(f"step {step} loss 2.5\n" for step in range(minute + 1)))
        assert world.sweep(restarted=restarted).statuses == {"RUNNING": 1}
        world.after(60)
    for _ in range(12):
        report = world.sweep(restarted=restarted)
        world.after(60)
    assert report.statuses == {"TIMED_OUT": 1}
    world.run("run-1").log("".join(f"step {step} loss 2.5\n" for step in range(40)))
    assert world.sweep(restarted=restarted).statuses == {"RUNNING": 1}
    assert world.told("run-1") == ["TIMED_OUT", "RECOVERED"]


def test_a_crash_in_a_log_is_found_when_the_run_falls_silent_at_the_latest() -> None:
    world = running(8)
    world.sweep()
    run = world.run("run-0007")
    for minute in range(12):
        world.after(60)
        world.beat_all(but=("run-0007",))
        if minute == 0:
            run.log(f"step 5 loss 2.5\n{CRASH}")
        report = world.sweep()
    assert world.told("run-0007") == ["FAILED"]
    assert (report.lines[0].run_id, report.lines[0].cause) == ("run-0007", "oom")


def test_folders_without_a_run_s_files_are_no_runs() -> None:
    world = running(1)
    world.store.put_text("datasets/train.bin", "x")
    world.store.put_text("my run/metadata.json", "{}")
    report = world.sweep()
    assert report.statuses == {"RUNNING": 1}
    assert report.ignored == ("my run",)


def test_a_log_that_stands_still_for_the_catalogue_s_limit_is_found_in_a_fleet() -> None:
    world = running(6, policy=Policy(inactivity_s=900.0), fleet=FleetPolicy(group_runs=50))
    for minute in range(36):
        world.after(60)
        world.beat_all()
        if minute < 3:
            world.run("run-0003").log("loading\n" * (minute + 1))
        world.sweep()
    assert world.told("run-0003") == ["WARNING", "TIMED_OUT"]


@pytest.mark.parametrize("fresh", [True, False], ids=["a process a pass", "one process"])
def test_a_run_that_misses_its_beats_is_warned_of_once_until_it_beats_again(fresh: bool) -> None:
    world = World()
    run = world.run("r")

    def sweep() -> list[str]:
        world.sweep(restarted=fresh)
        return list(world.channel.events)

    run.beat(beat_seconds=30)
    for _ in range(3):
        world.after(30)
        run.beat(beat_seconds=30)
        assert sweep() == []
    world.after(120)
    assert sweep() == []
    world.after(10)
    assert sweep() == ["WARNING"]
    assert "beats_missed" in world.channel.sent[-1].conditions
    world.after(60)
    assert sweep() == ["WARNING"]
    run.beat(beat_seconds=30)
    assert [line.conditions for line in world.sweep(restarted=fresh).lines] == [()]


@pytest.mark.parametrize("fresh", [True, False], ids=["a process a pass", "one process"])
def test_a_sweep_holds_a_run_against_its_own_limit(fresh: bool) -> None:
    world = World()
    world.run("r").beat(stale_minutes=2)
    seen = []
    for _ in range(5):
        seen.append([line.status.value for line in world.sweep(restarted=fresh).lines])
        world.after(50)
    assert seen == [["RUNNING"]] * 3 + [["TIMED_OUT"]] * 2
    assert world.channel.events == ["TIMED_OUT"]
