"""A real browser, Debian's Chromium through Playwright's driver, which notes whatever a page must not do."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Playwright, Request, expect

ARGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Nothing but this machine has an address: a page that asked for another would ask in vain, and be seen asking.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
WAIT_MS = 90_000
"""Generous: how long a page may take to show something on a busy machine."""
DESKTOP, PHONE = (1280, 900), (360, 740)
MARK = "pwned"
Scheme = Literal["light", "dark"]
Measured = TypeVar("Measured")

_WITHOUT = (
    # As Playwright has it: the last list of a command line is the one that counts.
    "DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,LensOverlay,MediaRouter,PaintHolding,"
    "OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch,"
    # The window that nobody sees would load two pages of its own for each tab, and a process would wait for a next one.
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,SpareRendererForSitePerProcess"
)
"""Features of Chromium that are switched off."""

# A violation is told to the document alone; the console's words for it are the browser's.
_LISTEN = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`CSP: ${event.violatedDirective} refused ${event.blockedURI} ${event.sample}`);
});
"""

expect.set_options(timeout=WAIT_MS)


def find_chromium() -> str | None:
    """The browser of ``$CHROMIUM``, or on the path."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def launch(playwright: Playwright, chromium: str) -> Browser:
    return playwright.chromium.launch(executable_path=chromium, args=[*ARGS, f"--disable-features={_WITHOUT}"])


def settled(measure: Callable[[], Measured], good: Callable[[Measured], bool]) -> Measured:
    """What ``measure`` says as soon as that is ``good``, or in the end: pages are drawn bit by bit, and slowly
    on a busy machine."""
    until = time.monotonic() + WAIT_MS / 1000
    while not good(found := measure()) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def serious_faults(page: Page, within: str | None = None, **options: Any) -> list[str]:
    """What axe finds that is serious, on a page that is drawn or in the part of it ``within``, by axe's ``options``."""

    def found() -> list[str]:
        answer = Axe().run(page, context=within, options={"resultTypes": ["violations"], **options})
        return [
            f"{each['impact']} {each['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
            for each in answer.response["violations"]
            if each["impact"] in {"serious", "critical"}
            for node in each["nodes"][:5]
        ]

    return settled(found, lambda faults: not faults)


@dataclass
class Tab:
    """One page in a context of its own."""

    page: Page
    troubles: list[str] = field(default_factory=list)
    """What the page must not do, in words: errors, violations of its policy, requests that leave its origin."""
    expected: list[str] = field(default_factory=list)
    """Parts of such words that a test brings about on purpose."""
    requests: list[str] = field(default_factory=list)

    def open(self, address: str) -> Page:
        self.page.goto(address)
        return self.page

    def unexpected(self) -> list[str]:
        return [each for each in self.troubles if not any(part in each for part in self.expected)]


class OpenTab(Protocol):
    """Opens an address as :func:`new_tab` does, with its options."""

    def __call__(self, address: str, **options: Any) -> Tab: ...


@contextmanager
def new_tab(
    browser: Browser, origin: str, *, scheme: Scheme = "light", size: tuple[int, int] = DESKTOP, **options: Any
) -> Iterator[Tab]:
    """A tab that may speak with ``origin`` alone, and which must have had no trouble when the block ends."""
    context = browser.new_context(
        color_scheme=scheme,
        viewport={"width": size[0], "height": size[1]},
        locale="en-GB",
        timezone_id="UTC",
        **options,
    )
    context.set_default_timeout(WAIT_MS)
    context.add_init_script(_LISTEN)
    tab = Tab(context.new_page())
    _watch(context, tab, origin)
    try:
        yield tab
        ran = tab.page.evaluate(f"() => typeof window.{MARK}") if not tab.page.is_closed() else "undefined"
    finally:
        context.close()
    if ran != "undefined":
        tab.troubles.append("a script that came from training ran")
    if unexpected := tab.unexpected():
        raise AssertionError("the page had trouble:\n" + "\n".join(unexpected[:20]))


@contextmanager
def borrowed(tab: Tab) -> Iterator[Tab]:
    """A tab that several tests look at, one after the other, for one of them, which may have no trouble."""
    tab.requests.clear()
    yield tab
    troubles = tab.unexpected()
    if tab.page.evaluate(f"() => typeof window.{MARK}") != "undefined":
        troubles.append("a script that came from training ran")
    tab.troubles.clear()
    tab.expected.clear()
    assert troubles == [], "the page had trouble"


def _watch(context: BrowserContext, tab: Tab, origin: str) -> None:
    def said(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            tab.troubles.append(f"console {message.type}: {message.text} {message.location.get('url', '')}")

    def asked(request: Request) -> None:
        tab.requests.append(request.url)
        # What lies in the page itself leaves nothing.
        if urlsplit(request.url).scheme not in {"data", "blob"} and not _is_of(request.url, origin):
            tab.troubles.append(f"a request left the page's origin: {request.url[:200]}")

    def opened(dialog: Dialog) -> None:
        tab.troubles.append(f"a dialog opened: {dialog.message[:200]}")
        dialog.dismiss()

    context.on("console", said)
    context.on("weberror", lambda error: tab.troubles.append(f"an error of the page: {error.error}"))
    context.on("request", asked)
    context.on("dialog", opened)
    context.on("page", lambda page: tab.troubles.append(f"another page opened: {page.url[:200]}"))


def _is_of(address: str, origin: str) -> bool:
    if origin.startswith("file:"):
        return address.partition("#")[0] == origin
    asked, own = urlsplit(address), urlsplit(origin)
    return (asked.scheme, asked.netloc) == (own.scheme, own.netloc)
