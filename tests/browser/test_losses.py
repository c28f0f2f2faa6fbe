"""What failures cost, as a picture: served and in a file, for eyes and for screen readers."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.browser import PHONE, OpenTab, Tab, serious_faults
from support.dashboard import run_dashboard
from support.failed_fleet import FAILED_FLEET


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("failed")
    for name, body in FAILED_FLEET.items():
        (root / name).mkdir()
        (root / name / "_watchdog.json").write_bytes(body)
    with run_dashboard(root, tmp_path_factory.mktemp("home-failed")) as served:
        yield served


def group(page: Page, title: str) -> Any:
    return page.get_by_role("region", name=title)


def test_what_to_mend_first_is_on_top_with_its_hours(address: str, look: Callable[..., Tab]) -> None:
    page = look(address).page
    page.get_by_role("link", name="Causes").click()
    expect(page.get_by_role("heading", name="What to mend first", level=1)).to_be_visible()
    expect(page.locator(".causes .lead")).to_contain_text("4 failures of 4 runs since")
    expect(page.locator(".causes .lead")).to_contain_text("Lost: 28.0 h at least")
    rows = group(page, "Which causes").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text(re.compile(r"nccl · nccl_timeout.*21\.0 h at least.*not known.*21\.0 h"))
    expect(rows.nth(1)).to_contain_text(re.compile(r"oom · cuda_oom.*7\.0 h.*6\.0 h.*1\.0 h"))
    rows.nth(1).get_by_text("2 fingerprints").click()
    expect(rows.nth(1)).to_contain_text(re.compile(r"1 failure, 5\.5 h.*llama-1.*1 failure, 1\.5 h.*llama-2"))
    expect(group(page, "On which nodes").locator("tbody th")).to_have_text(["node-1", "node-2", "node-3"])
    expect(group(page, "Whose runs").locator("tbody th")).to_have_text(["bob", "alice"])
    expect(page).to_have_title(re.compile("causes"))
    widths = [
        each.evaluate("bar => bar.getBoundingClientRect().width") for each in rows.locator(".use-unnoticed").all()
    ]
    assert widths[0] > 4 * widths[1] > 0, "as long as the hours are many"
    assert serious_faults(page, ".causes") == []
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert serious_faults(page, ".causes") == []
    page.emulate_media(color_scheme="light")


def test_a_run_is_a_link_and_escape_leads_back(address: str, look: Callable[..., Tab]) -> None:
    page = look(address).page
    page.goto(f"{address}#/causes")
    group(page, "On which nodes").get_by_role("link", name="llama-2").click()
    expect(page).to_have_url(re.compile("#/runs/llama-2$"))
    page.go_back()
    expect(group(page, "Whose runs")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("searchbox")).to_be_visible()


def test_a_run_whose_cause_was_seen_before_leads_to_the_one_before(address: str, look: Callable[..., Tab]) -> None:
    page = look(address).page
    page.goto(f"{address}#/runs/gpt-2")
    told = page.locator(".seen-before")
    expect(told).to_contain_text(re.compile(r"Seen before: same as run gpt-1 on .+ \(2 runs so far\), which went on"))
    told.get_by_role("link", name="gpt-1").click()
    expect(page).to_have_url(re.compile("#/runs/gpt-1$"))


def test_a_fleet_that_never_failed_says_so(dashboard: Callable[..., str], tab: OpenTab, tmp_path: Path) -> None:
    (tmp_path / "runs" / "new").mkdir(parents=True)
    (tmp_path / "runs" / "new" / "metadata.json").write_text("{}")
    page = tab(f"{dashboard(tmp_path / 'runs')}#/causes").page
    expect(page.locator(".causes .lead")).to_contain_text("No failure is recorded since")
    expect(page.locator(".causes .notes")).to_contain_text("Nothing is recorded of 1 run.")


def test_a_store_that_does_not_answer_is_no_fleet_without_failures(address: str, look: Callable[..., Tab]) -> None:
    opened = look(address)
    opened.expected.append("503")
    page = opened.page
    page.route("**/data/causes", lambda route: route.fulfill(
        status=503, json={"error": "the store is away", "advice": "ask again in a moment"}))  # fmt: skip
    page.get_by_role("link", name="Causes").click()
    expect(page.locator(".causes")).to_contain_text("the store is away")
    page.unroute("**/data/causes")
    page.get_by_role("button", name="Ask again").click()
    expect(group(page, "Which causes")).to_be_visible()
