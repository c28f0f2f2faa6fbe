"""The page that people look at, as one HTML file: its parts put together, and the policy that lets only them run.

``assets/page.html`` has four marks, each once: ``<!--POLICY-->`` (in the head: behind the charset, which has to stand
among the first 1024 bytes, and before all that the policy is to govern), ``<!--STYLE-->``, ``<!--DATA-->`` and
``<!--SCRIPT-->``. Each script is an element of its own, in the order of :data:`SCRIPTS`; so a broken one says where,
and the others still run.
"""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from lastbeat.views.page.embedding import packed

STYLES: Final = ("vendor/uPlot/uPlot.min.css", "page.css", "run.css")
SCRIPTS: Final = (
    "vendor/uPlot/uPlot.iife.min.js",
    "format.js",
    "draw.js",
    "data.js",
    "morph.js",
    "address.js",
    "rows.js",
    "filter.js",
    "groups.js",
    "choice.js",
    "columns.js",
    "around.js",
    "silencing.js",
    "acknowledging.js",
    "acting.js",
    "points.js",
    "plot.js",
    "curves.js",
    "compare.js",
    "excerpts.js",
    "account.js",
    "progress.js",
    "records.js",
    "timeline.js",
    "goodput.js",
    "ranks.js",
    "sections.js",
    "run.js",
    "fleet.js",
    "losses.js",
    "app.js",
)
_TEMPLATE: Final = "page.html"
_MARKS: Final = ("POLICY", "STYLE", "DATA", "SCRIPT")
# What ends a script element, or changes how its text is read until it ends; and what ends a style.
_BREAKS_OUT: Final = re.compile(r"</(?:script|style)|<script|<!--|\x00", re.IGNORECASE)


class AssetError(ValueError):
    """A part of the page is missing, or cannot stand where it has to; the message says which."""


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """One HTML file, and the Content-Security-Policy that it needs; the file itself says all of it that a file can."""

    html: bytes
    policy: str


def page(*, data: Mapping[str, object] | None = None) -> HtmlPage:
    """The page: without ``data`` the one that is served and fetches its own, with it one that has all in it.

    The same for the same data. Raises :class:`AssetError`.
    """
    before, after, policy = _assembled()
    return HtmlPage(before + (packed(data) if data is not None else b"") + after, policy)


@cache
def _assembled() -> tuple[bytes, bytes, str]:
    return assemble({name: asset(name) for name in (_TEMPLATE, *STYLES, *SCRIPTS)})


@cache
def plain_style() -> tuple[str, str]:
    """The first rules of the page's style, for a page without scripts; and what allows them in its policy."""
    rules = asset("page.css").partition("/* ---- header")[0]
    return f"<style>{rules}</style>", f"style-src {_digests([rules])}"


def asset(name: str) -> str:
    """One part of the page, as it was shipped. Raises :class:`AssetError` where it was not."""
    place = resources.files("lastbeat.views.page").joinpath("assets")
    try:
        text = place.joinpath(name).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise AssetError(f"the page's part {name} cannot be read: {fault}; reinstall lastbeat") from None
    # Browsers read every line's end as "\n", and that is what the policy's digests are of.
    return text.replace("\r\n", "\n").replace("\r", "\n")


def assemble(assets: Mapping[str, str]) -> tuple[bytes, bytes, str]:
    """What stands before the data, what after it, and the policy. Pure. Raises :class:`AssetError`."""
    for name in (*STYLES, *SCRIPTS):
        if found := _BREAKS_OUT.search(assets[name]):
            raise AssetError(f"the page's part {name} has {found[0]!r} in it, which would end its element")
    styles = ["\n".join(assets[name] for name in STYLES)]
    scripts = [assets[name] for name in SCRIPTS]
    policy = _policy(styles, scripts)
    parts = {
        "POLICY": f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        "STYLE": "".join(f"<style>{text}</style>" for text in styles),
        "DATA": '<script type="application/octet-stream" id="data"><!--DATA--></script>',
        "SCRIPT": "\n".join(f"<script>{text}</script>" for text in scripts),
    }
    template = assets[_TEMPLATE]
    for mark in _MARKS:
        if template.count(f"<!--{mark}-->") != 1:
            raise AssetError(f"the page's part {_TEMPLATE} has not just one <!--{mark}-->")
    # All at once: what is put in is never looked at again.
    whole = re.sub(r"<!--(POLICY|STYLE|DATA|SCRIPT)-->", lambda mark: parts[mark[1]], template)
    before, _, after = whole.partition("<!--DATA-->")
    return before.encode(), after.encode(), f"{policy}; frame-ancestors 'none'"


def _policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Nothing runs but these very texts, and nothing is fetched but from where the page came from."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_digests(scripts)}",
            f"style-src {_digests(styles)}",
            "img-src data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _digests(texts: Sequence[str]) -> str:
    return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts)
