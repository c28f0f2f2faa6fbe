"""The page for everybody: screen readers, keyboards, narrow screens, other colours, less motion."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from support import view_scenes as scenes
from support.browser import PHONE, OpenTab, Tab, serious_faults, settled
from support.seen_page import expect_fleet, filter_box, section

COLOURS = {"type": "rule", "values": ["color-contrast"]}
"""Of axe's rules the one that dark colours can break; it is the slowest."""
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


def test_axe_finds_nothing_serious_in_light_and_dark_colours(
    every_status_page: str, look: Callable[[str], Tab]
) -> None:
    page = look(every_status_page).page
    for view in VIEWS[:3]:
        _show(page, every_status_page, view)
        # But for the table of points, which is long and the same all over.
        page.evaluate(
            """() => [...document.querySelectorAll("details")]
              .filter((each) => !each.textContent.startsWith("The points"))
              .forEach((each) => { each.open = true; })"""
        )
        if view == VIEWS[2]:
            # Its colours are those of the others, and they take long.
            assert serious_faults(page, rules={"color-contrast": {"enabled": False}}) == []
            continue
        assert serious_faults(page) == [], view
        page.emulate_media(color_scheme="dark")
        assert serious_faults(page, runOnly=COLOURS) == [], view
        page.emulate_media(color_scheme="light")
    _show(page, every_status_page, "")
    filter_box(page).fill("nothing is called like this")
    expect(page.get_by_text("No run matches")).to_be_visible()
    assert serious_faults(page, "main") == []


def test_on_a_phone_nothing_is_too_wide_too_small_or_too_far_down(every_status_page: str, tab: OpenTab) -> None:
    page = tab(every_status_page, size=PHONE, has_touch=True, is_mobile=True).page
    expect_fleet(page, [scenes.OOM])
    first = page.locator("tbody tr").first
    box = settled(first.bounding_box, lambda found: found is not None and found["y"] < PHONE[1] * 0.3)
    assert box is not None
    assert box["y"] < PHONE[1] * 0.3
    assert serious_faults(page, rules={"color-contrast": {"enabled": False}}) == []
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
    expect(page.locator(".tick").first).to_be_attached()
    # A time on the axis fits wherever it falls. In one go: the page draws it again with each look.
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


def test_landmarks_other_colours_less_motion_and_twice_the_size(
    every_status_page: str, look: Callable[[str], Tab]
) -> None:
    page = look(every_status_page).page
    page.emulate_media(forced_colors="active", reduced_motion="reduce")
    # As one that is 1280 pixels wide, enlarged to twice its size.
    page.set_viewport_size({"width": 640, "height": 450})
    for view in VIEWS[:2]:
        _show(page, every_status_page, view)
        assert _wide(page) <= 0
        expect(page.get_by_role("main")).to_have_count(1)
        expect(page.get_by_role("banner")).to_have_count(1)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
    moving = page.evaluate(
        """() => [...document.querySelectorAll("*")].map((each) => getComputedStyle(each))
          .filter((style) => parseFloat(style.transitionDuration) > 0.01 || parseFloat(style.animationDuration) > 0.01)
          .length"""
    )
    assert moving == 0
    page.emulate_media(forced_colors="none", reduced_motion="no-preference")


def test_the_colours_can_be_changed_and_stay_so(every_status_page: str, look: Callable[[str], Tab]) -> None:
    page = look(every_status_page).page
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Dark colours").click()
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    expect(page.get_by_role("button", name="Light colours")).to_be_visible()
    assert page.evaluate(ground) == dark
    page.get_by_role("button", name="Light colours").click()
