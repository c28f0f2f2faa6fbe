"""Silencing on the page: by the keyboard, for who was let in by the token, and never shown as done where it is not."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from support.browser import PHONE, OpenTab, serious_faults, settled
from support.cli import LASTBEAT, RunFolder, call
from support.dashboard import run_dashboard
from support.seen_page import expect_fleet, open_run, row

TOKEN = "a-token-of-some-length"
START = Callable[..., str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("mistral-1", "mistral-2", "llama-1"):
        run = RunFolder(tmp_path / "training-runs", name)
        run.metadata()
        run.progress()
    return tmp_path / "training-runs"


def panel(page: Page) -> Locator:
    return page.locator("details.silencing")


def held(root: Path) -> list[dict[str, Any]]:
    path = root / "_watchdog" / "silences.json"
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["silences"] if path.exists() else []
    return found


def test_silencing_a_glob_and_lifting_it_with_the_keyboard_then_a_run_on_its_own_page(
    root: Path, dashboard: START, tab: OpenTab
) -> None:
    address = dashboard(root, LASTBEAT_DASHBOARD_TOKEN=TOKEN)
    page = tab(f"{address}?token={TOKEN}").page
    expect_fleet(page, ["mistral-1", "mistral-2", "llama-1"])
    keys, summary = page.keyboard, panel(page).locator("summary")
    summary.focus()
    keys.press("Enter")
    keys.press("Tab")
    expect(page.get_by_label("Runs", exact=True)).to_be_focused()
    keys.type("mistral-*")
    keys.press("Tab")
    expect(page.get_by_label("Silence for")).to_be_focused()
    keys.type("4")
    keys.press("Tab")
    expect(page.get_by_label("Reason")).to_be_focused()
    keys.type("node <b>repair</b>")
    keys.press("Tab")
    keys.type("Ada")
    with page.expect_request("**/api/changes") as sent:
        keys.press("Enter")
    # Over plain HTTP to another machine this is all that a browser says of where a request comes from.
    assert sent.value.all_headers()["origin"] == address.rstrip("/")
    said = panel(page).get_by_role("status")
    expect(said).to_contain_text("mistral-* is silenced until")
    expect(said).to_contain_text("It covers 2 runs now.")
    expect(page.get_by_label("Your name (optional)")).to_be_focused()
    [kept] = held(root)
    assert (kept["runs"], kept["why"], kept["by"]) == (
        "mistral-*",
        "node <b>repair</b>",
        "Ada, on the page from 127.0.0.1",
    )
    for name in ("mistral-1", "mistral-2"):
        expect(row(page, name)).to_contain_text(re.compile("silenced until .*: node <b>repair</b>"))
    expect(row(page, "llama-1")).not_to_contain_text("silenced")
    lift = page.get_by_role("button", name="Lift the silence of mistral-*")
    expect(panel(page).get_by_role("listitem")).to_contain_text("node <b>repair</b>")
    lift.focus()
    keys.press("Enter")
    expect(said).to_contain_text("The silence of mistral-* is lifted")
    expect(summary).to_be_focused()
    expect(lift).to_have_count(0)
    assert held(root) == []
    expect(row(page, "mistral-1")).not_to_contain_text("silenced")
    # Then a run on its own page.
    open_run(page, "llama-1")
    page.get_by_text("Silence this run").click()
    # A reason is optional, and without one nothing stands in its place.
    page.get_by_role("button", name="Silence", exact=True).click()
    expect(panel(page).get_by_role("status")).to_contain_text("llama-1 is silenced until")
    [kept] = held(root)
    assert (kept["runs"], kept["why"], kept["by"]) == ("llama-1", "", "Ada, on the page from 127.0.0.1")
    expect(panel(page).get_by_role("listitem").locator("span")).to_have_text(
        re.compile(r"^llama-1 until .*, by Ada, on the page from 127\.0\.0\.1$")
    )
    page.get_by_label("Reason").fill("known")
    page.get_by_role("button", name="Silence", exact=True).click()
    expect(panel(page).get_by_role("listitem")).to_contain_text("127.0.0.1: known")
    expect(page.get_by_role("button", name="Lift the silence of llama-1")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value("")
    expect(page.locator("body")).to_contain_text("Silenced: no alerts until")


def test_what_the_store_refuses_is_said_and_not_shown_as_done(root: Path, dashboard: START, tab: OpenTab) -> None:
    (root / "_watchdog").write_text("a file where a folder has to be", encoding="utf-8")
    opened = tab(f"{dashboard(root, LASTBEAT_DASHBOARD_TOKEN=TOKEN)}?token={TOKEN}")
    opened.expected.append("Failed to load resource")
    page = opened.page
    expect_fleet(page, ["llama-1"])
    page.get_by_text("Silence runs").click()
    page.get_by_label("Runs", exact=True).fill("llama-1")
    page.get_by_label("Reason").fill("known")
    page.get_by_label("Reason").press("Enter")
    said = panel(page).get_by_role("status")
    expect(said).to_contain_text("done.")
    expect(said).not_to_contain_text("silenced until")
    expect(said).to_have_class("said bad")
    expect(panel(page).get_by_role("listitem")).to_have_count(0)
    expect(page.get_by_label("Reason")).to_have_value("known")


def test_a_server_that_does_not_answer_leaves_it_open(root: Path, tmp_path: Path, tab: OpenTab) -> None:
    with run_dashboard(root, tmp_path / "home", LASTBEAT_DASHBOARD_TOKEN=TOKEN) as address:
        opened = tab(f"{address}?token={TOKEN}")
        opened.expected.append("Failed to load resource")
        page = opened.page
        open_run(page, "llama-1")
        page.get_by_text("Silence this run").click()
        page.get_by_label("Reason").fill("known")
    page.get_by_label("Reason").press("Enter")
    expect(panel(page).get_by_role("status")).to_contain_text("Not known to be done. The server does not answer.")
    expect(panel(page).get_by_role("listitem")).to_have_count(0)


def test_the_form_is_for_everybody(root: Path, dashboard: START, tab: OpenTab) -> None:
    done = call(LASTBEAT, "silence", "m*", "--for", "2h", "--why", "x" * 200, cwd=root.parent)
    assert done.returncode == 0, done.stderr
    page = tab(f"{dashboard(root, LASTBEAT_DASHBOARD_TOKEN=TOKEN)}?token={TOKEN}", size=PHONE).page
    expect_fleet(page, ["mistral-1"])
    expect(page.locator("body")).to_contain_text("2 runs are silenced")
    page.get_by_text("Silence runs (1)").click()
    expect(panel(page).get_by_role("listitem")).to_be_visible()
    page.emulate_media(color_scheme="dark")
    assert serious_faults(page, ".silencing") == []
    page.emulate_media(color_scheme="light")
    assert serious_faults(page, ".silencing") == []
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert settled(lambda: int(page.evaluate(wide)), lambda found: found <= 0) <= 0
    low = page.evaluate(
        """() => [...document.querySelectorAll(".silencing :is(button, input, select, summary)")]
          .filter((each) => each.getBoundingClientRect().height < 24).map((each) => each.outerHTML)"""
    )
    assert low == []
