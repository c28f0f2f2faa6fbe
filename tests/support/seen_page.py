"""The page as people find their way in it: by roles, names and words, in any status of its building."""

import re
from collections.abc import Sequence

from playwright.sync_api import Locator, Page, expect

from support.browser import settled

SIGNS = {
    "FAILED": "✖", "TIMED_OUT": "◷", "RUNNING (WARNING)": "▲", "UNKNOWN": "?", "RUNNING": "●", "SUCCEEDED": "✔",
}  # fmt: skip
NEEDS = "Needs attention"


def row(page: Page, run_id: str) -> Locator:
    """The row of a run in the table of the fleet."""
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=run_id, exact=True))


def rows(page: Page) -> list[str]:
    """The ids of all runs that stand in the table, from top to bottom."""
    ids: list[str] = page.locator("tbody tr a.run-link").all_text_contents()
    return ids


def group(page: Page, words: str) -> Locator:
    """The line of runs that are in trouble together; ``words`` stand in it."""
    return page.locator("tbody tr.group").filter(has_text=words)


def filter_box(page: Page) -> Locator:
    return page.get_by_role("searchbox")


def chip(page: Page, name: str) -> Locator:
    """The button that shows only runs of this status."""
    group = page.get_by_role("group", name="Show only these statuses")
    return group.locator("button").filter(has_text=re.compile(rf"{re.escape(name)}\s*\d"))


def expect_fleet(page: Page, ids: Sequence[str]) -> None:
    """Wait until each of these runs has one row."""
    shown = settled(lambda: rows(page), lambda found: all(found.count(run_id) == 1 for run_id in ids))
    assert [run_id for run_id in ids if shown.count(run_id) != 1] == [], shown


def expect_rows(page: Page, ids: Sequence[str]) -> None:
    """Wait until exactly these runs stand in the table, in this order."""
    assert settled(lambda: rows(page), lambda found: found == list(ids)) == list(ids)


def section(page: Page, title: str) -> Locator:
    """A section of a run's view by its heading."""
    return page.get_by_role("region", name=title, exact=True)


def open_run(page: Page, run_id: str) -> None:
    """As people do, from the table."""
    page.get_by_role("link", name=run_id, exact=True).click()
    expect(page.get_by_role("heading", level=1, name=run_id, exact=True)).to_be_visible()
    expect(page.get_by_text("Reading this run")).to_be_hidden()
