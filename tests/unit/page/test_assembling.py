"""The one HTML file: all its parts are in it, nothing else may run in it, and no part can leave its place."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from importlib import resources

import pytest

from lastbeat.views.page.assembling import SCRIPTS, STYLES, AssetError, assemble, asset, page

TEMPLATE = "<!doctype html><meta charset=utf-8><!--POLICY--><!--STYLE--><body><!--DATA--><!--SCRIPT-->"


def parts(**other: str) -> dict[str, str]:
    """Some page's parts, of which ``other`` are as given; a name's dots and slashes are left out."""
    made = {name: f"/* {name} */\n" for name in (*STYLES, *SCRIPTS)} | {"page.html": TEMPLATE}
    return made | {name: text for name in made for short, text in other.items() if name == short.replace("_", ".")}


class Elements(HTMLParser):
    """The page as a browser takes it apart."""

    def __init__(self, html: bytes) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(html.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}", {}, ""))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in {"script", "style"}:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data)

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, text) for name, attributes, text in self.found if name == tag]


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_every_part_that_is_shipped_is_in_the_page() -> None:
    shipped = resources.files("lastbeat.views.page").joinpath("assets")
    names = {each.name for each in shipped.iterdir() if each.name.endswith((".js", ".css"))}
    assert names == {name for name in (*SCRIPTS, *STYLES) if "/" not in name}


def test_just_the_scripts_and_styles_of_the_page_are_what_its_policy_lets_run() -> None:
    made = page()
    elements = Elements(made.html)
    scripts = [text for attributes, text in elements.of("script") if "type" not in attributes]
    styles = [text for _, text in elements.of("style")]
    rules = dict(rule.strip().split(" ", 1) for rule in made.policy.split(";"))
    assert len(scripts) == len(SCRIPTS)
    assert rules["script-src"].split() == [digest(text) for text in scripts]
    assert rules["style-src"].split() == [digest(text) for text in styles]
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in made.policy


def test_the_file_says_the_policy_itself_but_for_what_only_a_header_can() -> None:
    made = page()
    metas = [attributes for attributes, _ in Elements(made.html).of("meta")]
    said = [str(meta["content"]) for meta in metas if meta.get("http-equiv") == "Content-Security-Policy"]
    assert said == [made.policy.removesuffix("; frame-ancestors 'none'")]
    # Nothing that the policy governs stands before it, and browsers look for the charset in the first 1024 bytes.
    assert made.html.index(b"Content-Security-Policy") < re.search(rb"<(style|script|link|img)", made.html).start()  # type: ignore[union-attr]
    assert 0 < made.html.index(b"charset=") < 1000


def test_the_page_fetches_nothing_from_anywhere() -> None:
    for tag, attributes, _ in Elements(page().html).found:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            assert str(attributes.get(name) or "#").startswith(("#", "data:")), (tag, attributes)
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("app_js", "x = '</SCRIPT >'", id="in capitals, too"),
        pytest.param("app_js", "x = '<!--<script>'", id="one after which its own end would be overlooked"),
        pytest.param("page_css", "a::after { content: '</style>' }", id="a style that would end itself"),
        pytest.param("app_js", "x = '\0'", id="what browsers read as something else"),
    ],
)
def test_a_part_that_would_leave_its_place_is_refused(name: str, text: str) -> None:
    with pytest.raises(AssetError, match=name.replace("_", ".")):
        assemble(parts(**{name: text}))


@pytest.mark.parametrize(
    "template",
    [
        pytest.param("<!--POLICY--><!--STYLE--><!--DATA-->", id="a mark is missing"),
        pytest.param(TEMPLATE + "<!--SCRIPT-->", id="a mark is there twice"),
    ],
)
def test_a_template_without_its_marks_is_refused(template: str) -> None:
    with pytest.raises(AssetError, match=r"page\.html has not just one"):
        assemble(parts(page_html=template))


def test_a_part_that_was_not_shipped_is_an_error_that_names_it() -> None:
    with pytest.raises(AssetError, match=r"nothing\.js"):
        asset("nothing.js")
