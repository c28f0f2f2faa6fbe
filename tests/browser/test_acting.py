"""Stopping a run on its page: the page says first what happens."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from support.browser import OpenTab, serious_faults
from support.cli import RunFolder
from support.seen_page import open_run

TOKEN = "a-token-of-some-length"
START = Callable[..., str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    RunFolder(tmp_path / "training-runs", "mistral").metadata(stop_seconds=30, attempt=1)
    return tmp_path / "training-runs"


def test_a_run_is_stopped_with_the_keyboard_once_it_is_clear_what_happens(
    root: Path, dashboard: START, tab: OpenTab
) -> None:
    page = tab(f"{dashboard(root, LASTBEAT_DASHBOARD_TOKEN=TOKEN)}?token={TOKEN}").page
    open_run(page, "mistral")
    panel, keys = page.locator("details.acting"), page.keyboard
    panel.locator("summary").focus()
    keys.press("Enter")
    keys.press("Tab")
    keys.press("Enter")
    expect(panel).to_contain_text("The training looks for this each 30s, and then ends as by Ctrl-C.")
    assert not (root / "mistral" / "_stop").exists()
    assert serious_faults(page, ".acting") == []
    panel.get_by_label("Why").fill("wrong data")
    panel.get_by_label("Your name").fill("Ada")
    keys.press("Enter")
    expect(panel.get_by_role("status")).to_contain_text("Asked for the end of run mistral (attempt 1).")
    request = json.loads((root / "mistral" / "_stop").read_text())
    assert (request["by"], request["why"]) == ("Ada, on the page from 127.0.0.1", "wrong data")
