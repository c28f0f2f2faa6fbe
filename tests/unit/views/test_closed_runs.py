"""A run that nobody may look into, as people are shown it: by its name, with its reason, and as it was last known."""

import pytest

from lastbeat.model.status import Status
from lastbeat.model.view import WatchState
from lastbeat.stores.port import DeniedError
from lastbeat.views.one_run import RunWatch
from support.fleet_views import HOUR, Looked
from support.looked import view_of
from support.there import there
from support.world import RUN, World

DENIED = DeniedError("not allowed to list it: Permission denied", "ask its owner")


def looked_at(*, recorded: bool = True) -> Looked:
    looked = Looked()
    looked.beats("run-000", "run-001", "run-002")
    if recorded:
        looked.passes()
    return looked


@pytest.mark.parametrize(
    ("closed", "fresh"),
    [
        pytest.param("run-001/", True, id="its folder, never seen before"),
        pytest.param("run-001/metadata.json", False, id="a heartbeat, seen before"),
        pytest.param("run-001/_watchdog.json", True, id="its record, never seen before"),
    ],
)
def test_its_row_has_the_reason_and_what_passes_recorded(closed: str, fresh: bool) -> None:
    looked = looked_at()
    if not fresh:
        looked.table.open()
    looked.store.closed[closed] = DENIED
    looked.after(HOUR)
    looked.beats("run-000", "run-002", step=2)
    looked.passes()
    watch = looked.fresh() if fresh else looked.table
    view = watch.open() if fresh else watch.round()
    row = looked.row("run-001", view)
    assert row.fault == str(DENIED)
    # It stands as it was recorded: nobody has judged anything since.
    assert (row.status, row.recorded, row.doubt) == (Status.RUNNING, True, None)
    assert looked.row("run-000", view).fault is None
    assert len(view.rows) == 3
    assert view.fault is None
    looked.store.closed.clear()
    looked.beats("run-001", step=3)
    looked.passes()
    row = looked.row("run-001", watch.round())
    assert (row.fault, row.status, row.step) == (None, Status.RUNNING, 3)


@pytest.mark.parametrize("fresh", [False, True], ids=["seen before", "never seen before"])
def test_one_that_nobody_recorded_is_unknown_however_long_it_is_closed(fresh: bool) -> None:
    looked = looked_at(recorded=False)
    if not fresh:
        assert looked.row("run-001").status is Status.RUNNING
    looked.store.closed["run-001/"] = DENIED
    watch = looked.fresh() if fresh else looked.table
    for _ in range(3):
        looked.after(12 * HOUR)
        looked.beats("run-000", "run-002", step=2)
        row = looked.row("run-001", watch.open())
        assert (row.status, row.fault) == (Status.UNKNOWN, str(DENIED))


def test_one_that_ended_long_ago_stays_out_of_sight() -> None:
    looked = looked_at()
    looked.run("run-001").complete()
    for _ in range(4):
        looked.after(10 * HOUR)
        looked.beats("run-000", "run-002", step=2)
        looked.passes()
    looked.store.closed["run-001/"] = DENIED
    looked.after(HOUR)
    looked.beats("run-000", "run-002", step=3)
    for watch in (looked.table, looked.fresh()):
        view = watch.open()
        assert (len(view.rows), view.older) == (2, 1)


def test_what_is_hardly_a_run_is_named_below_the_table() -> None:
    looked, folder = looked_at(), "lost+found/"
    looked.store.closed[folder] = DENIED
    view = looked.table.open()
    assert len(view.rows) == 3
    (note,) = view.notes
    assert folder[:-1] in note
    assert str(DENIED) in note
    looked.store.closed.clear()
    assert looked.table.round().notes == ()


def test_whether_anybody_watches_is_not_known_where_what_passes_leave_is_closed() -> None:
    looked = looked_at()
    last = there(looked.table.open().watching.last_pass_at)
    looked.store.closed["_watchdog/"] = DENIED
    looked.after(HOUR)
    looked.beats("run-000", "run-001")
    view = looked.table.round()
    assert view.watching == WatchState(last, known=False), (
        "what was known of it stands, and that passes stopped does not"
    )
    assert any("Whether a watchdog runs is unknown" in note and str(DENIED) in note for note in view.notes)
    view = looked.fresh().open()
    assert (len(view.rows), view.watching) == (3, WatchState(known=False))
    assert any("Whether a watchdog runs is unknown" in note for note in view.notes)
    doubt = there(looked.row("run-002", view).doubt)
    assert "no watchdog runs" not in doubt


def test_a_run_of_its_own_whose_logs_or_ranks_are_closed_says_so() -> None:
    world = World()
    world.both(100)
    world.put("ranks/0.json", '{"rank": 0, "step": 100}')
    world.look()
    world.store.closed |= {f"{RUN}/{name}": DENIED for name in ("logs/", "ranks/1.json", "ckpt/")}
    view = view_of(world)
    assert [note for note in view.notes if "Permission denied" in note] == [
        f"logs/: {DENIED}",
        f"ranks/1.json: {DENIED}",
    ]
    assert [rank.rank for rank in view.ranks] == [0]
    assert view.row.status is Status.RUNNING
    world.store.closed[f"{RUN}/ranks/"] = world.store.closed.pop(f"{RUN}/ranks/1.json")
    assert f"ranks/: {DENIED}" in view_of(world).notes


@pytest.mark.parametrize("closed", ["", "_error"])
def test_a_run_of_its_own_that_is_closed_is_no_missing_run(closed: str) -> None:
    world = World()
    world.both(100)
    world.store.closed[f"{RUN}/{closed}"] = DENIED
    with pytest.raises(DeniedError):
        RunWatch(world.store, world.policy, RUN).look()
