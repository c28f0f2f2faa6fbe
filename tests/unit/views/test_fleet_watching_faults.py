"""A store that fails while a fleet is looked at: what was known stands, and what is not known is said to be unknown."""

import threading
import time
from collections.abc import Callable
from datetime import datetime

import pytest

from lastbeat.model.status import Status
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from support.fleet_views import HOUR, Looked, settle
from support.waiting import LIMIT_S


def looked_at(count: int = 3, *, paid: bool = False) -> Looked:
    looked = Looked(paid=paid)
    looked.beats(*(f"run-{number:03}" for number in range(count)))
    looked.passes()
    return looked


def two_pages(looked: Looked) -> None:
    """Another page of the listing begins among the files of the third run."""
    for number in range(1000):
        looked.run("run-002").put(f"logs/{number}.txt")


def failing(what: str, error: StoreError, *, part: str = "") -> Callable[[str, str], None]:
    """Every call of this kind on a key with ``part`` in it."""

    def hook(operation: str, key: str) -> None:
        if operation == what and part in key:
            raise error

    return hook


GONE = UnreachableError("the store gave no answer", "look at the network")


def test_a_store_that_was_never_seen_is_a_fault_and_no_empty_fleet() -> None:
    looked = looked_at()
    looked.store.before = failing("list", GONE)
    view = looked.table.open()
    assert (view.rows, view.at) == ((), None)
    assert view.fault is not None
    assert (view.fault.reason, view.fault.advice) == ("the store gave no answer", "look at the network")


def test_what_was_known_stands_while_the_store_does_not_answer_and_the_fault_keeps_its_time() -> None:
    looked = looked_at()
    seen = looked.table.open()
    looked.store.before = failing("list", GONE)
    looked.after(HOUR)
    began = looked.table.round().fault
    looked.after(HOUR)
    view = looked.table.round()
    assert (view.rows, view.at) == (seen.rows, seen.at)
    assert began is not None
    assert view.fault == began
    looked.store.heal()
    healed = looked.table.round()
    assert (healed.fault, healed.at) == (None, looked.now)


def test_a_listing_that_breaks_off_shows_what_it_came_to_and_leaves_the_rest() -> None:
    looked = looked_at(4)
    two_pages(looked)
    looked.table.open()
    looked.after(60)
    looked.beats("run-000", "run-003", step=9)
    looked.run("run-001").delete()
    pages = 0

    def second_page(operation: str, _key: str) -> None:
        nonlocal pages
        pages += operation == "list"
        if pages > 1 and operation == "list":
            raise GONE

    looked.store.before = second_page
    view = looked.table.round()
    assert (looked.row("run-000", view).step, looked.row("run-003", view).step) == (9, 1)
    assert len(view.rows) == 4
    assert view.fault is None
    assert view.notes[0].startswith("The listing broke off after ")
    looked.store.heal()
    healed = looked.table.round()
    assert (len(healed.rows), healed.notes, looked.row("run-003", healed).step) == (3, (), 9)


def test_a_document_that_may_not_be_read_is_said_so_and_not_asked_for_at_every_round() -> None:
    looked = looked_at(paid=True)
    looked.store.before = failing("read", DeniedError("not allowed"), part="run-001/progress.json")
    view = looked.table.open()
    row = looked.row("run-001", view)
    assert (row.status, row.step, row.fault) == (Status.RUNNING, None, "progress.json cannot be read: not allowed")
    assert [each.step for each in view.rows if each.run_id != "run-001"] == [1, 1]
    looked.asked()
    settle(looked.table, 9)
    assert looked.asked()["run-001/progress.json"] == 0
    looked.store.heal()
    looked.after(60)
    looked.beats("run-001", step=5)
    row = looked.row("run-001", settle(looked.table))
    assert (row.step, row.fault) == (5, None)


def test_a_mark_that_may_not_be_read_is_no_missing_one() -> None:
    looked = looked_at()
    looked.store.before = failing("read", DeniedError("not allowed"), part="last_pass.json")
    watching = looked.table.open().watching
    assert watching.last_pass_at == looked.now, "the listing shows when it was left"
    assert (watching.interval_s, watching.overdue) == (None, False), "when the next one is due, nobody knows"


def test_a_record_that_may_not_be_read_makes_a_run_unknown_and_no_other() -> None:
    says = "its record cannot be read: not allowed"
    looked = looked_at(paid=True)
    looked.store.held.pop("_watchdog/fleet.json.z")
    looked.store.before = failing("read", DeniedError("not allowed"), part="run-001/_watchdog.json")
    view = looked.table.open()
    assert (looked.row("run-001", view).status, looked.row("run-001", view).fault) == (Status.UNKNOWN, says)
    assert looked.row("run-002", view).status is Status.RUNNING
    assert view.fault is None


def test_nothing_follows_of_a_run_that_nobody_recorded_while_a_part_of_it_cannot_be_read() -> None:
    looked = Looked()
    looked.beats("new")
    looked.store.before = failing("read", DeniedError("not allowed"), part="metadata.json")
    row = looked.row("new")
    assert (row.status, row.fault) == (Status.UNKNOWN, "metadata.json cannot be read: not allowed")


@pytest.mark.parametrize("threads", [1, 8])
def test_a_store_that_stops_to_answer_is_not_asked_for_every_document(threads: int) -> None:
    looked = looked_at(100, paid=True)
    looked.store.before = failing("read", GONE, part="progress.json")
    watch = looked.fresh(threads=threads)
    looked.asked()
    view = watch.open()
    assert sum("progress" in name for name in looked.asked()) < 20
    assert view.fault is not None
    assert {row.status for row in view.rows} == {Status.RUNNING}
    assert {row.step for row in view.rows} == {None}
    assert view.unread > 50
    looked.store.heal()
    watch.open()
    view = watch.view()
    assert (view.fault, view.unread, {row.step for row in view.rows}) == (None, 0, {1})


def test_time_that_runs_out_leaves_rows_that_say_so_and_the_rest_is_read_later() -> None:
    looked = looked_at(50, paid=True)
    view = looked.table.open(until=time.monotonic() - 1)
    assert len(view.rows) == 50
    assert (view.unread, {row.complete for row in view.rows}) == (50, {False})
    view = settle(looked.table)
    assert (view.unread, {row.complete for row in view.rows}) == (0, {True})


def test_a_clock_that_cannot_be_asked_is_carried_on_and_one_that_never_could_is_a_fault() -> None:
    looked = looked_at()
    looked.table.open()
    told = looked.now

    def silent() -> datetime:
        raise GONE

    looked.store.clock = silent  # type: ignore[method-assign]
    view = looked.table.round()
    assert view.fault is None
    assert view.at is not None
    assert 0 <= (view.at - told).total_seconds() < HOUR
    assert looked.fresh().open().fault is not None


def test_many_threads_look_at_once_and_the_store_is_asked_once() -> None:
    looked = looked_at(30)
    looked.table.open()
    looked.asked()
    waiting = threading.Event()

    def hold(operation: str, _key: str) -> None:
        if operation == "list":
            waiting.wait(30)

    looked.store.before = hold
    first = threading.Thread(target=looked.table.round)
    first.start()
    until = time.monotonic() + 30
    while not looked.store.calls and time.monotonic() < until:
        time.sleep(0.001)
    others = [threading.Thread(target=looked.table.round) for _ in range(6)]
    for thread in others:
        thread.start()
    # Whoever only wants to see does not wait.
    assert len(looked.table.view().rows) == 30
    time.sleep(0.05)
    waiting.set()
    for thread in (first, *others):
        thread.join(LIMIT_S)
    assert looked.asked()["list"] == 1


def test_a_long_listing_shows_what_it_has_come_to() -> None:
    looked = Looked()
    looked.beats(*(f"run-{number:04}" for number in range(360)))
    looked.passes()
    watch, shown = looked.fresh(), list[int]()
    looked.store.before = lambda operation, _key: shown.append(len(watch.view().rows)) if operation == "list" else None
    watch.open()
    # Each page of the listing is asked for when people see what came before it.
    assert shown[0] == 0
    assert 0 < shown[-1] < 360


def test_whoever_only_wants_to_see_does_not_wait_for_what_is_being_taken_in() -> None:
    looked = looked_at(30)
    before = looked.table.open()
    # As a thread holds it that is at very many rows.
    with looked.table._lock:
        seen = list[object]()
        thread = threading.Thread(target=lambda: seen.append(looked.table.view()))
        thread.start()
        thread.join(LIMIT_S)
    assert seen == [before]
