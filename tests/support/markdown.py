"""What the checks on documents need to know of Markdown: fenced blocks, inline code, links, headings."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(?P<mark>`{3,})(?P<info>[^`\n]*)\n(?P<text>.*?)^(?P=mark)[ \t]*$\n?", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)[^)\n]*\)")
_SOURCE = re.compile(r"<(?:img|source)\b[^>]*?\b(?:src|srcset)=\"([^\"]+)\"")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block. ``gap`` is the text between the block before it and this one."""

    info: str
    text: str
    line: int
    gap: str

    @property
    def language(self) -> str:
        return self.info.split(" ", 1)[0] if self.info else ""


@dataclass(frozen=True)
class Document:
    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> "Document":
        return cls(path, path.read_text(encoding="utf-8"))

    @property
    def blocks(self) -> list[Block]:
        found, end = [], 0
        for match in _FENCE.finditer(self.text):
            line = self.text.count("\n", 0, match.start()) + 1
            found.append(Block(match["info"].strip(), match["text"], line, self.text[end : match.start()]))
            end = match.end()
        return found

    @property
    def prose(self) -> str:
        """The text without its fenced blocks."""
        return _FENCE.sub("", self.text)

    @property
    def inline_code(self) -> list[str]:
        return _INLINE.findall(self.prose)

    @property
    def links(self) -> list[str]:
        """Where links lead and pictures lie."""
        text = _INLINE.sub("", self.prose)
        return [*_LINK.findall(text), *_SOURCE.findall(text)]

    @property
    def anchors(self) -> set[str]:
        """Headings as GitHub names them in links."""
        return {_slug(heading) for heading in _HEADING.findall(self.prose)}

    def commands(self) -> Iterator[str]:
        """Every command that the document shows, in blocks and in the text, continued lines joined."""
        yield from self.inline_code
        for block in self.blocks:
            yield from block.text.replace("\\\n", " ").splitlines()


def _slug(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")
