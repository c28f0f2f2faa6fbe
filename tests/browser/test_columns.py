"""Columns, orders, groups and views that people choose on the page."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from lastbeat.model.named_view import NamedView
from lastbeat.stores.directory import DirectoryStore
from lastbeat.views.named_views import read_views, save_view
from support.browser import PHONE, OpenTab, serious_faults
from support.cli import RunFolder
from support.seen_page import expect_rows, filter_box
from support.there import there


def heads(page: Page) -> list[str]:
    return [re.sub(r" [▲▼]\d?$", "", text) for text in page.locator("thead th").all_inner_texts()]


def test_columns_orders_groups_and_views(dashboard: Callable[..., str], tab: OpenTab, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for name, owner, lr in (("a", "ana", 3e-4), ("b", "bob", 1e-4), ("c", "ana", 1e-4)):
        RunFolder(root, name).metadata(owner=owner, config={"optim.lr": lr, "seed": name})
    save_view(DirectoryStore(root), NamedView("sweep", "lr<2e-4", "", "-run", "run,lr"))
    page = tab(dashboard(root)).page
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_text("Columns and views").click()
    # A key is added, moved to the front and pinned; the row has its value as soon as the server has sent it.
    page.get_by_label("Add a column").select_option("optim.lr")
    expect(page.locator("tbody tr", has_text="a").first.locator(".c-key")).to_have_text("0.0003")
    page.get_by_role("button", name="Pin optim.lr").click()
    assert heads(page)[0] == "optim.lr"
    for name in ("ETA", "Loss", "Speed", "24 h"):
        page.get_by_role("button", name=f"Leave out {name}").click()
    assert "ETA" not in heads(page)
    # Equal ones are sorted by the next key.
    page.get_by_role("columnheader", name="optim.lr").get_by_role("button").click()
    page.get_by_role("columnheader", name="Run", exact=True).get_by_role("button").click(modifiers=["Shift"])
    page.get_by_role("columnheader", name="Run", exact=True).get_by_role("button").click(modifiers=["Shift"])
    expect_rows(page, ["c", "b", "a"])
    expect(page).to_have_url(re.compile(r"sort=optim\.lr,-run&cols=status,run,.*optim\.lr!"))
    page.get_by_label("Group by").select_option("owner")
    groups = page.locator("tr.by .group-toggle")
    expect(groups).to_have_text([re.compile("owner: ana · 2 runs"), re.compile("owner: bob · 1 run")])
    assert serious_faults(page) == []
    groups.first.click()
    expect_rows(page, ["b"])
    page.get_by_label("Name of this view").fill("mine")
    page.get_by_role("button", name="Keep in this browser").click()
    expect(page.locator(".choosing code")).to_contain_text("--columns='status,run,")
    # The team's view, then one's own again, after the page is loaded anew.
    page.get_by_label("Show a view").select_option("tsweep")
    expect_rows(page, ["c", "b"])
    assert heads(page) == ["Run", "lr"]
    expect(filter_box(page)).to_have_value("lr<2e-4")
    expect(page).to_have_url(re.compile("q=lr%3C2e-4&sort=-run&cols=run,lr$"))
    page.reload()
    expect_rows(page, ["c", "b"])
    page.get_by_text("Columns and views").click()
    page.get_by_label("Show a view").select_option("hmine")
    expect(page.locator("tr.by")).to_have_count(2)
    assert json.loads(page.evaluate("localStorage.getItem('lastbeat-views')"))["mine"]["group"] == "owner"


def test_a_column_is_as_wide_as_people_make_it_and_the_team_has_it_so(
    dashboard: Callable[..., str], tab: OpenTab, tmp_path: Path
) -> None:
    RunFolder(tmp_path / "runs", "a").metadata(owner="ana")
    address = dashboard(tmp_path / "runs", LASTBEAT_DASHBOARD_TOKEN="a-token-of-some-length")
    page = tab(f"{address}?token=a-token-of-some-length").page
    head = page.get_by_role("columnheader", name="Loss")
    edge = there(head.locator(".sizer").bounding_box())
    before = there(head.bounding_box())["width"]
    page.mouse.move(edge["x"] + 4, edge["y"] + 8)
    page.mouse.down()
    page.mouse.move(edge["x"] + 44, edge["y"] + 8, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile(rf"cols=status,run,progress,eta,loss~{before + 40:.0f},beat"))
    assert there(head.bounding_box())["width"] == before + 40
    # With the keyboard, too.
    page.get_by_text("Columns and views").click()
    width = page.get_by_role("spinbutton", name="Width of Loss in pixels")
    width.press("ArrowUp")
    expect(width).to_be_focused()
    expect(page).to_have_url(re.compile(r"loss~160,"))
    page.get_by_label("Name of this view").fill("wide")
    page.get_by_role("button", name="Save for the team").click()
    expect(page.get_by_text("Saved for the team: wide.")).to_be_visible()
    (view,) = read_views(DirectoryStore(tmp_path / "runs"))
    assert (view.name, "loss~160" in view.columns) == ("wide", True)


def test_words_lie_side_by_side_and_a_fault_leaves_room_to_type(
    dashboard: Callable[..., str], tab: OpenTab, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path / "runs", "sweep3-lr0.0001-seed4")
    run.metadata()
    run.progress(step=380, total_steps=500)
    run.put("_complete")
    page = tab(dashboard(tmp_path / "runs")).page
    row = page.locator("tbody tr").first
    expect(row).to_contain_text("SUCCEEDED")
    filter_box(page).fill("/(a+)+$/")
    expect(page.locator(".found")).to_contain_text("repeats a group")
    assert filter_box(page).evaluate("box => box.clientWidth") >= 100
    filter_box(page).fill("")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    expect(row.locator(".c-cause")).to_be_visible()
    percent, why = (
        row.locator(part).evaluate("it => it.getBoundingClientRect().toJSON()")
        for part in (".steps span:last-child", ".c-cause")
    )
    assert percent["right"] <= why["left"]
