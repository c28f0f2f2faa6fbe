"""The dashboard's door: links from elsewhere, a field for the token, and back to the page that was asked for."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from support import view_scenes as scenes
from support.browser import WAIT_MS
from support.dashboard import run_dashboard
from support.seen_page import section

TOKEN = "a-token-of-some-length"
ELSEWHERE = "http://chat.example/thread"
"""Another site. The browser asks no network for it."""
RUN = f"#/runs/{scenes.OOM}"


@pytest.fixture(scope="module")
def address(young_root: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_dashboard(young_root(), tmp_path_factory.mktemp("home"), LASTBEAT_DASHBOARD_TOKEN=TOKEN) as found:
        yield found


@pytest.fixture
def stranger(browser: Browser) -> Iterator[Callable[..., Page]]:
    """A page of a browser that was never here."""
    opened: list[BrowserContext] = []

    def page(*, scripts: bool = True) -> Page:
        context = browser.new_context(java_script_enabled=scripts)
        opened.append(context)
        context.set_default_timeout(WAIT_MS)
        return context.new_page()

    yield page
    for context in opened:
        context.close()


def log_in(page: Page, token: str = TOKEN) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Open").click()


def test_without_scripts_too_the_token_is_entered(address: str, stranger: Callable[..., Page]) -> None:
    page = stranger(scripts=False)
    page.goto(f"{address}{RUN}")
    with page.expect_navigation(url=f"{address}{RUN}"):
        log_in(page)
    expect(page.get_by_role("button", name="Open")).to_have_count(0)


def test_an_address_with_the_token_leads_to_its_run_without_it(address: str, stranger: Callable[..., Page]) -> None:
    page = stranger()
    asked: list[tuple[str, str]] = []
    page.on("request", lambda request: asked.append((request.url, request.headers.get("referer", ""))))
    page.goto(f"{address}?token={TOKEN}{RUN}")
    expect(section(page, "Files")).to_be_visible()
    assert page.url == f"{address}{RUN}"
    assert all("token" not in referer for _, referer in asked)
    assert sum("token" in url for url, _ in asked) == 1


def test_the_run_that_was_asked_for_opens_with_the_token_and_from_then_on_by_links_of_other_sites(
    address: str, stranger: Callable[..., Page]
) -> None:
    page = stranger()
    page.goto(f"{address}{RUN}")
    log_in(page, "not-the-token")
    expect(page.get_by_text("That token does not open this dashboard.")).to_be_visible()
    with page.expect_navigation(url=f"{address}{RUN}"):
        log_in(page)
    expect(section(page, "Files")).to_be_visible()
    link = f'<!doctype html><a href="{address}{RUN}">FAILED</a>'
    page.route(ELSEWHERE, lambda route: route.fulfill(body=link, content_type="text/html"))
    page.goto(ELSEWHERE)
    page.get_by_role("link", name="FAILED").click()
    expect(section(page, "Files")).to_be_visible()
    assert page.url == f"{address}{RUN}"


def test_a_form_of_another_site_logs_no_one_in(address: str, stranger: Callable[..., Page]) -> None:
    page = stranger()
    form = (
        f'<!doctype html><form method="post" action="{address}"><input name="token" value="{TOKEN}"><button>Go</button>'
    )
    page.route(ELSEWHERE, lambda route: route.fulfill(body=form, content_type="text/html"))
    page.goto(ELSEWHERE)
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_role("heading", name="403 Forbidden")).to_be_visible()
    page.goto(address)
    expect(page.get_by_label("Token")).to_be_visible()
