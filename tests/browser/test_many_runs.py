"""400 runs in a browser: more than are drawn."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from support.browser import Tab, settled
from support.page_speed import measure
from support.seen_page import chip, rows


@pytest.fixture
def page(many_page: str, look: Callable[..., Tab]) -> Page:
    page = look(many_page).page
    expect(chip(page, "All")).to_contain_text("400")
    expect(page.locator("tbody tr").nth(100)).to_be_attached()
    return page


def test_a_page_draws_no_more_rows_than_people_look_at(page: Page) -> None:
    assert len(rows(page)) <= 300
    # Those that need people are among them.
    expect(page.locator("tbody tr").first.locator(".status")).to_contain_text("WARNING")


def test_more_rows_come_as_people_go_down(page: Page) -> None:
    first = len(rows(page))
    page.locator("tbody tr").last.scroll_into_view_if_needed()
    expect(page.locator("tbody tr").nth(first)).to_be_attached()
    shown = rows(page)
    assert len(shown) == len(set(shown))


def test_a_sort_holds_for_all_of_them(page: Page) -> None:
    page.get_by_role("columnheader", name="Run", exact=True).get_by_role("button").click()
    shown = settled(lambda: rows(page), lambda found: found == sorted(found))
    assert shown == sorted(shown)
    assert shown[0].startswith("bert-base-ablation")


def test_its_data_stay_small(browser: Browser, many_page: str) -> None:
    speed = measure(browser, many_page)
    print("\n".join(speed.lines()))  # noqa: T201 - for `pytest -s`; how fast it is is no matter of right or wrong
    assert speed.data_bytes < 400_000
    assert speed.page_bytes < 250_000
    assert speed.elements < 20_000
