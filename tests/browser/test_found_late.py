"""Runs of a sweep that watchers found late: whole names, a run that stands still, and the time that was not watched."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timezone

import pytest
from playwright.sync_api import Browser, Page, expect

from support import view_scenes as scenes
from support.browser import DESKTOP, PHONE, Tab, settled
from support.dashboard import run_dashboard
from support.made_once import made_once
from support.seen_page import NEEDS, chip, expect_fleet, open_run, row, rows, section
from support.view_scenes import found_late

SWEEP = (scenes.STANDS, *scenes.STEADY)


_CUT_AND_WIDE = """() => {
  const links = [...document.querySelectorAll("tbody tr a.run-link")];
  const hidden = links.flatMap((link) => [link.scrollWidth - link.clientWidth, link.scrollHeight - link.clientHeight]);
  const { scrollWidth, clientWidth } = document.documentElement;
  return [Math.max(...hidden), Math.max(...links.map((link) => link.clientHeight)), scrollWidth - clientWidth];
}"""
"""By how many pixels a name is cut, how high the highest is, and by how many pixels the page is too wide."""


@pytest.fixture(scope="module")
def address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    assert browser.is_connected()
    root = made_once(tmp_path_factory, "found-late", lambda folder: found_late(folder, datetime.now(timezone.utc)))
    with run_dashboard(root, tmp_path_factory.mktemp("home-found-late")) as address:
        yield address


@pytest.fixture
def page(address: str, look: Callable[..., Tab]) -> Page:
    page = look(address).page
    expect_fleet(page, SWEEP)
    return page


def test_a_run_that_stands_still_does_not_look_calm(page: Page) -> None:
    still = row(page, scenes.STANDS)
    expect(still.locator(".status")).to_have_text("▲ RUNNING")
    expect(still.locator(".c-progress")).to_contain_text(re.compile("1 h( 1 m)? ago"))
    expect(still.locator(".c-eta")).not_to_have_text(re.compile(r"\d"))
    expect(still).to_contain_text("and no stall limit is set")
    for run_id in scenes.STEADY:
        expect(row(page, run_id).locator(".status")).to_have_text("● RUNNING")
        expect(row(page, run_id).locator(".c-progress")).not_to_contain_text("ago")
        expect(row(page, run_id).locator(".c-eta")).to_have_text(re.compile(r"\d"))


def test_live_trouble_stands_above_a_failure_of_last_night(page: Page) -> None:
    assert rows(page)[:2] == [scenes.STANDS, scenes.YESTERDAY]
    chip(page, NEEDS).click()
    expect(row(page, scenes.STEADY[0])).to_have_count(0)
    assert rows(page) == [scenes.STANDS, scenes.YESTERDAY]


def test_the_time_before_a_watcher_is_hatched_and_in_words(page: Page) -> None:
    for run_id in (*SWEEP, scenes.YESTERDAY):
        strip = row(page, run_id).locator(".strip")
        expect(strip).to_have_attribute("aria-label", re.compile("not watched before "))
        assert strip.locator(".unwatched").count() > 3


def test_a_run_runs_since_its_attempt_began(page: Page) -> None:
    for run_id in SWEEP:
        expect(row(page, run_id).locator(".since")).to_have_text(re.compile("9 h"))


def test_how_to_set_a_limit_stands_in_the_runs_own_view(page: Page) -> None:
    open_run(page, scenes.STANDS)
    expect(page.get_by_text("It stands still:")).to_be_visible()
    expect(
        page.get_by_text(re.compile(f"lastbeat limits .*{re.escape(scenes.STANDS)} --stall-minutes 30"))
    ).to_be_visible()
    expect(section(page, "Progress")).to_contain_text(re.compile("1 h( 1 m)? ago"))
    expect(section(page, "Progress")).not_to_contain_text("Time left")


def test_no_name_is_cut(page: Page) -> None:
    for width in (1440, DESKTOP[0], 1000, 760, PHONE[0]):
        page.set_viewport_size({"width": width, "height": 800})
        cut, height, wide = settled(lambda: page.evaluate(_CUT_AND_WIDE), lambda at: at[0] <= 1 and at[2] <= 0)
        assert (cut <= 1, wide <= 0) == (True, True), width
        assert height < 30 or width < DESKTOP[0], "a name of usual length takes one line"
