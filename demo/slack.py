"""Slack's part in the demo: takes an Incoming Webhook's requests and shows each message in the terminal."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.style import Style
from rich.table import Table
from rich.text import Text

Json = dict[str, Any]

# What Slack turns into something other than itself, tried in this order.
_MARKUP = re.compile(
    r"```\n?(?P<block>.*?)\n?```|`(?P<code>[^`\n]+)`|<(?P<link>[^>\n]+)>|\*(?P<bold>[^*\s](?:[^*\n]*[^*\s])?)\*",
    re.DOTALL,
)


@contextmanager
def webhook(received: Callable[[Json], None]) -> Iterator[str]:
    """A webhook on this machine, as a URL; ``received`` gets each message, on another thread."""

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            received(json.loads(body))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_words: object) -> None:
            """The terminal belongs to the story."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/services/T0DEMO/B0DEMO/demo"
    finally:
        server.shutdown()
        server.server_close()


def plain(message: Json) -> str:
    """All text of a message, for programs."""
    return "\n".join([str(message.get("text", "")), *(text for block in _blocks(message) for text in _texts(block))])


def render(message: Json) -> RenderableType:
    """The message as Slack shows it, as far as a terminal can."""
    shown = [part for block in _blocks(message) for part in _block(block)]
    return Panel(
        Group(*(shown or [mrkdwn(str(message.get("text", "")))])),
        title="Slack",
        title_align="left",
        box=box.ROUNDED,
        border_style="magenta",
        padding=(0, 1),
    )


def mrkdwn(text: str) -> Text:
    """Slack's own markup: ``*bold*``, ``code``, ``<url|label>``, and ``&lt;`` for what is only text."""
    out, at = Text(), 0
    for match in _MARKUP.finditer(text):
        out.append(_unescape(text[at : match.start()]))
        if match["block"] is not None:
            out.append(_unescape(match["block"]), Style(color="cyan"))
        elif match["code"] is not None:
            out.append(_unescape(match["code"]), Style(color="cyan"))
        elif match["bold"] is not None:
            out.append(_unescape(match["bold"]), Style(bold=True))
        else:
            url, _, label = match["link"].partition("|")
            out.append(_unescape(label or url), Style(underline=True))
        at = match.end()
    return out.append(_unescape(text[at:]))


def _unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _blocks(message: Json) -> list[Json]:
    blocks = list(message.get("blocks", []))
    for attachment in message.get("attachments", []):
        blocks += attachment.get("blocks", [])
    return blocks


def _texts(element: object) -> Iterator[str]:
    """Every text below a block, in order."""
    if isinstance(element, dict):
        for name, value in element.items():
            if name == "text" and isinstance(value, str):
                yield value
            elif name != "type":
                yield from _texts(value)
    elif isinstance(element, list):
        for value in element:
            yield from _texts(value)


def _text(element: Json) -> Text:
    said = str(element.get("text", ""))
    return mrkdwn(said) if element.get("type") == "mrkdwn" else Text(_unescape(said))


def _block(block: Json) -> Iterator[RenderableType]:
    kind = block.get("type")
    if kind == "header":
        yield Text(_unescape(str(block["text"]["text"])), Style(bold=True))
    elif kind == "section":
        if "text" in block:
            yield _text(block["text"])
        if "fields" in block:
            yield _fields(block["fields"])
    elif kind == "actions":
        for button in block["elements"]:
            url = f"  {button['url']}" if "url" in button else ""
            yield Text.assemble((f" {button['text']['text']} ", "reverse"), url)
    elif kind == "context":
        for element in block["elements"]:
            shown = _text(element)
            shown.stylize("dim")
            yield shown
    elif kind == "divider":
        yield Rule(style="dim")
    else:
        yield Text("\n".join(_texts(block)), Style(color="cyan"))


def _fields(fields: list[Json]) -> Table:
    """Two to a row."""
    table = Table.grid(padding=(0, 3), expand=False)
    texts = [_text(field) for field in fields]
    for at in range(0, len(texts), 2):
        table.add_row(*texts[at : at + 2])
    return table
