"""The page for everybody: screen readers, keyboards, narrow screens, other colours, less motion."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from support import view_scenes as scenes
from support.browser import DESKTOP, PHONE, OpenTab, settled
from support.seen_page import expect_fleet, filter_box, section

GRAVE = {"serious", "critical"}
COLOURS = {"type": "rule", "values": ["color-contrast"]}
"""Of axe's rules the one that dark colours can break; it is the slowest."""
LOOKS = [
    pytest.param({"scheme": "light", "size": DESKTOP}, {}, id="light"),
    pytest.param({"scheme": "dark", "size": DESKTOP}, {"runOnly": COLOURS}, id="dark"),
    pytest.param(
        {"scheme": "light", "size": PHONE, "has_touch": True, "is_mobile": True},
        {"rules": {"color-contrast": {"enabled": False}}},
        id="a phone",
    ),
]
VIEWS = ["", f"#/runs/{scenes.OOM}", f"#/runs/{scenes.HEALTHY}", f"#/runs/{scenes.HANGS}", f"#/runs/{scenes.LAGS}",
         f"#/runs/{scenes.FLAPS}"]  # fmt: skip


@pytest.fixture
def every_status_page(young_page: Callable[[], str]) -> str:
    """Young in each test: axe takes its time."""
    return young_page()


def _show(page: Page, address: str, view: str) -> None:
    page.goto(f"{address}{view}")
    if view:
        expect(section(page, "Files")).to_be_visible()
    else:
        expect_fleet(page, [scenes.OOM, scenes.DONE])


def _wide(page: Page) -> int:
    """By how many pixels the page is too wide, once it is drawn."""
    wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    return settled(lambda: int(page.evaluate(wide)), lambda found: found <= 0)


def _faults(page: Page, rules: dict[str, Any]) -> list[str]:
    """What axe finds on a page that is drawn, by ``rules`` (its options of that name)."""
    return settled(lambda: _faults_now(page, rules), lambda found: not found)


def _faults_now(page: Page, rules: dict[str, Any]) -> list[str]:
    found: list[dict[str, Any]] = (
        Axe().run(page, options={"resultTypes": ["violations"], **rules}).response["violations"]
    )
    return [
        f"{each['impact']} {each['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for each in found
        if each["impact"] in GRAVE
        for node in each["nodes"][:5]
    ]


@pytest.mark.parametrize(("looks", "rules"), LOOKS)
def test_axe_finds_nothing_serious(
    every_status_page: str, tab: OpenTab, looks: dict[str, Any], rules: dict[str, Any]
) -> None:
    page = tab(every_status_page, **looks).page
    for view in VIEWS[:3]:
        _show(page, every_status_page, view)
        page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert _faults(page, rules) == [], view


def test_axe_finds_nothing_serious_where_nothing_is_found(every_status_page: str, tab: OpenTab) -> None:
    page = tab(every_status_page).page
    expect_fleet(page, [scenes.OOM])
    filter_box(page).fill("nothing is called like this")
    expect(page.get_by_text("No run matches")).to_be_visible()
    assert _faults(page, {}) == []


def test_nothing_has_to_be_scrolled_sideways_on_a_phone(every_status_page: str, tab: OpenTab) -> None:
    page = tab(every_status_page, size=PHONE, has_touch=True, is_mobile=True).page
    for view in VIEWS:
        _show(page, every_status_page, view)
        wide = _wide(page)
        assert wide <= 0, f"{view or 'the fleet'} is {wide} pixels too wide"
        small = page.evaluate(
            """() => [...document.querySelectorAll("button, input, select")]
              .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < 24)
              .map((each) => each.outerHTML.slice(0, 100))"""
        )
        assert small == [], "too small for a finger"


def test_a_time_on_the_axis_fits_on_a_phone_wherever_it_falls(every_status_page: str, tab: OpenTab) -> None:
    page = tab(every_status_page, size=PHONE, has_touch=True, is_mobile=True).page
    _show(page, every_status_page, f"#/runs/{scenes.OOM}")
    expect(page.locator(".tick").first).to_be_attached()
    # In one go: the page draws it again with each look.
    shown, wide = page.evaluate(
        """() => {
          const shown = [...document.querySelectorAll(".axis .tick")];
          for (const each of shown) {
            each.className = "tick";
            each.textContent = "30 Sep 00:00";
            each.style.left = "75%";
          }
          const { scrollWidth, clientWidth } = document.documentElement;
          return [shown.length, scrollWidth - clientWidth];
        }"""
    )
    assert shown
    assert wide <= 0


def test_the_first_run_stands_high_on_a_phone(every_status_page: str, tab: OpenTab) -> None:
    page = tab(every_status_page, size=PHONE, has_touch=True, is_mobile=True).page
    expect_fleet(page, [scenes.OOM])
    first = page.locator("tbody tr").first
    box = settled(first.bounding_box, lambda found: found is not None and found["y"] < PHONE[1] * 0.3)
    assert box is not None
    assert box["y"] < PHONE[1] * 0.3


def test_other_colours_and_less_motion_change_nothing_that_is_said(every_status_page: str, tab: OpenTab) -> None:
    page = tab(every_status_page, forced_colors="active", reduced_motion="reduce").page
    for view in VIEWS[:2]:
        _show(page, every_status_page, view)
    moving = page.evaluate(
        """() => [...document.querySelectorAll("*")].map((each) => getComputedStyle(each))
          .filter((style) => parseFloat(style.transitionDuration) > 0.01 || parseFloat(style.animationDuration) > 0.01)
          .length"""
    )
    assert moving == 0


def test_the_colours_can_be_changed_and_stay_so(every_status_page: str, tab: OpenTab) -> None:
    page = tab(every_status_page).page
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Dark colours").click()
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    expect(page.get_by_role("button", name="Light colours")).to_be_visible()
    assert page.evaluate(ground) == dark


def test_a_page_can_be_enlarged_to_twice_its_size(every_status_page: str, tab: OpenTab) -> None:
    page = tab(every_status_page, size=(640, 450), device_scale_factor=2).page
    for view in VIEWS[:2]:
        _show(page, every_status_page, view)
        assert _wide(page) <= 0


def test_landmarks_and_headings_lead_through_the_page(every_status_page: str, tab: OpenTab) -> None:
    page = tab(every_status_page).page
    for view in VIEWS[:2]:
        _show(page, every_status_page, view)
        expect(page.get_by_role("main")).to_have_count(1)
        expect(page.get_by_role("banner")).to_have_count(1)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
