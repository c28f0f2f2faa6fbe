"""Runs that write what nobody should into every field: it is text, and stays text."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from support.browser import Tab, settled
from support.seen_page import expect_fleet, open_run, row, section
from support.view_hostile import IDS, MARK, TEXTS

_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
"""By how many pixels the page is too wide."""


def _injected(page: Page) -> list[str]:
    """Elements that the page does not build by itself, and links that lead elsewhere."""
    found: list[str] = page.evaluate(
        """() => {
          const all = [...document.querySelectorAll("*")];
          const own = "form:not(.silence-form)";
          const foreign = `img, iframe, object, embed, base, ${own}, svg style, main script, main style`;
          return [
            ...document.querySelectorAll(foreign),
            ...all.filter((each) => each.matches("a[href]") && !each.getAttribute("href").startsWith("#")),
            ...all.filter((each) => [...each.attributes].some((one) => one.name.startsWith("on"))),
          ].map((each) => each.outerHTML.slice(0, 200));
        }"""
    )
    return found


@pytest.fixture
def page(hostile_page: str, look: Callable[..., Tab]) -> Page:
    """Where the fleet stands in the order of names, in which each run has a row of its own."""
    page = look(hostile_page, "sort=run").page
    expect_fleet(page, ["text-00", "links", *IDS])
    return page


def test_the_fleet_shows_hostile_text_as_text(page: Page) -> None:
    expect(row(page, "error-00")).to_contain_text("<script>")
    expect(row(page, "error-05")).to_contain_text("javascript:")
    expect(page.get_by_text("no run may have such a name")).to_contain_text("<img src=x onerror=")
    assert _injected(page) == []
    assert page.evaluate(f"typeof window.{MARK}") == "undefined"


RUNS = [f"{kind}-{number:02}" for kind in ("text", "error") for number in range(len(TEXTS))]
ODD = ["links", "odd-files", "long-lines", "long-error", "document-3", "document-6", "document-8", "numbers-huge",
       "numbers-negative", "numbers-none", "numbers-beyond"]  # fmt: skip


@pytest.mark.parametrize("runs", [RUNS[:12], RUNS[12:], ODD], ids=["in each field", "in failures", "elsewhere"])
def test_a_run_shows_hostile_text_as_text(hostile_page: str, page: Page, runs: list[str]) -> None:
    for run_id in runs:
        page.goto(f"{hostile_page}#/runs/{run_id}")
        expect(page.get_by_role("heading", level=1, name=run_id, exact=True)).to_be_visible()
        expect(section(page, "Files")).to_be_visible()
        page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert _injected(page) == [], run_id
        wide = settled(lambda: int(page.evaluate(_WIDE)), lambda found: found <= 0)
        assert wide <= 0, f"{run_id} makes the page {wide} pixels too wide"


def test_the_text_is_there_to_be_read_but_for_what_reorders_hides_or_colours_it(page: Page) -> None:
    open_run(page, "error-02")
    expect(section(page, "Cause")).to_contain_text("</script><script>")
    for run_id in ("error-09", "error-10", "error-11"):
        page.goto(f"{page.url.partition('#')[0]}#/runs/{run_id}")
        expect(section(page, "Cause")).to_be_visible()
        shown = page.locator("main").inner_text()
        harmful = {hex(ord(letter)) for letter in shown if ord(letter) in {0x1B, 0x9B, 0x202E, 0x2066, 0x200F, 0, 7}}
        assert harmful == set(), run_id


def test_lines_of_100_000_characters_are_cut(page: Page) -> None:
    for run_id, title in (("long-lines", "Log"), ("long-lines", "Stacks"), ("long-error", "Cause")):
        page.goto(f"{page.url.partition('#')[0]}#/runs/{run_id}")
        lines = section(page, title) if run_id == "long-error" else page.locator("main")
        expect(lines).to_contain_text("x" * 500)
        size = page.evaluate("document.documentElement.outerHTML.length - document.head.innerHTML.length")
        assert size < 600_000, title
    more = section(page, "Cause").get_by_role("button", name="more characters").first
    before = len(section(page, "Cause").inner_text())
    more.click()
    expect(more).to_be_hidden()
    assert len(section(page, "Cause").inner_text()) > before + 1_000


def test_names_that_a_language_or_a_shell_trips_over_are_names_like_others(page: Page) -> None:
    for run_id in IDS:
        open_run(page, run_id)
        expect(section(page, "Files")).to_contain_text(run_id)
        expect(section(page, "Progress")).to_contain_text("100")
        page.keyboard.press("Escape")
        expect_fleet(page, [run_id])
