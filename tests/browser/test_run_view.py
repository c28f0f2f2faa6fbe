"""One run in a browser: all that there is to see of it, and how curves and ranks are read."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from support import view_scenes as scenes
from support.browser import DESKTOP, PHONE, OpenTab, Tab, settled
from support.seen_page import expect_fleet, open_run, section

_BROKEN_AND_WIDE = """() => {
  const found = [];
  for (const cell of document.querySelectorAll(".table td strong, .table td .status, .table td .word")) {
    if (!cell.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(cell);
    if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 2 ||
      cell.getBoundingClientRect().height > 30) found.push(cell.textContent);
  }
  const { scrollWidth, clientWidth } = document.documentElement;
  return [found, scrollWidth - clientWidth];
}"""
"""The words that take more than one line, and by how many pixels the page is too wide."""


@pytest.fixture
def page(looked_at: Tab) -> Page:
    expect_fleet(looked_at.page, [scenes.OOM])
    return looked_at.page


@contextmanager
def told_otherwise(page: Page, change: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """The documents of runs, changed on their way to the page."""

    def changed(route: Route) -> None:
        answer = route.fetch()
        told = answer.json()
        change(told)
        route.fulfill(response=answer, json=told)

    page.route("**/data/runs/*", changed)
    try:
        yield
    finally:
        page.unroute_all(behavior="wait")


TOLD = [
    pytest.param(
        scenes.OOM,
        {
            "Cause": (
                "oom",
                "What to do",
                "CUDA out of memory",
                "rank 3",
                "train.py",
                "torch.OutOfMemoryError",
                "Traceback (most recent call last)",
                "loss.backward()",
                "process group torn down",
                "rank 3 of 8 on ip-10-0-0-17",
            ),
            "Transitions": ("FAILED", "as above"),
            "Alerts": ("FAILED", "as above", "sent"),
            "Log": ("shown above",),
        },
        id="a failure: cause, hint, and log, traceback and _error as one account",
    ),
    pytest.param(
        scenes.BY_ERROR,
        {"Cause": ("FileNotFoundError", "en_0417.mp3", "Traceback (most recent call last)", "_error")},
        id="a failure that only _error tells of",
    ),
    pytest.param(
        scenes.HANGS,
        {"Where it hangs": ("all_reduce", "distributed_c10d.py", "MainThread"), "Ranks": ("16 ranks",)},
        id="a hang: where each thread is",
    ),
    pytest.param(
        scenes.HEALTHY,
        {
            "Progress": ("/ 120,000", "Learning rate", "grad_norm"),
            "Timeline": ("evaluating",),
            "Resources": ("GPU 7", "H100", "The node, the last 4 h", "GPU temperature, the hottest", "GPUs busy"),
            "Heartbeats": ("metadata.json", "progress.json", "Limits: stale after 10m (settings here)"),
            "Log": ("loss",),
        },
        id="a run that lives: progress, phases, resources, heartbeats, log",
    ),
    pytest.param(
        scenes.FLAPS,
        {
            "Transitions": ("TIMED_OUT", "RUNNING"),
            # Why: SNS is down, or was just now for the alerts of other runs; which of them were first, nobody knows.
            "Alerts": ("waiting", "RECOVERED", re.compile("503|left alone for a while")),
            "Timeline": ("Attempt 3",),
        },
        id="one that comes and goes: attempts, transitions, alerts that wait",
    ),
    pytest.param(
        scenes.LAGS, {"Ranks": ("64 ranks", "Rank 41", "312 steps behind")}, id="many ranks, one of which lags"
    ),
    pytest.param(scenes.NAN, {"Progress": ("NaN",), "Curves": ("No number at",)}, id="a loss that is no number"),
    pytest.param(
        scenes.RESTARTED,
        {
            "Time spent": (
                re.compile(r"Steps that count\s*9\d\.\d %"),
                re.compile(r"Steps done again, or cut off: [\d,]+ steps?"),
                re.compile(r"Waiting in the queue\s*not known"),
                re.compile(r"Dead, until the next attempt\s*\d\.\d %"),
                "1 failure",
                "Mean time to recover",
            )
        },
        id="one that failed and began again: what its time went into",
    ),
    pytest.param(scenes.DAMAGED, {"Heartbeats": ("metadata.json",)}, id="one whose record and heartbeat are damaged"),
]


@pytest.mark.parametrize(("run_id", "told"), TOLD)
def test_a_run_tells(page: Page, run_id: str, told: dict[str, tuple[str | re.Pattern[str], ...]]) -> None:
    open_run(page, run_id)
    for title, words in told.items():
        for word in words:
            expect(section(page, title)).to_contain_text(word)


def test_who_was_never_seen_as_recorded_says_so(page: Page) -> None:
    open_run(page, scenes.NEW)
    expect(page.get_by_text("No pass of the watchdog has recorded this run yet")).to_be_visible()
    page.get_by_role("link", name="All runs").click()
    open_run(page, scenes.SILENT)
    expect(page.get_by_text("This may be out of date")).to_be_visible()


def test_curves_are_read_and_zoomed_by_the_pointer(page: Page) -> None:
    open_run(page, scenes.HEALTHY)
    curve = page.get_by_role("slider", name="Loss curve")
    curve.scroll_into_view_if_needed()
    newest = curve.get_attribute("aria-valuetext")
    box = curve.locator(".u-over").bounding_box()
    assert box is not None
    across = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.3, across)
    expect(curve).not_to_have_attribute("aria-valuetext", newest or "")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, across, steps=5)
    page.mouse.up()
    expect(page.get_by_role("button", name="Whole run")).to_have_attribute("aria-disabled", "false")
    page.get_by_role("button", name="Whole run").click()
    expect(page.get_by_role("button", name="Whole run")).to_have_attribute("aria-disabled", "true")


def test_figures_of_trainings_own_get_curves_and_all_points_stand_in_a_table(page: Page) -> None:
    open_run(page, scenes.HEALTHY)
    curve = page.get_by_role("slider", name="grad_norm curve")
    expect(curve).to_have_attribute("aria-valuetext", re.compile(r"grad_norm \d"))
    expect(page.get_by_role("figure").filter(has=curve)).to_contain_text("lowest")
    page.get_by_text("The points as a table").click()
    points = section(page, "Curves").get_by_role("row")
    expect(points.nth(50)).to_be_attached()
    expect(points.nth(0)).to_contain_text("Learning rate")
    # Commands name the root, so that they work for everybody.
    for verb in ("show", "logs", "top"):
        expect(section(page, "Files")).to_contain_text(
            re.compile(rf"lastbeat {verb} --root \S+( -f)? {scenes.HEALTHY}")
        )


def test_a_figure_that_few_points_tell_stands_as_it_was_told_last(page: Page) -> None:
    def sparse(told: dict[str, Any]) -> None:
        known = len(told["curves"]["grad_norm"]) - 4
        told["curves"]["grad_norm"] = [*[None] * (known - 1), 0.25, None, None, None, None]
        told["points"]["step"][known - 1] = told["points"]["step"][known] - 1

    with told_otherwise(page, sparse):
        open_run(page, scenes.HEALTHY)
        curve = page.get_by_role("slider", name="grad_norm curve")
        expect(curve).to_have_attribute(
            "aria-valuetext", re.compile(r"grad_norm 0.25 at step [\d,]+.*point (\d+) of \1$")
        )
        head = page.get_by_role("figure").filter(has=curve).locator(".curve-value")
        expect(head).to_have_text(re.compile(r"^0.25 at step"))
        curve.focus()
        page.keyboard.press("Home")
        expect(head).to_have_text("not known")


def test_axes_are_sensible(page: Page) -> None:
    for least, most, spans in (
        # A flat line lies in the middle, at zero too, and what is left of rounding is no slope.
        (2.0, 2.0, (1.8, 2.2)),
        (0, 0, (-1, 1)),
        (1.0, 1.0 + 1e-12, (0.9, 1.1)),
        # A curve has some room.
        (0, 10, (-0.6, 10.6)),
        (None, None, (0, 1)),
    ):
        found = page.evaluate("([least, most]) => Plot.plainRange(null, least, most)", [least, most])
        assert found == pytest.approx(spans)


def test_a_single_point_is_a_curve_that_can_be_read(page: Page) -> None:
    def one_point(told: dict[str, Any]) -> None:
        told["points"] = {name: column[-1:] for name, column in told["points"].items()}
        told["curves"] = {}

    with told_otherwise(page, one_point):
        open_run(page, scenes.LAGS)
        curve = page.get_by_role("slider", name="Loss curve")
        expect(curve).to_have_attribute("aria-valuetext", re.compile("point 1 of 1$"))
        expect(page.get_by_role("figure").filter(has=curve)).to_contain_text("the only point")


def test_ranks_are_walked_with_the_arrow_keys(page: Page) -> None:
    open_run(page, scenes.LAGS)
    ranks = page.get_by_role("listbox")
    expect(ranks.get_by_role("option")).to_have_count(64)
    chosen = ranks.get_by_role("option", selected=True)
    # The worst is looked at first.
    expect(chosen).to_have_attribute("aria-label", re.compile("Rank 41, .*312 steps behind"))
    chosen.focus()
    page.keyboard.press("ArrowRight")
    expect(ranks.get_by_role("option", selected=True)).to_have_attribute("aria-label", re.compile("Rank 42, "))
    expect(section(page, "Ranks")).to_contain_text("Rank 42, ")


def test_ranks_are_silent_by_the_limit_of_the_fleet(page: Page) -> None:
    with told_otherwise(page, lambda told: told.update(stale_s=1)):
        open_run(page, scenes.LAGS)
        expect(section(page, "Ranks")).to_contain_text("silent for over 1 s")


def test_ranks_that_are_stuck_stand_in_a_table(page: Page) -> None:
    def stuck(told: dict[str, Any]) -> None:
        alike = {"since": "2025-08-04T17:16:21Z", "frame": "train.py:10 in step", "call": "all_reduce #1 [4] <b>"}
        ranks = [
            {"ranks": "5", "count": 1, "does": "never joined", "host": "h100-3", **alike},
            {"ranks": "0-4, 6", "count": 6, "does": "waits", "host": None, **alike, "frame": None},
        ]
        told["explained"]["stuck"] = {"call": "all_reduce #2", "group": "tp (1)", "ranks": ranks}

    with told_otherwise(page, stuck):
        open_run(page, scenes.OOM)
        table = section(page, "Cause").get_by_role("table", name="Ranks in all_reduce #2 of group tp (1)")
        rows = table.locator("tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.nth(0)).to_contain_text("rank 5 on h100-3")
        expect(rows.nth(0)).to_contain_text("never joined")
        expect(rows.nth(0)).to_contain_text("all_reduce #1 [4] <b>")
        expect(rows.nth(0)).to_contain_text("train.py:10 in step")
        expect(rows.nth(1)).to_contain_text("ranks 0-4, 6")
        assert settled(lambda: page.evaluate(_BROKEN_AND_WIDE), lambda found: found == [[], 0]) == [[], 0]


def test_where_it_is_undecided_both_causes_stand_beside_each_other(page: Page) -> None:
    def undecided(told: dict[str, Any]) -> None:
        second = {"error_type": "cancelled", "evidence": told["explained"]["evidence"], "confidence": 0.25}
        second |= {"hint": "Ask who stopped it. <b>", "restart": "it may get past this."}
        told["explained"] |= {"confidence": 0.5, "hint": "Less of it.", "second": second}

    with told_otherwise(page, undecided):
        open_run(page, scenes.OOM)
        expect(section(page, "Cause")).to_contain_text("oom or cancelled perhaps")
        boxes = section(page, "Cause").locator(".either > .note")
        expect(boxes).to_have_count(2)
        expect(boxes.nth(0)).to_contain_text("If it is oom")
        expect(boxes.nth(0)).to_contain_text("Less of it.")
        expect(boxes.nth(1)).to_contain_text("Ask who stopped it. <b>")
        first, second = (boxes.nth(at).bounding_box() for at in range(2))
        assert first is not None
        assert second is not None
        assert (first["y"], first["x"] < second["x"]) == (second["y"], True)


def test_what_is_no_run_is_said_to_be_none(every_status_page: str, tab: OpenTab) -> None:
    opened = tab(every_status_page)
    # The browser itself notes answers of 404 and 400 in its console.
    opened.expected.append("Failed to load resource")
    for run_id in ("no-such-run", "%2e%2e", "../../etc/passwd"):
        opened.page.goto(f"{every_status_page}#/runs/{run_id.replace('%', '%25').replace('/', '%2F')}")
        expect(opened.page.get_by_role("heading", level=1)).to_have_text(run_id)
        expect(opened.page.get_by_text("There is no such run.")).to_be_visible()
    asked = [address for address in opened.requests if "/data/runs/" in address]
    assert all(address.startswith(f"{every_status_page}data/runs/") for address in asked), asked


@pytest.mark.parametrize(
    ("run_id", "words"),
    [
        pytest.param(scenes.OOM, "CUDA out of memory. Tried to allocate", id="of log and _error, evidence in the log"),
        pytest.param(scenes.BY_ERROR, "No such file or directory", id="of which _error alone tells"),
    ],
)
def test_one_error_is_told_once_and_its_line_is_marked_by_more_than_colour(page: Page, run_id: str, words: str) -> None:
    open_run(page, run_id)
    expect(section(page, "Files")).to_be_visible()
    marked = section(page, "Cause").locator(".line.marked")
    expect(marked).to_have_count(1)
    expect(marked).to_contain_text("This line shows it:")
    expect(marked).to_contain_text(words)
    page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    for width, height in (DESKTOP, PHONE):
        page.set_viewport_size({"width": width, "height": height})
        timeline = section(page, "Timeline").inner_text().count(words)
        assert page.locator("main").inner_text().count(words) - timeline == 1, width


def test_where_it_hangs_neither_frames_of_lastbeat_stand_nor_that_no_cause_is_known(page: Page) -> None:
    open_run(page, scenes.HANGS)
    stacks = section(page, "Where it hangs")
    expect(stacks).to_contain_text("all_reduce")
    expect(stacks).not_to_contain_text("lastbeat/training/sdk")
    expect(stacks).to_contain_text("of lastbeat's own frames are not shown")
    expect(page.get_by_text("No cause is known")).to_have_count(0)


def test_a_link_opens_a_run_whose_words_stay_whole_and_escape_leads_to_the_fleet(
    every_status_page: str, tab: OpenTab
) -> None:
    page = tab(f"{every_status_page}#/runs/{scenes.FLAPS}").page
    expect(section(page, "Files")).to_be_visible()
    expect(page).to_have_title(re.compile(scenes.FLAPS))
    for width, height in (DESKTOP, (900, 800), PHONE):
        page.set_viewport_size({"width": width, "height": height})
        broken, wide = settled(lambda: page.evaluate(_BROKEN_AND_WIDE), lambda found: found[0] == [] and found[1] <= 0)
        assert (broken, wide <= 0) == ([], True), width
    page.keyboard.press("Escape")
    expect_fleet(page, [scenes.OOM])


def test_escape_leads_back_to_the_filter_of_a_link_that_was_followed_within_the_fleet(page: Page) -> None:
    for followed in ("#/?q=ddp64", f"#/?q={scenes.OOM}"):
        page.evaluate("hash => { location.hash = hash; }", followed)
        expect(page.locator("tbody tr")).to_have_count(1)
    open_run(page, scenes.OOM)
    page.keyboard.press("Escape")
    expect(page.get_by_role("searchbox")).to_have_value(scenes.OOM)


def test_how_it_ended_is_read_in_the_timeline_however_short_ago(page: Page) -> None:
    open_run(page, scenes.DONE)
    ended = section(page, "Timeline").locator(".band", has_text="SUCCEEDED")
    assert ended.evaluate("band => band.scrollWidth <= band.clientWidth")
