"""However a fleet came to be as it is: who watched it all along sees what somebody sees who comes anew, and no round
costs more than a listing."""

from collections.abc import Callable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lastbeat.model.view import FleetView, Row
from lastbeat.views.watching import READS_A_PAGE, FleetWatch
from support.fleet_views import Looked
from support.laws import examples

IDS = ("a", "a-1", "a.b", "B", "run-1", "run-10", "run-2")
Deed = Callable[[Looked, str], object]


def _beat(looked: Looked, run_id: str) -> None:
    looked.beats(run_id, step=int(looked.now.timestamp()) % 997)


def _fail(looked: Looked, run_id: str) -> None:
    looked.beats(run_id)
    looked.run(run_id).error()


def _done(looked: Looked, run_id: str) -> None:
    looked.beats(run_id)
    looked.run(run_id).complete()


def _again(looked: Looked, run_id: str) -> None:
    looked.run(run_id).delete("_error", "_complete")
    looked.run(run_id).beat(start_time=looked.now.isoformat(), attempt=2)
    looked.run(run_id).progress(3)


def _shell(looked: Looked, run_id: str) -> None:
    looked.run(run_id).beat(loss="NaN", step=4)


def _log(looked: Looked, run_id: str) -> None:
    looked.run(run_id).log(f"step {int(looked.now.timestamp()) % 997} loss 1.5\n")


DEEDS: dict[str, Deed] = {
    "beat": _beat,
    "fail": _fail,
    "done": _done,
    "again": _again,
    "shell": _shell,
    "log": _log,
    "untidy": lambda looked, run_id: looked.run(run_id).delete("progress.json"),
    "unrecorded": lambda looked, run_id: looked.run(run_id).delete("_watchdog.json"),
    "deleted": lambda looked, run_id: looked.run(run_id).delete(),
    "pass": lambda looked, _run_id: looked.passes(),
    "memory lost": lambda looked, _run_id: looked.store.held.pop("_watchdog/fleet.json.z", None),
    "a minute": lambda looked, _run_id: looked.after(60),
    "eleven minutes": lambda looked, _run_id: looked.after(660),
    "a day": lambda looked, _run_id: looked.after(90_000),
    "round": lambda looked, _run_id: looked.table.round(),
    "opened": lambda looked, _run_id: looked.table.open(),
}
_deeds = st.lists(st.tuples(st.sampled_from(list(DEEDS)), st.sampled_from(IDS)), max_size=30)


def plain(rows: tuple[Row, ...]) -> list[str]:
    """As text, in which a NaN is equal to itself."""
    return [repr(row) for row in rows]


def settled(looked: Looked, watch: FleetWatch) -> FleetView:
    """As many rounds as it takes until three in a row only list."""
    lists_only = 0
    for _ in range(16):
        looked.asked()
        watch.round()
        lists_only = 0 if set(looked.asked()) - {"list"} else lists_only + 1
        if lists_only == 3:
            break
    return watch.view()


@settings(max_examples=examples(40))
@example([("beat", "a"), ("pass", "a"), ("round", "a"), ("untidy", "a"), ("memory lost", "a")], False)
@given(_deeds, st.booleans())
def test_who_watched_all_along_sees_what_somebody_sees_who_comes_anew(
    deeds: list[tuple[str, str]],
    paid: bool,
) -> None:
    looked = Looked(paid=paid)
    looked.table.open()
    for what, run_id in deeds:
        DEEDS[what](looked, run_id)
    known = settled(looked, looked.table)
    anew = looked.fresh()
    anew.open()
    fresh = settled(looked, anew)
    assert plain(known.rows) == plain(fresh.rows) == plain(settled(looked, looked.fresh()).rows)
    assert (known.older, known.unread, known.watching) == (fresh.older, fresh.unread, fresh.watching)


@settings(max_examples=examples(30))
@example(["beat", "pass"], [600.0, 121.0], 1)
@example(["beat", "pass", "fail"], [170.0, 20.0], 1)
@example(["beat", "pass", "a minute", "fail", "pass"], [86_390.0, 20.0], 1)
@example(["beat", "done", "pass"], [86_390.0, 20.0], 1)
@example(["beat", "fail", "pass"], [86_390.0, 20.0], 8)
@example(["beat", "pass", "a minute", "done", "pass"], [86_300.0, 200.0], 8)
@example(["beat", "pass", "a minute", "fail", "pass"], [86_300.0, 200.0], 8)
@given(
    st.lists(st.sampled_from(["beat", "fail", "done", "again", "shell", "log", "pass", "eleven minutes"]), max_size=8),
    st.lists(st.sampled_from([1.0, 119.0, 299.0, 599.0, 721.0, 3600.0, 43_200.0, 86_399.0]), min_size=1, max_size=6),
    st.sampled_from([1, 8]),
)
def test_a_row_that_only_time_changes_is_not_missed(deeds: list[str], waits_s: list[float], days: int) -> None:
    looked = Looked()
    watch = looked.fresh(since_s=86_400.0 * days)
    # Among others it has a place.
    looked.beats("b")
    for what in deeds:
        DEEDS[what](looked, "a")
        watch.round()
    for wait_s in waits_s:
        looked.after(wait_s)
        known, fresh = watch.round(), looked.fresh(since_s=86_400.0 * days).open()
        assert (plain(known.rows), known.older) == (plain(fresh.rows), fresh.older)


@settings(max_examples=examples(40))
@given(_deeds)
def test_a_round_lists_once_or_reads_a_few_documents(deeds: list[tuple[str, str]]) -> None:
    looked = Looked(paid=True)
    looked.table.open()
    for what, run_id in deeds:
        DEEDS[what](looked, run_id)
        looked.asked()
        looked.table.round([run_id])
        asked = looked.asked()
        reads = sum(count for name, count in asked.items() if name != "list")
        assert (asked.get("list", 0), reads) == (1, 0) or ("list" not in asked and reads <= READS_A_PAGE)
        assert not {"write", "delete", "folders"} & set(asked)
