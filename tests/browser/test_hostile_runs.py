"""Runs that write what nobody should into every field: it is text, and stays text."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from support.browser import Tab, borrowed, new_tab
from support.seen_page import expect_fleet, open_run, row, section
from support.view_hostile import IDS, MARK, TEXTS


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


@pytest.fixture(scope="module")
def loaded(browser: Browser, hostile_page: str) -> Iterator[Tab]:
    """A tab that is loaded once, for all of these tests."""
    with new_tab(browser, hostile_page) as tab:
        tab.open(hostile_page)
        yield tab


@pytest.fixture
def page(loaded: Tab, hostile_page: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Where the fleet stands, with no filter, in the order of names, in which each run has a row of its own."""
    loaded.page.goto(f"{hostile_page}#/?sort=run&for={quote(request.node.name, safe='')}")
    with borrowed(loaded) as tab:
        expect_fleet(tab.page, ["text-00", "links", *IDS])
        yield tab.page


def test_the_fleet_shows_hostile_text_as_text(page: Page) -> None:
    expect(row(page, "error-00")).to_contain_text("<script>")
    expect(row(page, "error-05")).to_contain_text("javascript:")
    assert _injected(page) == []
    assert page.evaluate(f"typeof window.{MARK}") == "undefined"


def test_what_can_be_no_run_is_named(page: Page) -> None:
    expect(page.get_by_text("no run may have such a name")).to_contain_text("<img src=x onerror=")


RUNS = [f"text-{number:02}" for number in range(len(TEXTS))] + [f"error-{number:02}" for number in range(len(TEXTS))]


@pytest.mark.parametrize("runs", [RUNS[:8], RUNS[8:16], RUNS[16:], ["links", "odd-files", "long-lines", "long-error"],
                                  [f"document-{n}" for n in range(9)],
                                  ["numbers-huge", "numbers-negative", "numbers-none", "numbers-beyond"]])  # fmt: skip
def test_a_run_shows_hostile_text_as_text(hostile_page: str, page: Page, runs: list[str]) -> None:
    for run_id in runs:
        page.goto(f"{hostile_page}#/runs/{run_id}")
        expect(page.get_by_role("heading", level=1, name=run_id, exact=True)).to_be_visible()
        expect(section(page, "Files")).to_be_visible()
        page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert _injected(page) == [], run_id
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{run_id} makes the page {wide} pixels too wide"


def test_the_text_is_there_to_be_read(page: Page) -> None:
    open_run(page, "error-02")
    expect(section(page, "Cause")).to_contain_text("</script><script>")


def test_what_reorders_hides_or_colours_text_is_taken_out(page: Page) -> None:
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


@pytest.mark.parametrize(
    "path",
    [
        "/data/runs/..", "/data/runs/%2e%2e", "/data/runs/..%2f..%2fetc%2fpasswd", "/data/runs/_watchdog",
        "/data/runs/%2e%2e%2f_watchdog", "/data/runs/a%00b", "/data/runs/a%20b", "/data/runs/",
        "/data/runs/a/metadata.json",
        "/data/runs/constructor/../links", "/../../etc/passwd", "/_watchdog/fleet.json.z", "/page.css", "/data",
    ],
)  # fmt: skip
def test_nothing_is_reached_beside_the_runs(hostile_page: str, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{hostile_page.rstrip('/')}{path}", timeout=30)
    assert refused.value.code in {400, 404}
    body = refused.value.read()
    refused.value.close()
    assert b"root:" not in body


def test_documents_hold_no_bare_nan_and_no_markup_of_their_own(hostile_page: str) -> None:
    def no_such_number(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    for path in ("data/fleet", "data/runs/numbers-none", "data/runs/numbers-huge"):
        with urllib.request.urlopen(f"{hostile_page}{path}", timeout=30) as answer:
            assert answer.headers["Content-Type"].startswith("application/json")
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            json.loads(answer.read(), parse_constant=no_such_number)
