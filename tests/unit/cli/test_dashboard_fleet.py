"""One look at the fleet for all browsers: what each is told, and what the store is asked for it."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.figures import Figures
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import FleetView, Row, StoreOutage
from lastbeat.views.documents import Delta, fleet_document
from lastbeat.views.served.fleet import DocumentQuery, FleetLook
from support.memory import START
from support.waiting import until


class Clock:
    """Turned by hand."""

    def __init__(self) -> None:
        self._now = 100.0
        self._read = 0
        """How often other threads have read it since it was turned."""
        self._lock = threading.Lock()

    def __call__(self) -> float:
        with self._lock:
            self._read += threading.current_thread() is not threading.main_thread()
            return self._now

    @property
    def now(self) -> float:
        return self._now

    @now.setter
    def now(self, now: float) -> None:
        with self._lock:
            self._now, self._read = now, 0

    def wait_for_reads(self, count: int) -> None:
        """Wait until other threads have read it so often since it was turned."""
        until(lambda: self._read >= count)


class Watching:
    """A fleet that is whatever the test says."""

    def __init__(self, *names: str) -> None:
        self.rows = [Row(name, ShownState(Status.RUNNING), figures=Figures(1)) for name in names]
        self.asked: list[str] = []
        self.wanted: Sequence[str] = ()
        self.fault: Exception | None = None
        self.told_fault: StoreOutage | None = None
        self.on_open: Callable[[], None] = lambda: None
        self.on_ask: Callable[[], None] = lambda: None

    def _ask(self, what: str) -> FleetView:
        self.asked.append(what)
        self.on_ask()
        if self.fault is not None:
            raise self.fault
        return self.view()

    def open(self, until: float = float("inf"), on_progress: Callable[[int, int], None] | None = None) -> FleetView:
        if on_progress is not None:
            on_progress(1, 2)
        self.on_open()
        return self._ask("open")

    def round(self, wanted: Sequence[str] = ()) -> FleetView:
        self.wanted = wanted
        return self._ask("round")

    def view(self) -> FleetView:
        return FleetView("/runs", START, tuple(self.rows), fault=self.told_fault)

    def change(self, name: str, **fields: Any) -> None:
        self.rows = [replace(row, **fields) if row.run_id == name else row for row in self.rows]


def document(told: DocumentQuery) -> Mapping[str, object]:
    snapshot = told.snapshot
    rows = [snapshot.rows[run_id] for run_id in told.changed]
    delta = None if told.since is None else Delta(told.since, rows, told.gone)
    return fleet_document(snapshot.view, seq=snapshot.seq, epoch=told.epoch, delta=delta)


def all_of(look: FleetLook) -> dict[str, Any]:
    """What a browser is told that knows nothing yet."""
    told: dict[str, Any] = json.loads(look.document(None, None, ()).plain)
    return told


class Browser:
    """Keeps what it was told, as the page does."""

    def __init__(self, look: FleetLook) -> None:
        self._look = look
        self.last: dict[str, Any] = {}
        self.order: list[str] = []
        self.steps: dict[str, int | None] = {}

    def ask(self, *seen: str) -> dict[str, Any]:
        body = self._look.document(self.last.get("seq"), self.last.get("epoch"), seen)
        self.last = json.loads(body.plain)
        told = {row["run_id"]: row["rank"] for row in self.last["runs"]}
        self.steps |= {row["run_id"]: row["step"] for row in self.last["runs"]}
        if self.last["since"] is None:
            self.order = list(told)
        else:
            kept = [name for name in self.order if name not in told and name not in self.last["gone"]]
            for name, rank in told.items():
                kept.insert(rank, name)
            self.order = kept
        return self.last

    @property
    def told(self) -> list[str]:
        return [row["run_id"] for row in self.last["runs"]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watching() -> Watching:
    return Watching("a", "b", "c")


@pytest.fixture
def look(watching: Watching, clock: Clock) -> FleetLook:
    return FleetLook(watching, document, interval_s=5, epoch="e", steady=clock)


def test_who_comes_anew_is_told_everything_and_then_what_changed(watching: Watching, look: FleetLook) -> None:
    look.look()
    browser = Browser(look)
    assert browser.ask()["since"] is None
    assert browser.told == ["a", "b", "c"]
    watching.change("b", figures=Figures(2))
    look.look()
    assert (browser.ask()["since"], browser.told) == (1, ["b"])
    look.look()
    assert browser.ask()["runs"] == []


def test_who_was_told_by_another_server_or_too_long_ago_is_told_everything(watching: Watching, look: FleetLook) -> None:
    late, other = Browser(look), Browser(look)
    late.ask()
    other.last = {"seq": 1, "epoch": "another"}
    assert other.ask()["since"] is None
    for step in range(100):
        watching.change("a", figures=Figures(step))
        look.look()
        look.document(None, None, ())
    assert late.ask()["since"] is None


names = st.permutations(["a", "b", "c", "d", "e"]).flatmap(lambda all_: st.integers(0, 5).map(lambda n: all_[:n]))


@given(st.lists(st.tuples(names, st.sets(st.sampled_from("abcde"))), min_size=1, max_size=6))
def test_a_browser_that_is_told_changes_has_the_same_rows_in_the_same_order(
    steps: list[tuple[list[str], set[str]]],
) -> None:
    watching = Watching()
    look = FleetLook(watching, document, interval_s=5, epoch="e")
    browser = Browser(look)
    for number, (order, changed) in enumerate(steps):
        before = {row.run_id: row for row in watching.rows}
        fresh = [before.get(name) or Row(name, ShownState(Status.RUNNING)) for name in order]
        watching.rows = [replace(row, figures=Figures(number)) if row.run_id in changed else row for row in fresh]
        look.look()
        browser.ask()
        assert browser.order == order
        assert [browser.steps[name] for name in order] == [row.step for row in watching.rows]


def test_however_many_ask_the_document_is_made_once(clock: Clock) -> None:
    made = []
    watching = Watching(*(f"run-{number}" for number in range(500)))
    look = FleetLook(watching, lambda t: made.append(t) or document(t), interval_s=5, epoch="e", steady=clock)
    for step in range(9):
        watching.rows = [replace(row, figures=Figures(step)) for row in watching.rows]
        look.look()
        look.document(None, None, ())
    # Since whichever they ask: everything has changed.
    bodies = {id(look.document(since, "e", ())) for since in [*range(9), *range(9)]}
    assert (len(made), len(bodies)) == (9, 1)


def test_the_first_look_opens_the_fleet_the_others_go_round_and_scrapes_ask_nothing(
    watching: Watching, look: FleetLook, clock: Clock
) -> None:
    for _ in range(3):
        look.look()
    for _ in range(100):
        clock.now += 1.0
        assert [row.run_id for row in look.last_view().rows] == ["a", "b", "c"]
    assert watching.asked == ["open", "round", "round"]


def test_after_a_long_time_without_anybody_it_is_opened_anew(watching: Watching, look: FleetLook, clock: Clock) -> None:
    look.look()
    clock.now += 3600
    look.look()
    assert watching.asked == ["open", "open"]


def test_rows_are_told_while_they_are_still_being_read(watching: Watching, look: FleetLook, clock: Clock) -> None:
    told = []
    rows, watching.rows = watching.rows, []
    look.document(None, None, ())

    def half_way() -> None:
        watching.rows = rows[:2]
        clock.now += 1
        told.append(all_of(look)["runs"])

    watching.on_open = half_way
    look.look()
    assert [row["run_id"] for row in told[0]] == ["a", "b"]


def test_what_people_see_is_read_first_until_they_see_it_no_more(
    watching: Watching, look: FleetLook, clock: Clock
) -> None:
    look.look()
    look.document(None, None, ("b", "c"))
    look.look()
    assert watching.wanted == ["b", "c"]
    clock.now += 16
    look.document(None, None, ("a",))
    look.look()
    assert watching.wanted == ["a"]


def test_a_defect_in_one_round_is_not_the_end(
    watching: Watching, look: FleetLook, caplog: pytest.LogCaptureFixture
) -> None:
    look.look()
    watching.fault = RuntimeError("unforeseen")
    look.look()
    assert all_of(look)["runs"]
    watching.fault = None
    watching.change("a", figures=Figures(9))
    look.look()
    assert all_of(look)["runs"][0]["step"] == 9
    assert "could not be looked at" in caplog.text


def test_a_store_that_hangs_is_told_until_it_comes_on(watching: Watching, look: FleetLook, clock: Clock) -> None:
    look.look()
    told: list[Any] = []

    def faults() -> tuple[Any, StoreOutage | None]:
        """What browsers and scrapes are told."""
        return all_of(look)["fault"], look.last_view().fault

    def hang() -> None:
        told.append(faults())
        clock.now += 31
        told.append(faults())

    watching.on_ask = hang
    look.look()
    assert told[0] == (None, None)
    page, scrape = told[1]
    assert "not answered for more than 30 s" in page["reason"]
    assert scrape is not None
    assert faults() == (None, None)


def test_where_it_was_started_it_is_said_once_that_the_fleet_cannot_be_seen(
    watching: Watching, look: FleetLook, caplog: pytest.LogCaptureFixture
) -> None:
    watching.told_fault = StoreOutage("there is no such directory", "create it")
    for _ in range(3):
        look.look()
    assert [record.message for record in caplog.records] == [
        "the fleet cannot be seen: there is no such directory; create it"
    ]
    watching.told_fault = None
    look.look()
    assert "seen again" in caplog.records[-1].message


def test_whose_turn_it_is_not_asks_nothing(watching: Watching, clock: Clock) -> None:
    look = FleetLook(watching, document, interval_s=5, epoch="e", turn=lambda: False, steady=clock)
    for _ in range(3):
        look.look()
    assert watching.asked == ["open"]


@pytest.fixture
def asked_at(watching: Watching, clock: Clock) -> list[float]:
    """When the fleet was asked."""
    times: list[float] = []
    watching.on_ask = lambda: times.append(clock.now)
    return times


RESTS = 2
"""The thread reads the clock this often, and rests. While it works, it goes on reading."""
WORKS = 10


def test_while_nobody_looks_nothing_is_asked_and_who_comes_back_is_served(
    look: FleetLook, asked_at: list[float], clock: Clock
) -> None:
    look.start()
    until(lambda: len(asked_at) == 1)
    clock.now += 5
    until(lambda: len(asked_at) == 2)
    clock.wait_for_reads(WORKS)
    clock.now += 1000
    clock.wait_for_reads(RESTS)
    clock.now += 1000
    look.document(None, None, ())
    until(lambda: len(asked_at) == 3)
    clock.wait_for_reads(WORKS)
    assert asked_at == [100, 105, 2105], "the intervals in which nobody looked are not made up for"


def test_those_who_ask_at_once_have_it_opened_once(watching: Watching, look: FleetLook) -> None:
    opening, go = threading.Event(), threading.Event()

    def begin() -> None:
        opening.set()
        assert go.wait(60)

    watching.on_open = begin
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(look.current_view, float("inf"))]
        assert opening.wait(60)
        asked.append(pool.submit(look.current_view, float("inf")))
        assert look.current_view(0.0) == watching.view(), "who has no time left gets what is known"
        go.set()
    assert [each.result() for each in asked] == [watching.view()] * 2
    assert watching.asked == ["open"]


def test_a_scrape_does_not_keep_up_the_looking(look: FleetLook, asked_at: list[float], clock: Clock) -> None:
    look.start()
    # Nobody ever opened the page, so it rests after three intervals, however often it is scraped.
    for count in range(1, 5):
        until(lambda count=count: len(asked_at) == count)  # type: ignore[misc]
        clock.wait_for_reads(WORKS)
        look.last_view()
        clock.now += 5
    clock.wait_for_reads(RESTS)
    look.last_view()
    clock.now += 5
    look.last_view()
    assert asked_at == [100, 105, 110, 115]
