"""What a sweep pays for over time: no run is looked at for ever, and what is over is let go of."""

import pytest

from lastbeat.model.policy import Policy
from support.fleet import FleetRun, FleetScene

OTHERS = 30


def _looks(prepare: object, each: object, policy: Policy | None = None) -> int:
    """How many looks a run needs in 20 passes, after 40 in which it found its ways."""
    scene = FleetScene(policy)
    run = scene.run("x")
    prepare(run)  # type: ignore[operator]
    scene.sweep()
    looks = 0
    watches = scene.kept._stand.watches if scene.kept else None
    assert watches is not None
    take = watches.take

    def counted(run_id: str) -> object:
        nonlocal looks
        looks += run_id == "x"
        return take(run_id)

    for minute in range(60):
        if minute == 40:
            watches.take = counted  # type: ignore[method-assign,assignment]
        scene.after(60)
        for number in range(OTHERS):
            scene.run(f"o{number:02}").both(1)
        each(run, minute)  # type: ignore[operator]
        scene.sweep()
    return looks


def _frozen(run: FleetRun, _minute: int) -> None:
    run.beat()
    run.put("progress.json", '{"step":1,"last_updated":"2026-01-01T12:00:00Z"}')


def _deleted(run: FleetRun, minute: int) -> None:
    run.beat()
    if minute == 2:
        run.delete("progress.json")


def _bare(run: FleetRun) -> None:
    run.put("metadata.json", "{}")


COSTS = {
    "progress.json deleted, metadata.json beats": (lambda r: r.both(1), _deleted, None),
    "progress.json written again and again": (lambda r: r.both(1), _frozen, None),
    "an old progress.json, written once": (lambda r: (r.beat(), _frozen(r, 0)), lambda r, m: r.beat(), None),
    "hangs and beats": (lambda r: r.both(1), lambda r, m: r.both(1), Policy(stall_s=300.0)),
    "failed and beats": (lambda r: (r.both(1), r.error()), lambda r, m: r.both(1), None),
    "succeeded, and a process beside it beats": (lambda r: (r.both(1), r.complete()), lambda r, m: r.beat(), None),
    "without a time of its own": (_bare, lambda r, m: _bare(r), None),
}  # fmt: skip


@pytest.mark.parametrize("case", COSTS)
def test_no_run_costs_a_look_in_each_pass(case: str) -> None:
    assert _looks(*COSTS[case]) <= 6


def test_a_log_that_came_last_brings_no_old_run_back() -> None:
    scene = FleetScene()
    for number in range(20):
        scene.run(f"r{number}").both(1)
        scene.run(f"r{number}").complete()
    scene.sweep()
    scene.after(5)
    for number in range(20):
        scene.run(f"r{number}").log("the end")
    scene.after(86_500)
    scene.sweep()
    for restarted in (False, True):
        scene.after(60)
        report = scene.sweep(restarted=restarted)
        assert (report.looked, report.finished) == (0, 20)


def test_folders_that_are_deleted_are_forgotten() -> None:
    scene = FleetScene()
    for number in range(20):
        scene.run(f"r{number}").both(1, age_s=200_000)
    assert scene.sweep().finished == 20
    for number in range(20):
        scene.run(f"r{number}").delete()
    assert scene.sweep().finished == 0
