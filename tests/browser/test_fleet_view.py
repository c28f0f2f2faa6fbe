"""The fleet in a browser: what stands there, in which order, and how people find what they look for."""

import re

import pytest
from playwright.sync_api import Page, expect

from lastbeat.views.documents import row_document
from support import view_scenes as scenes
from support.browser import OpenTab, Tab
from support.filter_table import KEYS, REFUSED, ROWS, SENTENCES
from support.seen_page import NEEDS, SIGNS, chip, expect_fleet, expect_rows, filter_box, row, rows
from support.view_scenes import STATUSES, UNSEEN


@pytest.fixture
def page(looked_at: Tab) -> Page:
    expect_fleet(looked_at.page, [*STATUSES, *UNSEEN])
    return looked_at.page


@pytest.fixture
def fresh(every_status_page: str, tab: OpenTab) -> Page:
    """As somebody sees it who has just opened it."""
    page = tab(every_status_page).page
    expect_fleet(page, [*STATUSES, *UNSEEN])
    return page


def test_each_status_shows_with_its_word_and_its_sign(page: Page) -> None:
    for run_id, shown in STATUSES.items():
        status = row(page, run_id).locator(".status")
        expect(status).to_have_text(f"{SIGNS[shown]} {shown}")
    # What no pass has judged as it is now says so.
    expect(row(page, scenes.NEW)).to_contain_text("no pass has recorded it yet")
    expect(row(page, scenes.SILENT)).to_contain_text("and no pass has judged that")


TOLD = {
    scenes.OOM: ("CUDA out of memory", "oom"),
    scenes.BY_ERROR: ("No such file or directory",),
    scenes.HANGS: ("No progress", "twice exceeded"),
    scenes.GONE: ("Both heartbeats stale",),
    scenes.STALLED: ("stalled", "clock_skew"),
    scenes.NAN: ("loss_nan", "NaN"),
    scenes.FLAPS: ("waiting to be sent",),
    scenes.HEALTHY: ("training", "tok/s"),
    scenes.DAMAGED: ("its record cannot be used", "metadata.json"),
}


def test_a_row_tells(page: Page) -> None:
    for run_id, words in TOLD.items():
        for word in words:
            expect(row(page, run_id)).to_contain_text(word)


def test_words_choose_among_the_runs_and_stay_in_the_address(page: Page) -> None:
    filter_box(page).fill("cuda evaluating")
    expect(page.locator("tbody tr")).to_have_count(0)
    filter_box(page).fill("OOM qwen")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile("[?&]q=OOM"))
    page.reload()
    expect_rows(page, [scenes.OOM])
    filter_box(page).fill("nothing is called like this")
    expect(page.get_by_text("No run matches")).to_be_visible()
    page.get_by_role("button", name="Show all runs").click()
    expect_fleet(page, list(STATUSES))


FOUND_BY = {
    "its name, in capitals or not": ("IMAGENET", scenes.DONE),
    "its cause": ("oom", scenes.OOM),
    "its reason": ("no such file", scenes.BY_ERROR),
    "its conditions": ("clock_skew", scenes.STALLED),
    "why its status may be out of date": ("judged", scenes.SILENT),
    "what could not be read of it": ("unterminated string", scenes.DAMAGED),
}


def test_words_find_a_run(page: Page) -> None:
    for words, *found in FOUND_BY.values():
        filter_box(page).fill(words)
        expect_rows(page, found)


def test_the_page_has_the_filter_language_of_the_terminal(page: Page) -> None:
    rows = [row_document(each, keys=KEYS) for each in ROWS]
    found = page.evaluate(
        """([sentences, rows]) => sentences.map(words => {
          const asked = Filter.parse(words);
          return [rows.filter(asked.matches).map(row => row.run_id), asked.fault !== null, asked.keys];
        })""",
        [[words for words, _ in SENTENCES.values()] + list(REFUSED.values()), rows],
    )
    left, refused = found[: len(SENTENCES)], found[len(SENTENCES) :]
    told = {name: (set(ids), fault) for name, (ids, fault, _) in zip(SENTENCES, left, strict=True)}
    assert told == {name: (ids, False) for name, (_, ids) in SENTENCES.items()}
    assert [(ids, fault) for ids, fault, _ in refused] == [([], True)] * len(REFUSED)
    assert {key for _, _, keys in found for key in keys} == set(KEYS)


def test_a_run_that_seems_to_have_fallen_silent_does_not_look_calm(page: Page) -> None:
    silent, calm = row(page, scenes.SILENT), row(page, scenes.HEALTHY)
    expect(silent.locator(".status")).to_have_text("▲ RUNNING?")
    edge = "line => getComputedStyle(line).borderLeftColor"
    assert silent.evaluate(edge) == row(page, scenes.STALLED).evaluate(edge) != calm.evaluate(edge)
    # Its doubt stands where causes stand.
    doubt, cause = silent.locator(".c-cause .doubt"), row(page, scenes.HANGS).locator(".c-cause .cause")
    left = "told => told.getBoundingClientRect().left"
    assert doubt.evaluate(left) == cause.evaluate(left)
    expect(silent.locator(".c-beat")).to_have_text(re.compile(r"^▲ \d"))
    # And no dash where there is no reason.
    for run_id in (scenes.SILENT, scenes.DAMAGED):
        expect(row(page, run_id).locator(".why")).not_to_have_text(re.compile(r"^\W*\u2013"))


def test_chips_count_and_choose_statuses(page: Page) -> None:
    expect(page.get_by_text("2 older runs")).to_be_visible()
    for shown in set(STATUSES.values()) - {"RUNNING"}:
        expect(chip(page, shown)).to_contain_text(str(sum(each == shown for each in STATUSES.values())))
    chip(page, "FAILED").click()
    expect(chip(page, "FAILED")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("tbody tr")).to_have_count(2)
    chip(page, "SUCCEEDED").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    chip(page, "FAILED").click()
    chip(page, "SUCCEEDED").click()
    chip(page, NEEDS).click()
    expect(row(page, scenes.HEALTHY)).to_have_count(0)
    expect_fleet(page, [scenes.OOM, scenes.GONE, scenes.STALLED, scenes.SILENT])


def test_who_follows_an_address_right_after_a_choice_sees_what_it_says(page: Page) -> None:
    # The address changes before the choice is written into it, and the page hears of that afterwards.
    chip(page, "FAILED").evaluate(
        """async chip => {
          chip.click();
          history.replaceState(null, "", "#/?q=mistral");
          await new Promise(done => setTimeout(done, 400));
          window.dispatchEvent(new HashChangeEvent("hashchange"));
        }"""
    )
    expect(filter_box(page)).to_have_value("mistral")
    expect(chip(page, "FAILED")).to_have_attribute("aria-pressed", "false")
    assert page.url.endswith("#/?q=mistral")


def test_columns_sort_and_go_back_to_who_needs_people(page: Page) -> None:
    needed = rows(page)
    header = page.get_by_role("columnheader", name="Run", exact=True)
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect_rows(page, sorted(needed, key=str.lower))
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "descending")
    expect_rows(page, sorted(needed, key=str.lower, reverse=True))
    header.get_by_role("button").click()
    expect_rows(page, needed)


def test_the_keyboard_alone_is_enough(fresh: Page) -> None:
    page = fresh
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the runs")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    expect(filter_box(page)).to_be_focused()
    page.keyboard.type("ddp64")
    expect(page.locator("tbody tr")).to_have_count(1)
    link = page.get_by_role("link", name=scenes.LAGS, exact=True)
    for _ in range(40):
        page.keyboard.press("Tab")
        if link.evaluate("link => link === document.activeElement"):
            break
    expect(link).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.press("Enter")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name=scenes.LAGS)).to_be_visible()
    page.keyboard.press("Escape")
    expect(filter_box(page)).to_have_value("ddp64")
    expect(link).to_be_focused()
    filter_box(page).focus()
    page.keyboard.press("Escape")
    expect_fleet(page, list(STATUSES))


def test_a_focus_is_seen_wherever_it_goes(page: Page) -> None:
    unseen = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input, select, [tabindex='0']")]
          .filter((each) => each.checkVisibility() && !each.disabled)
          .filter((each) => {
            each.focus({ preventScroll: true, focusVisible: true });
            const style = getComputedStyle(each);
            return document.activeElement !== each || (style.outlineStyle === "none" && style.boxShadow === "none");
          }).map((each) => each.outerHTML.slice(0, 120))"""
    )
    assert unseen == []


def test_the_last_day_of_each_run_is_told_in_words_too(page: Page) -> None:
    strip = row(page, scenes.FLAPS).locator("svg.strip")
    expect(strip).to_have_role("img")
    name = strip.get_attribute("aria-label") or ""
    assert name.count("TIMED_OUT") >= 3
    assert "RUNNING" in name
    assert "attempt 3" in name


def test_a_page_that_comes_back_says_how_old_its_rows_are_before_they_are_painted(fresh: Page) -> None:
    told = fresh.evaluate("""() => {
      const now = Date.now;
      Date.now = () => now() + 3600e3;
      Object.defineProperty(document, "hidden", { get: () => false, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
      return document.getElementById("fresh").textContent;
    }""")
    assert "refreshing as of 1 h ago" in told
