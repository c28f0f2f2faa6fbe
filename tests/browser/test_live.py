"""The page while things happen: a run that fails, a store that fails, a server that goes, all without a reload."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from support.browser import OpenTab
from support.dashboard import run_dashboard
from support.seen_page import expect_fleet, open_run, row, rows, section
from support.view_places import Place, place_of
from support.view_world import MINUTE, SdkWorld, sweep

START = Callable[..., str]
GOOD, DOOMED = "good-run", "doomed-run"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Two runs that live, in a directory."""
    there = place_of(tmp_path / "runs")
    _two_runs().lay(there)
    sweep(there)
    return there


@pytest.fixture
def page(place: Place, tmp_path: Path, dashboard: START, tab: OpenTab) -> Page:
    """The page of the two runs."""
    assert place
    opened = tab(dashboard(tmp_path / "runs")).page
    expect_fleet(opened, [GOOD, DOOMED])
    return opened


def now() -> datetime:
    return datetime.now(timezone.utc)


def _two_runs() -> SdkWorld:
    world = SdkWorld(now())
    for name in (GOOD, DOOMED):
        world.training(name, total=4_000).beats(-20 * MINUTE, -1.0)
    return world.play()


def _beat(place: Place, run_id: str) -> None:
    """One more beat, as of now."""
    world = SdkWorld(now(), seed=5)
    training = world.training(run_id, total=4_000)
    training.step = 3_333
    world.at(0.0, training.report)
    world.play().lay(place)


def test_a_run_that_fails_is_told_of_without_a_reload(place: Place, page: Page) -> None:
    page.evaluate("window.loadedOnce = true")
    expect(row(page, DOOMED).locator(".status")).to_contain_text("RUNNING")
    place.put(f"{DOOMED}/_error", b"RuntimeError: CUDA error: an illegal memory access was encountered\n", now())
    sweep(place)
    expect(row(page, DOOMED).locator(".status")).to_have_text("✖ FAILED")
    expect(page.get_by_role("status").filter(has_text=f"run {DOOMED} is FAILED now")).to_be_attached()
    expect(page).to_have_title("(1) lastbeat · fleet")
    page.mouse.move(1, 1)
    expect(page.locator("tbody tr").first).to_contain_text(DOOMED)
    _beat(place, GOOD)
    expect(row(page, GOOD)).to_contain_text("3.33k")
    place.put("new-run/metadata.json", b'{"phase": "begin"}', now())
    expect_fleet(page, ["new-run"])
    assert page.evaluate("window.loadedOnce") is True


def test_the_view_of_a_run_follows_it(place: Place, page: Page) -> None:
    open_run(page, DOOMED)
    log = section(page, "Log")
    expect(log).to_contain_text("loss")
    page.get_by_text("The points as a table").click()
    place.put(f"{DOOMED}/logs/training_log_latest.txt", b"step 4/9 loss 2\nRuntimeError: it is over\n", now())
    place.put(f"{DOOMED}/_error", b"RuntimeError: it is over\n", now())
    sweep(place)
    expect(section(page, "Cause")).to_contain_text("it is over")
    expect(page.locator(".state-panel")).to_contain_text("FAILED")
    expect(log).to_contain_text("shown above")
    # What people opened stays open.
    expect(section(page, "Curves").get_by_role("columnheader", name="Learning rate")).to_be_visible()


def test_focus_and_place_stay_while_rows_change(place: Place, page: Page) -> None:
    link = page.get_by_role("link", name=GOOD, exact=True)
    link.focus()
    before = rows(page)
    place.put(f"{DOOMED}/_error", b"", now())
    sweep(place)
    expect(row(page, DOOMED).locator(".status")).to_have_text("✖ FAILED")
    expect(link).to_be_focused()
    assert rows(page) == before, "rows do not jump while somebody is among them"
    if before[0] != DOOMED:
        page.get_by_role("button", name="The order has changed").click()
        expect(page.locator("tbody tr").first).to_contain_text(DOOMED)


def test_a_store_that_fails_is_told_of_and_what_was_known_stands(place: Place, page: Page, tmp_path: Path) -> None:
    expect(row(page, GOOD)).to_contain_text("training")
    (tmp_path / "runs").rename(tmp_path / "away")
    banner = page.get_by_label("What to know about this page")
    expect(banner).to_contain_text("The store cannot be seen")
    expect(banner).to_contain_text("What you see is as of")
    expect_fleet(page, [GOOD, DOOMED])
    expect(row(page, GOOD)).to_contain_text("training")
    expect(row(page, GOOD).locator(".status")).to_contain_text("RUNNING")
    (tmp_path / "away").rename(tmp_path / "runs")
    expect(banner).not_to_contain_text("The store cannot be seen")
    _beat(place, GOOD)
    expect(row(page, GOOD)).to_contain_text("3.33k")


def test_that_nobody_watches_and_that_the_server_is_gone_is_told(tmp_path: Path, tab: OpenTab) -> None:
    root = tmp_path / "runs"
    _two_runs().lay(place_of(root))
    with run_dashboard(root, tmp_path / "home") as address:
        opened = tab(address)
        expect_fleet(opened.page, [GOOD, DOOMED])
        banner = opened.page.get_by_label("What to know about this page")
        expect(banner).to_contain_text("no pass has left its mark")
    opened.expected += ["Failed to load resource", "ERR_CONNECTION_REFUSED"]
    expect(banner).to_contain_text("The server does not answer")
    expect_fleet(opened.page, [GOOD, DOOMED])
    again = f"--port={urlsplit(address).port}"
    with run_dashboard(root, tmp_path / "home", again) as same:
        assert same == address
        expect(banner).not_to_contain_text("The server does not answer")


def test_a_fleet_without_runs_says_how_to_begin_one(tmp_path: Path, dashboard: START, tab: OpenTab) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    page = tab(dashboard(root)).page
    expect(page.get_by_text("No runs yet")).to_be_visible()
    place_of(root).put("first/metadata.json", b"{}", now())
    expect_fleet(page, ["first"])


def test_what_is_old_right_after_opening_is_said_to_be_refreshed(every_status_page: str, tab: OpenTab) -> None:
    opened = tab("about:blank")
    page = opened.page
    held = {"seconds": 134}

    def older(route: Route) -> None:
        answer = route.fetch()
        told = answer.json()
        if held["seconds"] and told["at"]:
            made = datetime.fromisoformat(told["made_at"].replace("Z", "+00:00"))
            told["at"] = (made - timedelta(seconds=held["seconds"])).isoformat().replace("+00:00", "Z")
        route.fulfill(response=answer, json=told)

    page.route("**/data/fleet*", older)
    opened.expected.append("left the page's origin")
    opened.troubles.clear()
    page.goto(every_status_page)
    header = page.get_by_role("banner")
    expect(header).to_contain_text(re.compile(r"refreshing\s+as of 2 m 1\d s ago"))
    expect(header).not_to_contain_text("live")
    held["seconds"] = 0
    expect(header).to_contain_text("live")
    expect(header).not_to_contain_text("refreshing")
    page.unroute_all(behavior="wait")
