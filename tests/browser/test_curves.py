"""Curves in a browser: as finely as a run keeps them, as people choose to see them, and of several runs at once."""

import json
import re
import time
from collections.abc import Iterator
from math import exp, sin
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from support.browser import OpenTab, serious_faults
from support.dashboard import run_dashboard
from support.seen_page import section

RATES = {"sweep-1": 1e-3, "sweep-2": 3e-4, "sweep-3": 1e-4}
STEPS = 3000


def _made(root: Path) -> None:
    """Three runs that differ in their learning rate, and keep far more points than their heartbeats have."""
    now = time.time()
    for run_id, rate in RATES.items():
        folder = root / run_id
        (folder / "curves").mkdir(parents=True)

        def loss(step: int, rate: float = rate) -> float:
            return 2 + 8 * exp(-step * rate * 20) + sin(step) / 10 + (90 if step == 1234 else 0)

        def row(step: int) -> tuple[float, int]:
            return now - 2 * (STEPS - step), step * 10

        every = range(1, STEPS + 1)
        curves = {
            "loss": [[*row(step), loss(step), loss(step) - 0.2, loss(step) + 0.2] for step in every],
            "learning_rate": [[*row(step), rate] for step in every],
            "tokens": [[*row(step), step * 40_960] for step in every[::15]],
            "val/acc": [[*row(step), step / STEPS] for step in every[::100]],
        }
        recent = [[*row(step), loss(step), rate] for step in every[::100]]
        beat = {"run_id": run_id, "last_update": now, "start_time": now - 2 * STEPS, "attempt": 1, "tags": ["sweep"]}
        progress = {"step": STEPS * 10, "loss": loss(STEPS), "recent": recent, "last_updated": now}
        progress["metrics"] = {"val/acc": 1.0}
        for name, document in (
            ("metadata.json", {**beat, "config": {"lr": rate, "layers": 12}}),
            ("progress.json", progress),
            ("curves/1.json", {"curves": curves}),
        ):
            (folder / name).write_text(json.dumps(document))


@pytest.fixture(scope="module")
def address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    assert browser.is_connected()
    root = tmp_path_factory.mktemp("sweep")
    _made(root)
    with run_dashboard(root, tmp_path_factory.mktemp("home-sweep")) as address:
        yield address


def test_zoom_brings_finer_points_and_what_was_chosen_stands_in_the_address(address: str, tab: OpenTab) -> None:
    page = tab(f"{address}#/runs/sweep-1").page
    curve = page.get_by_role("slider", name="Loss curve")
    expect(curve).to_have_attribute("aria-valuemax", "480")
    expect(page.get_by_role("slider", name="val/acc curve")).to_be_visible()
    expect(section(page, "Configuration")).to_contain_text("layers")
    figure = page.get_by_role("figure").filter(has=curve)
    expect(figure).to_contain_text("beyond this axis")
    page.get_by_role("button", name="All values").click()
    expect(figure).not_to_contain_text("beyond this axis")
    page.get_by_role("button", name="Log scale").click()
    page.get_by_label("Smoothing").select_option("0.9")
    curve.focus()
    page.keyboard.press("Home")
    for _ in range(5):
        page.keyboard.press("+")
    expect(curve).to_have_attribute("aria-valuemax", re.compile(r"^9\d$"))
    page.keyboard.press("ArrowRight")
    expect(curve).to_have_attribute("aria-valuetext", re.compile("step 80, "))
    # All curves show the same place.
    rate = page.get_by_role("slider", name="Learning rate curve")
    expect(rate).to_have_attribute("aria-valuetext", re.compile("step 80, "))
    expect(page).to_have_url(re.compile(r"all=1&log=y&smooth=0.9&zoom=[\d.]+\.\.[\d.]+"))
    again = tab(page.url).page
    page.keyboard.press("0")
    expect(section(page, "Curves")).to_contain_text("Shows the whole run")
    expect(again.get_by_role("slider", name="Loss curve")).to_have_attribute(
        "aria-valuemax", re.compile(r"^(?:9\d|1\d\d)$")
    )
    expect(again.get_by_label("Smoothing")).to_have_value("0.9")
    expect(again.get_by_role("button", name="All values")).to_have_attribute("aria-pressed", "true")
    again.get_by_role("button", name="By tokens").click()
    expect(again.get_by_role("slider", name="Loss curve")).to_have_attribute("aria-valuetext", re.compile("point"))
    expect(section(again, "Curves")).to_contain_text("Shows the whole run")


def test_ticked_runs_stand_over_each_other(address: str, tab: OpenTab) -> None:
    page = tab(f"{address}#/?q=sweep").page
    for run_id in ("sweep-1", "sweep-3"):
        page.get_by_role("checkbox", name=f"Compare {run_id}").check()
    page.get_by_role("link", name="Compare 2 runs").click()
    curve = page.get_by_role("slider", name="Loss curve")
    expect(curve).to_have_attribute("aria-valuetext", re.compile(r"sweep-1 \d.*, sweep-3 \d.*step 30,000"))
    table = page.get_by_role("region", name="The runs")
    expect(table.locator("thead")).to_contain_text("lr")
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table).to_contain_text("1 key of the configuration")
    assert serious_faults(page) == []
    expect(table.locator("tbody tr").first).to_contain_text(re.compile(r"9\d\.\d"))  # The one step of 90 more.
    page.get_by_role("radio", name="Baseline sweep-1").check()
    expect(table.locator("tbody tr").nth(1)).to_contain_text(re.compile(r"\+0\.0\d"))
    page.get_by_role("checkbox", name="Show sweep-1").uncheck()
    expect(curve).not_to_have_attribute("aria-valuetext", re.compile("sweep-1"))
    page.get_by_label("Figure").select_option("val/acc")
    expect(page.get_by_role("slider", name="val/acc curve")).to_have_attribute(
        "aria-valuetext", re.compile("sweep-3 0.9")
    )
    page.get_by_role("button", name="By time").click()
    page.get_by_role("button", name="Log axis").click()
    expect(page.get_by_role("button", name="Log axis")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("slider", name="val/acc curve")).to_have_attribute(
        "aria-valuetext", re.compile("sweep-3 0.9")
    )
    expect(page).to_have_url(re.compile(r"runs=sweep-1,sweep-3&base=sweep-1&hide=sweep-1&figure=val%2Facc&x=at&log=x"))
    again = tab(page.url).page
    expect(again.get_by_role("checkbox", name="Show sweep-1")).not_to_be_checked()
    expect(again.get_by_role("radio", name="Baseline sweep-1")).to_be_checked()


def test_a_group_by_a_key_is_compared(address: str, tab: OpenTab) -> None:
    page = tab(f"{address}#/?group=layers").page
    page.get_by_role("link", name="Compare these 3").click()
    expect(page.get_by_role("region", name="The runs").locator("tbody tr")).to_have_count(3)
    page.get_by_label("Colour by").select_option("lr")
    expect(page).to_have_url(re.compile("runs=sweep-1,sweep-2,sweep-3&group=lr"))
