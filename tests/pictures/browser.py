"""Takes the pictures of the page that the documents show, and says what 5,000 runs take in this browser.

``make pictures`` calls it. The fleet is made up and lies in an S3 server of our own, so that no path of this machine is
in a picture. Look at each afterwards: would a person be content?
"""

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from pictures.png import shrink
from support import view_scenes as scenes
from support.browser import PHONE, Scheme, find_chromium, launch, new_tab
from support.checkout import ROOT
from support.dashboard import run_dashboard
from support.page_speed import measure
from support.s3 import S3Server, run_s3_server
from support.seen_page import expect_fleet, section
from support.view_places import bucket

FOLDER = ROOT / "docs" / "pictures"
BUCKET = "ml-research"
LIMIT_BYTES = 200_000
WIDE, TALL = (1280, 900), (1280, 1600)
SHOTS: tuple[tuple[str, str, Scheme, tuple[int, int]], ...] = (
    ("fleet-light", "", "light", WIDE),
    ("fleet-dark", "", "dark", WIDE),
    ("fleet-phone", "", "light", PHONE),
    ("run-light", scenes.OOM, "light", TALL),
    ("run-dark", scenes.OOM, "dark", TALL),
    ("run-phone", scenes.OOM, "light", PHONE),
)
TOGETHER: tuple[tuple[str, Scheme, tuple[int, int]], ...] = (
    ("together-light", "light", (1280, 520)),
    ("together-dark", "dark", (1280, 520)),
    ("together-phone", "light", PHONE),
)
"""Of runs that are in trouble together: name, colours, size."""
"""Name, run (or the fleet), colours, size."""


def main(arguments: Sequence[str]) -> int:
    chromium = find_chromium()
    if chromium is None:
        sys.exit("chromium is not installed: apt-get install chromium, or say where it is in $CHROMIUM")
    with run_s3_server() as server, tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = launch(playwright, chromium)
        if "--figures-alone" not in arguments:
            _take(browser, server, Path(folder))
        _figures(browser, Path(folder))
        browser.close()
    return 0


def _take(browser: Browser, server: S3Server, folder: Path) -> None:
    FOLDER.mkdir(exist_ok=True)
    server.client().create_bucket(Bucket=BUCKET)
    scenes.every_status(bucket(server, BUCKET), datetime.now(timezone.utc))
    with run_dashboard(f"s3://{BUCKET}/training-runs", folder / "home", **server.environment()) as address:
        for name, run_id, scheme, size in SHOTS:
            phone = size == PHONE
            with new_tab(browser, address, scheme=scheme, size=size, device_scale_factor=2 if phone else 1) as tab:
                page = tab.open(f"{address}#/runs/{run_id}" if run_id else address)
                _settle(page, run_id)
                _keep(name, page)
    scenes.together(bucket(server, BUCKET, "sweeps"), datetime.now(timezone.utc))
    with run_dashboard(f"s3://{BUCKET}/sweeps", folder / "home-together", **server.environment()) as address:
        for name, scheme, size in TOGETHER:
            phone = size == PHONE
            with new_tab(browser, address, scheme=scheme, size=size, device_scale_factor=2 if phone else 1) as tab:
                page = tab.open(address)
                expect(page.get_by_role("banner")).to_contain_text(re.compile("live"))
                expect_fleet(page, scenes.ALONE)
                expect(page.locator("tr.group")).to_have_count(2)
                page.mouse.move(0, 0)
                page.wait_for_timeout(1500)
                _keep(name, page)


def _keep(name: str, page: Page) -> None:
    file = FOLDER / f"{name}.png"
    file.write_bytes(shrink(page.screenshot()))
    size_bytes = file.stat().st_size
    print(f"{file.relative_to(ROOT)}: {size_bytes:,} bytes")  # noqa: T201 - a command
    if size_bytes > LIMIT_BYTES:
        sys.exit(f"{file} is larger than {LIMIT_BYTES:,} bytes")


def _settle(page: Page, run_id: str) -> None:
    """Until all is read that there is to see."""
    expect(page.get_by_role("banner")).to_contain_text(re.compile("live"))
    if run_id:
        expect(section(page, "Files")).to_be_visible()
        expect(page.get_by_role("slider", name="Loss curve")).to_be_visible()
    else:
        expect_fleet(page, [*scenes.STATUSES, *scenes.UNSEEN])
        expect(page.get_by_text("tok/s").first).to_be_attached()
    page.mouse.move(0, 0)
    page.wait_for_timeout(1500)


def _figures(browser: Browser, folder: Path) -> None:
    root = folder / "many"
    root.mkdir()
    scenes.many(root, datetime.now(timezone.utc))
    with run_dashboard(root, folder / "home-many") as address:
        with new_tab(browser, address) as tab:
            # The server reads all of them first.
            expect(tab.open(address).locator("tbody tr").first).to_be_visible(timeout=120_000)
            tab.page.wait_for_timeout(5_000)
        print("\n5,000 runs in Chromium " + browser.version)  # noqa: T201
        for _ in range(3):
            print("\n".join(measure(browser, address).lines()))  # noqa: T201
        print(f"load average {os.getloadavg()[0]:.1f}")  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
