"""Silenced runs on the page: each is marked, and the page counts them."""

from pathlib import Path

from playwright.sync_api import expect

from support.browser import OpenTab
from support.cli import LASTBEAT, RunFolder, call
from support.seen_page import open_run, row


def test_a_silenced_run_says_until_when_and_why(tmp_path: Path, tab: OpenTab) -> None:
    for name in ("quiet", "loud"):
        RunFolder(tmp_path / "training-runs", name).put("_error", "boom")
    done = call(LASTBEAT, "silence", "quiet", "--for", "2h", "--why", "node <b>repair</b>", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    call(LASTBEAT, "sweep", "--once", cwd=tmp_path, LASTBEAT_PAGE_MINUTES="5")
    page = tab((tmp_path / "training-runs" / "_watchdog" / "index.html").as_uri()).page
    expect(row(page, "quiet")).to_contain_text("silenced until")
    expect(row(page, "quiet")).to_contain_text("node <b>repair</b>")
    expect(row(page, "loud")).not_to_contain_text("silenced")
    expect(page.locator("body")).to_contain_text("1 run is silenced")
    open_run(page, "quiet")
    expect(page.locator("body")).to_contain_text("Silenced: no alerts until")
