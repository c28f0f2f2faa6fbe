"""The page in a real browser: fleets made up beforehand, dashboards as processes of their own, tabs that note whatever
a page must not do."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, sync_playwright

from support.browser import DESKTOP, OpenTab, Tab, borrowed, find_chromium, launch, new_tab
from support.dashboard import run_dashboard
from support.made_once import made_once
from support.s3 import S3Server
from support.view_places import bucket
from support.view_scenes import every_status, hostile, many, together

YOUNG_S = 360.0


def now() -> datetime:
    return datetime.now(timezone.utc)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One a worker; it ends with this folder's tests, because its event loop would be in the way of others'."""
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("chromium is not installed: apt-get install chromium, or say where it is in $CHROMIUM")
    with sync_playwright() as playwright:
        browser = launch(playwright, chromium)
        yield browser
        browser.close()


@pytest.fixture
def tab(browser: Browser) -> Iterator[OpenTab]:
    """Opens an address in a context of its own, which may have no trouble until the test ends."""
    with ExitStack() as open_:

        def open_tab(address: str, **options: Any) -> Tab:
            opened = open_.enter_context(new_tab(browser, address.partition("#")[0], **options))
            opened.open(address)
            return opened

        yield open_tab


@pytest.fixture(scope="module")
def module_tabs(browser: Browser) -> Iterator[Callable[[str], Tab]]:
    """Gives the tab of an address, which is loaded once, for :func:`look`."""
    with ExitStack() as open_:
        opened: dict[str, Tab] = {}

        def tab_of(address: str) -> Tab:
            if address not in opened:
                opened[address] = open_.enter_context(new_tab(browser, address))
                opened[address].open(address)
            return opened[address]

        yield tab_of


@pytest.fixture
def look(module_tabs: Callable[[str], Tab], request: pytest.FixtureRequest) -> Iterator[Callable[..., Tab]]:
    """Shows the fleet of an address, with no filter and with its groups closed, in a tab that earlier tests of the
    module have used. It may have no trouble until the test ends."""
    with ExitStack() as until_the_end:

        def looked(address: str, query: str = "") -> Tab:
            tab = until_the_end.enter_context(borrowed(module_tabs(address)))
            tab.page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
            tab.page.mouse.move(0, 0)
            # An address that it does not have yet, which leads to the fleet.
            tab.page.goto(f"{address}#/?{query}&for={quote(request.node.name, safe='')}")
            for toggle in tab.page.locator("tbody tr.group [aria-expanded=true]").all():
                toggle.click()
            return tab

        yield looked


@pytest.fixture
def looked_at(look: Callable[..., Tab], every_status_page: str) -> Tab:
    """The fleet of :func:`every_status_page`."""
    return look(every_status_page)


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts ``lastbeat dashboard`` over a root; its address. It ends with the test."""
    with ExitStack() as open_:

        def started(root: str | Path, *arguments: str, **settings: str) -> str:
            home = tmp_path / f"home-{len(list(tmp_path.iterdir()))}"
            process: AbstractContextManager[str] = run_dashboard(root, home, *arguments, **settings)
            return open_.enter_context(process)

        yield started


@pytest.fixture(scope="package")
def young_root(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Gives a fleet of :func:`every_status` that is still young, for tests that only look at it: after ten minutes its
    runs have fallen silent, and on a busy machine these tests take longer."""
    assert browser.is_connected()

    def made(folder: Path) -> None:
        every_status(folder, now())

    def root() -> Path:
        roots = (made_once(tmp_path_factory, f"every-status-{n}", made) for n in count())
        return next(root for root in roots if time.time() - root.stat().st_mtime < YOUNG_S)

    return root


@pytest.fixture(scope="package")
def young_page(young_root: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], str]]:
    """Gives the address of a dashboard over a fleet of :func:`young_root`."""
    with ExitStack() as open_:
        addresses: dict[Path, str] = {}

        def address() -> str:
            root = young_root()
            if root not in addresses:
                addresses[root] = open_.enter_context(run_dashboard(root, tmp_path_factory.mktemp("home")))
            return addresses[root]

        yield address


@pytest.fixture(scope="module")
def every_status_page(young_page: Callable[[], str]) -> str:
    """The address of a dashboard over :func:`every_status`; tests only look at it."""
    return young_page()


@pytest.fixture(scope="package")
def together_page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same over :func:`together`."""
    assert browser.is_connected()
    root = made_once(tmp_path_factory, "together", lambda folder: together(folder, now()))
    with run_dashboard(root, tmp_path_factory.mktemp("home-together")) as address:
        yield address


@pytest.fixture(scope="package")
def hostile_page(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server) -> Iterator[str]:
    """The same over :func:`hostile` in a bucket, which takes any name."""
    name = s3_server.bucket()
    hostile(bucket(s3_server, name), now())
    home = tmp_path_factory.mktemp("hostile")
    with run_dashboard(f"s3://{name}/training-runs", home, **s3_server.environment()) as address:
        yield address


@pytest.fixture(scope="package")
def many_page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same over :func:`many`."""
    assert browser.is_connected()
    root = made_once(tmp_path_factory, "many", lambda folder: many(folder, now(), 400, history=False))
    with run_dashboard(root, tmp_path_factory.mktemp("home-many")) as address:
        yield address
