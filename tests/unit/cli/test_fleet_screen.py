"""The live table: what keys do to it, and what it shows of a fleet that changes or cannot be seen."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.record import Acknowledgement
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.view import FleetView, Row, StoreOutage, WatchState
from lastbeat.views.lines import signs
from lastbeat.views.lines.paint import cells, rendered
from lastbeat_cli.fleet.asked import FleetAsked
from lastbeat_cli.fleet.screen import FleetScreen

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
SINCE = NOW - timedelta(hours=1)
RUNS = (
    Row("oom-1", ShownState(Status.FAILED, "CUDA out of memory", "oom", "Reduce the batch size."), since=SINCE),
    Row("stalls-1", ShownState(Status.RUNNING, conditions=("stalled",)), since=SINCE),
    *(Row(f"lives-{number:02}", ShownState(Status.RUNNING), since=SINCE) for number in range(40)),
    Row("done-1", ShownState(Status.SUCCEEDED), since=SINCE),
)
FLEET = FleetView("s3://bucket/training-runs", NOW, RUNS, watching=WatchState(NOW, 60.0))


class Seen:
    """A screen, and keys that are pressed on it."""

    def __init__(
        self, view: FleetView = FLEET, columns: int = 80, height: int = 24, made_of: signs.Signs = signs.UTF8
    ) -> None:
        self.view, self.columns, self.height = view, columns, height
        self.screen = FleetScreen(FleetAsked(), made_of)
        self.lines()

    def lines(self) -> list[str]:
        told = self.screen.picture(self.view, NOW, self.columns, self.height)
        assert len(told) == self.height, "a picture is as high as the terminal, or old lines would stay"
        lines = [rendered(each, colours=False) for each in told]
        assert max(map(cells, lines)) <= self.columns
        return lines

    def press(self, *keys: str) -> str | None:
        action = None
        for key in keys:
            action = self.screen.press(key)
            self.lines()
        return action

    @property
    def text(self) -> str:
        return "\n".join(self.lines())

    @property
    def chosen(self) -> str:
        marked = [line for line in self.lines() if line.startswith("▸")]
        assert len(marked) == 1
        return marked[0].split()[3]


def test_it_begins_at_who_needs_people_and_says_what_to_do() -> None:
    seen = Seen()
    assert seen.chosen == "oom-1"
    assert "✖ 1 FAILED  ▲ 1 WARNING  ● 40 RUNNING  ✔ 1 SUCCEEDED" in seen.text
    assert "→ Reduce the batch size." in seen.text
    assert "of 43" in seen.text


MOVES = [
    pytest.param(["j"], "stalls-1", id="j goes down"),
    pytest.param(["down", "down", "k"], "stalls-1", id="k goes up"),
    pytest.param(["k"], "oom-1", id="not above the first"),
    pytest.param(["G"], "done-1", id="G goes to the end"),
    pytest.param(["end", "j"], "done-1", id="not below the last"),
    pytest.param(["end", "home"], "oom-1", id="Home goes back"),
    pytest.param(["pagedown", "pageup"], "oom-1", id="a page down and one up"),
]


@pytest.mark.parametrize(("keys", "run_id"), MOVES)
def test_moving(keys: list[str], run_id: str) -> None:
    seen = Seen()
    seen.press(*keys)
    assert seen.chosen == run_id
    assert seen.screen.picked() == run_id
    assert run_id in seen.screen.in_sight


def test_a_page_is_as_long_as_the_screen() -> None:
    seen = Seen()
    last = seen.screen.in_sight[-1]
    seen.press("pagedown")
    assert seen.chosen == last
    seen.press("pagedown")
    assert last in seen.screen.in_sight, "a line stays, so that people do not lose their place"


MORE = (Row("fails-now", ShownState(Status.FAILED), since=NOW), *RUNS)
FEWER = tuple(row for row in RUNS if row.run_id != "lives-00")
CHANGES = [
    pytest.param(["j", "j"], MORE, "lives-00", id="the chosen run stays chosen when others come before it"),
    pytest.param(["j", "j"], FEWER, "lives-01", id="where it is gone, the one in its place is chosen"),
    pytest.param([], MORE, "fails-now", id="before anybody moved, the one that needs people next"),
]


@pytest.mark.parametrize(("keys", "rows", "run_id"), CHANGES)
def test_what_is_chosen_when_the_fleet_changes(keys: list[str], rows: tuple[Row, ...], run_id: str) -> None:
    seen = Seen()
    seen.press(*keys)
    assert seen.chosen == ("lives-00" if keys else "oom-1")
    seen.view = replace(FLEET, rows=rows)
    assert seen.chosen == run_id


def test_filtering_by_text() -> None:
    seen = Seen()
    seen.press("/", *"lives-1")
    assert seen.screen.in_sight == [f"lives-{number}" for number in range(10, 20)]
    seen.press("9", "backspace", "backspace", "0")
    assert seen.screen.in_sight == [f"lives-0{number}" for number in range(10)]
    assert seen.press("enter") is None, "it ends the typing and opens nothing"
    assert "/lives-0" in seen.text
    seen.press("escape")
    assert seen.chosen == "oom-1"


def test_a_key_that_is_typed_into_the_filter_does_nothing_else() -> None:
    seen = Seen()
    assert seen.press("/", "q", "s", "?") is None
    assert "No run matches" in seen.text
    assert "/qs?_" in seen.text


def test_filtering_by_status() -> None:
    seen = Seen()
    told = []
    for _ in range(11):
        seen.press("f")
        told.append((seen.lines()[-1].split("status: ")[1].split("  ")[0], len(seen.screen.in_sight)))
    assert told[0] == ("needs attention", 2)
    assert ("FAILED", 1) in told
    assert ("SUCCEEDED", 1) in told
    assert ("UNKNOWN", 0) in told
    assert told[-1][0] == "all"


ACTIONS = [
    pytest.param(["q"], "quit", id="q quits"),
    pytest.param(["enter"], "open", id="Enter opens a run"),
    pytest.param(["/", "x", "y", "z", "enter", "enter"], None, id="there is none to open"),
    pytest.param(["?", "q"], None, id="q leaves the help first"),
    pytest.param(["x"], None, id="other keys do nothing"),
    pytest.param(["l"], "logs", id="l opens the log"),
    pytest.param(["c"], "compare", id="c compares"),
    pytest.param(["s"], None, id="s asks first for how long"),
    pytest.param(["s", "enter"], "silence", id="Enter then silences"),
    pytest.param(["a", "m", "i", "n", "e", "enter"], "ack", id="a asks for a note, and Enter acknowledges"),
    pytest.param(["a", "escape"], None, id="Escape leaves it"),
    pytest.param(["/", "x", "y", "z", "enter", "a", "enter"], None, id="there is none to acknowledge"),
]


@pytest.mark.parametrize(("keys", "action"), ACTIONS)
def test_actions(keys: list[str], action: str | None) -> None:
    assert Seen().press(*keys) == action


TYPED = [
    pytest.param(["s"], "silence oom-1 for: 4h_", "", id="what Enter will silence, and for how long"),
    pytest.param(["s", "clear", "7", "d", "enter"], "43", "7d", id="another time"),
    pytest.param(["a", "pasted: by me", "enter"], "43", "by me", id="a note that is pasted"),
    pytest.param(["S", *"run", "enter"], "43", "run", id="an order"),
    pytest.param(["S", *"run", "enter", "S"], "sort by: run_", "run", id="the order that holds is there to be changed"),
    pytest.param([" ", " "], "2 ticked, c compare", "", id="runs that are ticked"),
    pytest.param(["j", " ", "g", " "], "2 ticked", "", id="at the top, too"),
    pytest.param([" ", "escape"], "of 43", "", id="Escape unticks"),
    pytest.param(
        ["/", *"/a+.*b+x*/", "enter"], "more than two repeats", "/a+.*b+x*/", id="why a filter matches nothing"
    ),
]


@pytest.mark.parametrize(("keys", "foot", "entered"), TYPED)
def test_what_is_typed_for_a_key(keys: list[str], foot: str, entered: str) -> None:
    seen = Seen()
    seen.press(*keys)
    assert foot in seen.lines()[-1]
    assert seen.screen.entered == entered


def test_the_table_sorts_and_shows_the_columns_that_are_typed() -> None:
    seen = Seen()
    seen.press("S", *"-run", "enter", "C", *"run,lr,cause", "enter")
    assert ["RUN", "lr", "CAUSE"] in [line.split() for line in seen.lines()]
    assert seen.screen.picked() == "stalls-1"


def test_nobody_needs_to_look_at_what_is_acknowledged() -> None:
    given = Acknowledgement(NOW, "ana@h", "")
    seen = Seen(replace(FLEET, rows=tuple(replace(row, acknowledged=given) for row in RUNS)))
    seen.press("f")
    assert "needs attention" in seen.lines()[-1]
    assert seen.screen.in_sight == []


def test_help_tells_the_keys_and_fits() -> None:
    seen = Seen()
    seen.press("?")
    assert "Ctrl-Z" in seen.text
    assert "…" not in seen.text
    seen.press("j")
    assert seen.chosen == "oom-1"


def test_a_narrow_terminal_tells_how_to_quit_before_anything_else() -> None:
    assert "q quit  ? help" in Seen(columns=40).lines()[-1]
    filtered = Seen(columns=50)
    filtered.press("f")
    assert "f status: needs attention" in filtered.lines()[-1], "what hides runs is said"


PASTED = [
    pytest.param(["pasted:q lives-07 "], "/q lives-07_", id="text begins a filter, and none of it is a key"),
    pytest.param(["/", "l", "pasted:ives"], "/lives_", id="what is typed goes on with it"),
    pytest.param(["pasted:" + "x" * 5000], "x" * 40, id="a novel is bounded"),
    pytest.param(["?", "pasted:lives"], "/lives_", id="help makes way"),
    pytest.param(["pasted: "], "/ filter", id="nothing is nothing"),
]


@pytest.mark.parametrize(("keys", "foot"), PASTED)
def test_what_is_pasted_is_looked_for(keys: list[str], foot: str) -> None:
    seen = Seen()
    assert seen.press(*keys) is None
    assert foot in seen.lines()[-1]


def test_where_the_fleet_cannot_be_seen_nobody_is_said_to_look_for_runs() -> None:
    text = Seen(replace(FLEET, at=None, rows=(), fault=StoreOutage("access denied"))).text
    assert "looking for runs" not in text
    assert "access denied" in text


HEADS = [
    pytest.param(replace(FLEET, at=None, rows=()), "looking for runs …", id="nothing was seen yet"),
    pytest.param(replace(FLEET, rows=()), "no runs", id="there are none"),
    pytest.param(replace(FLEET, older=1200), "1,200 older", id="older runs are counted"),
    pytest.param(replace(FLEET, unread=34), "34 documents are still to be read", id="what is still unread is said"),
    pytest.param(
        replace(FLEET, watching=WatchState(NOW - timedelta(hours=3), 60.0, overdue=True)),
        "! Nothing watches: no pass has left its mark for 3h 00m",
        id="that nobody watches any more is said",
    ),
    pytest.param(
        replace(
            FLEET,
            watching=WatchState(NOW - timedelta(hours=3), 60.0, overdue=True, recorded_at=NOW - timedelta(minutes=2)),
        ),
        "! No sweep for 3h 00m; lastbeat watch recorded one run 2m",
        id="that single runs are watched nevertheless is said",
    ),
    pytest.param(
        replace(FLEET, watching=WatchState(recorded_at=NOW - timedelta(seconds=9))),
        "No sweep runs; lastbeat watch recorded one run 9s ago; ",
        id="or ever were",
    ),
    pytest.param(replace(FLEET, watching=WatchState()), "! Nothing watches this fleet yet", id="or ever has"),
    pytest.param(
        replace(FLEET, fault=StoreOutage("s3://bucket: access denied", "Check the key.", NOW - timedelta(minutes=5))),
        "! The fleet cannot be seen for 5m: s3://bucket: access denied",
        id="a store that fails is said to",
    ),
    pytest.param(
        replace(FLEET, fault=StoreOutage("no answer")), "What is shown is as of 2026-01-01T12:00:00Z", id="as of when"
    ),
]


@pytest.mark.parametrize(("view", "text"), HEADS)
def test_the_head(view: FleetView, text: str) -> None:
    assert text in Seen(view).text


ALL = FleetView(
    "s3://bucket/training-runs",
    NOW,
    tuple(
        Row(f"{status}-{number}", ShownState(status, conditions=conditions), since=SINCE)
        for status, conditions in (*((status, ()) for status in Status), (Status.RUNNING, ("stalled",)))
        for number in range(1100)
    ),
    older=1252,
)


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_every_count_is_told_however_narrow_the_terminal_is(columns: int) -> None:
    lines = Seen(ALL, columns, 50).lines()
    told = " ".join(lines[: next(i for i, text in enumerate(lines) if "STATUS" in text)])
    words = ["1,100 " + word for word in ("FAILED", "TIMED_OUT", "UNKNOWN", "WARNING", "RUNNING", "SUCCEEDED")]
    assert [word for word in [*words, "1,252 older"] if word not in told] == []


LONG = Row(
    "oom-1",
    ShownState(
        Status.FAILED,
        "CUDA out of memory. " * 8 + "at the end",
        "oom",
        "Reduce the batch size. " * 8 + "Then begin again.",
    ),
    since=SINCE,
)


def test_where_lines_are_left_the_whole_of_what_to_do_is_told() -> None:
    assert "Then begin again." in Seen(replace(FLEET, rows=(LONG, *RUNS[1:3])), 80, 24).text
    full = Seen(replace(FLEET, rows=(LONG, *RUNS[1:])), 80, 24)
    assert "Then begin again." not in full.text, "no row of the fleet makes way for it"
    assert "of 43" in full.text


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_a_terminal_without_utf8_gets_nothing_else(columns: int) -> None:
    seen = Seen(replace(FLEET, rows=(LONG, *RUNS[1:])), columns, 24, signs.ascii_only())
    for key in ("j", "?", "/", "k"):
        seen.press(key)
        assert seen.text.isascii()


@pytest.mark.parametrize(("columns", "height"), [(20, 5), (40, 8), (80, 13), (1, 1), (300, 100)])
def test_any_size_of_terminal(columns: int, height: int) -> None:
    seen = Seen(replace(FLEET, fault=StoreOutage("no answer", "wait")), columns, height)
    seen.press("j", "pagedown", "/", "l", "enter", "?")
