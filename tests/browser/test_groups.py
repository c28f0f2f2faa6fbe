"""Runs that are in trouble together are one line with one hint; every other run is one line."""

import re
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support import view_scenes as scenes
from support.browser import DESKTOP, PHONE, OpenTab, Tab, serious_faults, settled
from support.seen_page import chip, expect_fleet, filter_box, group, open_run, row, rows
from support.view_places import place_of
from support.view_world import MINUTE, SdkWorld, sweep

SILENT = f"{len(scenes.TOGETHER)} runs"
OUT_OF_MEMORY = f"{len(scenes.OUT_OF_MEMORY)} runs"
HINT = "SSH to the instance"
_IN_SIGHT = """() => [...document.querySelectorAll("tbody tr")].filter((line) => {
  const box = line.getBoundingClientRect();
  return box.height > 0 && box.top >= 0 && box.bottom <= innerHeight;
}).length"""
_BROKEN_AND_WIDE = """() => {
  const cells = [...document.querySelectorAll("tbody tr :is(.status, .since, .run-link, .cause)")];
  const { scrollWidth, clientWidth } = document.documentElement;
  return [
    cells.filter((cell) => cell.getBoundingClientRect().height >= 30).map((cell) => cell.textContent),
    scrollWidth - clientWidth,
  ];
}"""
"""The words that take more than one line, and by how many pixels the page is too wide."""


@pytest.fixture
def page(together_page: str, look: Callable[..., Tab]) -> Page:
    page = look(together_page).page
    expect_fleet(page, scenes.ALONE)
    expect(group(page, SILENT)).to_be_visible()
    return page


def test_35_runs_that_timed_out_together_are_one_line_with_one_hint_on_one_screen(page: Page) -> None:
    expect(group(page, SILENT)).to_contain_text("TIMED_OUT")
    expect(group(page, SILENT)).to_contain_text("Both heartbeats stale")
    expect(page.get_by_text(HINT)).to_have_count(1)
    assert set(rows(page)).isdisjoint(scenes.TOGETHER)
    # Where each has figures of its own, the hint says whose it shows.
    expect(group(page, OUT_OF_MEMORY)).to_contain_text(
        re.compile(rf"→? ?{scenes.OUT_OF_MEMORY[0]}|{scenes.OUT_OF_MEMORY[1]}")
    )
    for width, height in (DESKTOP, PHONE):
        page.set_viewport_size({"width": width, "height": height})
        expect(group(page, OUT_OF_MEMORY)).to_be_in_viewport(ratio=1)
        expect(group(page, SILENT)).to_be_in_viewport(ratio=1)


def test_a_sort_shows_each_run_in_its_place_and_as_many_as_a_screen_has_lines_for(page: Page) -> None:
    page.get_by_role("columnheader", name="Run", exact=True).get_by_role("button").click()
    expect(page.locator("tbody tr.group")).to_have_count(0)
    assert rows(page) == sorted(rows(page))
    page.mouse.move(0, 0)
    for (width, height), least in ((DESKTOP, 24), (PHONE, 7)):
        page.set_viewport_size({"width": width, "height": height})
        assert settled(lambda: int(page.evaluate(_IN_SIGHT)), least.__le__) >= least


def test_a_press_opens_a_group_and_another_closes_it(page: Page) -> None:
    toggle = group(page, SILENT).get_by_role("button")
    expect(toggle).to_have_attribute("aria-expanded", "false")
    toggle.click()
    expect(toggle).to_have_attribute("aria-expanded", "true")
    expect(page.locator("tbody tr.member")).to_have_count(len(scenes.TOGETHER))
    first = page.locator("tbody tr").nth(1)
    expect(first).to_have_class(re.compile("member"))
    # Anywhere on its line does as well.
    group(page, SILENT).locator(".c-status").click()
    expect(page.locator("tbody tr.member")).to_have_count(0)


def test_the_keyboard_opens_a_group_and_goes_on_in_it(together_page: str, tab: OpenTab) -> None:
    page = tab(together_page).page
    expect_fleet(page, scenes.ALONE)
    page.keyboard.press("j")
    toggle = group(page, SILENT).get_by_role("button")
    expect(toggle).to_be_focused()
    page.keyboard.press("Enter")
    expect(toggle).to_have_attribute("aria-expanded", "true")
    expect(toggle).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("tbody tr.member a").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("^sweep-"))
    # Whoever comes back finds it open.
    page.keyboard.press("Escape")
    expect(page.locator("tbody tr.member")).to_have_count(len(scenes.TOGETHER))
    expect(page.locator("tbody tr.member a").first).to_be_focused()


def test_counts_and_filters_are_of_runs_not_of_lines(page: Page) -> None:
    expect(chip(page, "TIMED_OUT")).to_contain_text(str(len(scenes.TOGETHER)))
    chip(page, "TIMED_OUT").click()
    total = len(scenes.TOGETHER) + len(scenes.OUT_OF_MEMORY) + len(scenes.ALONE)
    expect(page.get_by_text(f"{len(scenes.TOGETHER)} of {total} runs")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(1)
    # Words look for the runs themselves.
    filter_box(page).fill("seed2")
    expect(page.locator("tbody tr.group")).to_have_count(0)
    wanted = [run_id for run_id in scenes.TOGETHER if "seed2" in run_id]
    expect(page.get_by_text(f"{len(wanted)} of {total} runs")).to_be_visible()
    assert sorted(rows(page)) == sorted(wanted)


def test_the_hint_of_a_run_shows_where_it_is_pointed_at_or_focused(page: Page) -> None:
    group(page, OUT_OF_MEMORY).get_by_role("button").click()
    hint = page.locator(".hint")
    member = row(page, scenes.OUT_OF_MEMORY[1])
    before = member.bounding_box()
    member.hover()
    expect(hint).to_contain_text("reduce the micro-batch size")
    expect(hint).to_contain_text(scenes.OUT_OF_MEMORY[1])
    assert member.bounding_box() == before, "nothing moves under the pointer"
    page.mouse.move(0, 0)
    expect(hint).to_be_hidden()
    link = member.get_by_role("link")
    link.focus()
    expect(hint).to_contain_text("reduce the micro-batch size")
    # A screen reader is told it with the link.
    expect(link).to_have_accessible_description(re.compile("reduce the micro-batch size"))


def test_a_press_on_a_row_opens_what_it_has_no_room_for(page: Page) -> None:
    group(page, OUT_OF_MEMORY).get_by_role("button").click()
    member = row(page, scenes.OUT_OF_MEMORY[1])
    expect(member.locator(".c-more")).to_be_hidden()
    member.locator(".c-cause").click()
    expect(member.locator(".c-more")).to_be_visible()
    expect(member.locator(".c-more")).to_contain_text("reduce the micro-batch size")
    member.locator(".c-cause").click()
    expect(member.locator(".c-more")).to_be_hidden()


def test_words_stay_whole_and_everybody_can_read_a_group(page: Page) -> None:
    group(page, OUT_OF_MEMORY).get_by_role("button").click()
    expect_fleet(page, scenes.OUT_OF_MEMORY)
    assert serious_faults(page, "table") == []
    for width, height in (DESKTOP, (1000, 800), (760, 800), PHONE):
        page.set_viewport_size({"width": width, "height": height})
        broken, wide = settled(lambda: page.evaluate(_BROKEN_AND_WIDE), lambda found: found[0] == [] and found[1] <= 0)
        assert (broken, wide <= 0) == ([], True), width


def test_a_group_stays_open_while_runs_join_and_leave_it(
    tmp_path: Path, dashboard: Callable[..., str], tab: OpenTab
) -> None:
    place = place_of(tmp_path / "runs")
    world = SdkWorld(datetime.now(timezone.utc))
    names = [f"dead-{number}" for number in range(5)]
    for name in names:
        world.training(name, total=4_000).beats(-60 * MINUTE, -20 * MINUTE)
    world.play().lay(place)
    sweep(place)
    page = tab(dashboard(tmp_path / "runs")).page
    group(page, "5 runs").get_by_role("button").click()
    expect_fleet(page, names)
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    later = SdkWorld(datetime.now(timezone.utc), seed=5)
    later.training("dead-0", total=4_000).beats(-60.0, 0.0)
    later.training("dead-9", total=4_000).beats(-60 * MINUTE, -20 * MINUTE)
    later.play().lay(place)
    sweep(place)
    expect(row(page, "dead-0").locator(".status")).to_contain_text("RUNNING")
    expect(page.locator("tbody tr.member")).to_have_count(5)
    expect(row(page, "dead-9")).to_have_class(re.compile("member"))
    expect(group(page, "5 runs").get_by_role("button")).to_have_attribute("aria-expanded", "true")
    open_run(page, "dead-9")
