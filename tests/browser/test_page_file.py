"""The page as a file that a pass leaves: opened from a disk, with nobody to ask."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support import view_scenes as scenes
from support.browser import OpenTab, Tab
from support.cli import LASTBEAT, call
from support.made_once import made_once
from support.seen_page import chip, expect_fleet, filter_box, open_run, row, section
from support.view_scenes import STATUSES


@pytest.fixture(scope="module")
def file(young_root: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As ``lastbeat sweep`` writes it."""

    def sweep(folder: Path) -> None:
        # With the times of its files.
        shutil.copytree(young_root(), folder / "runs")
        settings = {"LASTBEAT_PAGE_MINUTES": "5", "LASTBEAT_STALL_MINUTES": "15"}
        root = str(folder / "runs")
        swept = call(LASTBEAT, "sweep", "--once", "--root", root, cwd=folder, **settings)
        assert swept.returncode in {0, 1, 2}, swept.stderr

    root = made_once(tmp_path_factory, "page-file", sweep) / "runs"
    return root / "_watchdog" / "index.html"


@pytest.fixture
def page(file: Path, look: Callable[..., Tab]) -> Page:
    page = look(file.as_uri()).page
    expect_fleet(page, [scenes.OOM, scenes.HEALTHY])
    return page


def test_it_shows_the_fleet_and_how_old_it_is(page: Page) -> None:
    for run_id, shown in STATUSES.items():
        expect(row(page, run_id).locator(".status")).to_contain_text(shown)
    header = page.get_by_role("banner")
    expect(header).to_contain_text("file")
    expect(header).to_contain_text(re.compile(r"made .+ ago"))
    filter_box(page).fill("oom")
    expect(page.locator("tbody tr")).to_have_count(1)
    filter_box(page).fill("")
    chip(page, "SUCCEEDED").click()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_it_holds_all_about_its_runs(page: Page) -> None:
    open_run(page, scenes.OOM)
    expect(section(page, "Cause")).to_contain_text("CUDA out of memory")
    expect(page.locator("details.silencing")).to_be_hidden()
    page.get_by_role("link", name="All runs").click()
    chip(page, "All").click()
    open_run(page, scenes.HEALTHY)
    expect(page.get_by_role("slider", name="Loss curve")).to_be_visible()
    page.reload()
    expect(page.get_by_role("slider", name="Loss curve")).to_be_visible()


def test_it_says_where_the_rest_is_to_be_seen(file: Path, page: Page) -> None:
    page.goto(f"{file.as_uri()}#/runs/resnet50-baseline")
    expect(page.get_by_text("There is no such run in this file.")).to_be_visible()
    # Whatever root the reader's own settings name.
    expect(page.get_by_text(re.compile(r"^lastbeat show --root \S+ resnet50-baseline$"))).to_be_visible()


def test_it_says_when_it_is_old(file: Path, tab: OpenTab) -> None:
    later = tab("about:blank")
    later.page.clock.install()
    later.page.clock.fast_forward("26:00:00")
    later.troubles.clear()
    page = later.open(file.as_uri())
    expect_fleet(page, [scenes.OOM])
    expect(page.get_by_role("banner")).to_contain_text(re.compile(r"made (1 d|26 h)"))
    expect(page.get_by_label("What to know about this page")).to_contain_text("was made")
    later.expected.append("left the page's origin")


def test_no_other_script_runs_in_it(file: Path, tab: OpenTab) -> None:
    opened = tab(file.as_uri())
    opened.expected += ["CSP:", "Content Security Policy", "TrustedScript", "requires"]
    page = opened.page
    refused = page.evaluate(
        """async () => {
          const refused = [];
          document.addEventListener("securitypolicyviolation", (event) => refused.push(event.violatedDirective));
          const script = document.createElement("script");
          try {
            script.textContent = "window.injected = 1";
            document.head.append(script);
          } catch {
            refused.push("types");
          }
          await new Promise((done) => setTimeout(done, 100));
          return [refused.length > 0, typeof window.injected];
        }"""
    )
    assert refused == [True, "undefined"]


def test_it_says_what_failures_cost(page: Page) -> None:
    page.get_by_role("link", name="Causes").click()
    first = page.get_by_role("region", name="Which causes")
    expect(first.get_by_role("link", name=scenes.OOM)).to_be_visible()
    expect(first.locator("tbody tr", has_text="oom")).to_have_count(1)
