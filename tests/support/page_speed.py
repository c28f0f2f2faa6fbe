"""What a page with very many runs takes, by the browser's own clock."""

from dataclasses import dataclass

from playwright.sync_api import Browser, Request

from support.browser import WAIT_MS, new_tab

# From the start of the navigation to the frame that shows rows; set before any script of the page runs.
_NOTE_FIRST_ROWS = """
new MutationObserver((_changes, observer) => {
  if (document.querySelector("tbody tr") === null) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.rowsShownMs = performance.now(); }, 0));
}).observe(document, { childList: true, subtree: true });
"""
_TYPE = """
async (texts) => {
  const box = document.querySelector("input[type=search]"), took = [];
  for (const text of texts) {
    const began = performance.now();
    box.value = text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    document.body.offsetHeight;
    took.push(performance.now() - began);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  }
  return took;
}
"""
TYPED = ("l", "ll", "lla", "llam", "llama", "llama3 o", "llama3 oo", "llama3 oom", "llama3", "", "0042", "nan", "x", "")


@dataclass(frozen=True)
class Speed:
    """Milliseconds, and bytes as they went over the wire."""

    first_paint_ms: float
    rows_ms: float
    keystrokes_ms: tuple[float, ...]
    page_bytes: int
    data_bytes: int
    elements: int

    def lines(self) -> list[str]:
        worst, middle = max(self.keystrokes_ms), sorted(self.keystrokes_ms)[len(self.keystrokes_ms) // 2]
        return [
            f"first paint {self.first_paint_ms:,.0f} ms, rows {self.rows_ms:,.0f} ms after the address was opened",
            f"filter: a keystroke takes {middle:,.1f} ms in the middle, {worst:,.1f} ms at most, with its layout",
            f"as sent: page {self.page_bytes:,} bytes, its data {self.data_bytes:,}; {self.elements:,} elements",
        ]


def measure(browser: Browser, address: str) -> Speed:
    """Open the page once, type into its filter, and say what that took."""
    with new_tab(browser, address) as tab:
        tab.page.add_init_script(_NOTE_FIRST_ROWS)
        sizes: dict[str, int] = {}

        def finished(request: Request) -> None:
            sizes.setdefault(request.url, request.sizes()["responseBodySize"])

        tab.page.on("requestfinished", finished)
        page = tab.open(address)
        page.wait_for_function("() => window.rowsShownMs !== undefined", timeout=WAIT_MS)
        painted = page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
        rows = page.evaluate("() => window.rowsShownMs")
        keystrokes = page.evaluate(_TYPE, list(TYPED))
        data = next(size for url, size in sizes.items() if "data/fleet" in url)
        elements = page.evaluate("() => document.querySelectorAll('*').length")
        return Speed(painted, rows, tuple(keystrokes), sizes[address], data, elements)
