"""Acknowledging on the run's page: for who was let in by the token, and never shown as done where it is not."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from support.browser import PHONE, OpenTab, serious_faults
from support.cli import LASTBEAT, RunFolder, call
from support.seen_page import expect_fleet, open_run, row

TOKEN, VIEW = "a-token-of-some-length", "a-token-for-looking-only"
START = Callable[..., str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run that failed, and one that is well."""
    RunFolder(tmp_path / "training-runs", "mistral").metadata()
    run = RunFolder(tmp_path / "training-runs", "llama")
    run.metadata()
    run.put("_error", "RuntimeError: boom\n")
    done = call(LASTBEAT, "sweep", "--once", cwd=tmp_path)
    assert done.stderr == ""
    return tmp_path / "training-runs"


def panel(page: Page) -> Locator:
    return page.locator("details.acknowledging")


def test_a_failure_is_acknowledged_with_the_keyboard_and_that_is_withdrawn(
    root: Path, dashboard: START, tab: OpenTab
) -> None:
    page = tab(f"{dashboard(root, LASTBEAT_DASHBOARD_TOKEN=TOKEN)}?token={TOKEN}").page
    expect_fleet(page, ["llama", "mistral"])
    open_run(page, "llama")
    keys, summary = page.keyboard, panel(page).locator("summary")
    summary.focus()
    keys.press("Enter")
    keys.press("Tab")
    keys.type("bad <b>node</b>")
    keys.press("Tab")
    keys.type("Ada")
    keys.press("Enter")
    expect(panel(page).get_by_role("status")).to_contain_text("Acknowledged by Ada, on the page from 127.0.0.1.")
    expect(page.locator(".state-panel")).to_contain_text("bad <b>node</b>")
    assert json.loads((root / "llama" / "_watchdog.json").read_text())["acknowledgement"]["note"] == "bad <b>node</b>"
    assert serious_faults(page, ".acknowledging") == []
    page.get_by_role("link", name="All runs").click()
    expect_fleet(page, ["mistral", "llama"])
    expect(row(page, "llama")).to_contain_text("acknowledged by Ada")
    open_run(page, "llama")
    panel(page).locator("summary").click()
    page.get_by_role("button", name="Withdraw the acknowledgement").click()
    expect(panel(page).get_by_role("status")).to_contain_text("The acknowledgement is withdrawn.")
    expect(page.get_by_role("button", name="Withdraw the acknowledgement")).to_be_hidden()
    expect(page.locator(".state-panel")).not_to_contain_text("Acknowledged")


def test_what_happened_meanwhile_is_not_acknowledged(root: Path, dashboard: START, tab: OpenTab) -> None:
    opened = tab(f"{dashboard(root, LASTBEAT_DASHBOARD_TOKEN=TOKEN)}?token={TOKEN}")
    opened.expected.append("Failed to load resource")
    page = opened.page
    open_run(page, "llama")
    panel(page).locator("summary").click()
    page.evaluate("Data.pause(true)")
    path = root / "llama" / "_watchdog.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "transitions": record["transitions"] + 1}))
    page.get_by_role("button", name="Acknowledge", exact=True).click()
    said = panel(page).get_by_role("status")
    expect(said).to_contain_text("Not done. What you saw is over; llama is FAILED since")
    expect(said).to_have_class("said bad")


def test_nothing_is_offered_for_a_run_that_is_well_nor_to_who_may_only_look(
    root: Path, dashboard: START, tab: OpenTab
) -> None:
    page = tab(f"{dashboard(root, LASTBEAT_DASHBOARD_TOKEN=TOKEN)}?token={TOKEN}", size=PHONE).page
    open_run(page, "mistral")
    expect(page.get_by_text("Silence this run")).to_be_visible()
    expect(panel(page)).to_be_hidden()
    for settings, query in (({}, ""), ({"LASTBEAT_DASHBOARD_TOKEN": f"operate:{TOKEN} view:{VIEW}"}, f"?token={VIEW}")):
        page = tab(f"{dashboard(root, **settings)}{query}").page
        open_run(page, "llama")
        for name in ("acknowledging", "acting", "silencing"):
            expect(page.locator(f"details.{name}")).to_be_hidden()
