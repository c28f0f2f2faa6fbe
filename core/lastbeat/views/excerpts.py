"""Lines of logs made fit to be shown: cleaned, bounded, without secrets."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any, Final, TypeVar

from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import clean, fit, one_line
from lastbeat.model.view import Excerpt
from lastbeat.stores.port import Blob

TAIL_BYTES: Final = 64 * 1024
"""Bytes of a log's end that are read for its last lines."""
LINE_LIMIT: Final = 1000
"""Characters of one line."""
STACKS_LIMIT_BYTES: Final = 64 * 1024
STACKS_LINES: Final = 1000
NAME_LIMIT: Final = 300
_OWN_FILE: Final = re.compile(rb'File "[^"]*[/\\]lastbeat[/\\](?:training|integrations|stores|settings|model)\b[^"]*"')
"""Files of the installed package; people's own folders may be called lastbeat, too."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Safe:
    """Makes what training wrote fit to be shown; ``mask`` hides the secrets of who looks."""

    mask: Callable[[str], str] = str

    def text(self, text: str) -> str:
        """Many lines: cleaned, with every secret masked."""
        return mask_tokens(self.mask(clean(text)))

    def line(self, text: str, limit: int = LINE_LIMIT) -> str:
        """One line with its indentation, at most ``limit`` characters of it."""
        # What a terminal would break it at is no line of the file.
        return fit(self.text(text).replace("\n", " ").rstrip(), limit)

    def name(self, text: str, limit: int = NAME_LIMIT) -> str:
        """A few words on one line."""
        return fit(mask_tokens(self.mask(one_line(text))), limit)

    def maybe(self, text: str | None, limit: int = NAME_LIMIT) -> str | None:
        """:meth:`name` of what there is."""
        return None if text is None else self.name(text, limit)

    def all_of(self, value: T, **limits: int) -> T:
        """``value``, a dataclass, with :meth:`name` of every text in it. ``limits``: field → most characters of it."""
        made: T = self._all_of(value, NAME_LIMIT, limits)
        return made

    def _all_of(self, value: Any, limit: int, limits: Mapping[str, int]) -> Any:
        if isinstance(value, str) and not isinstance(value, Enum):
            return self.name(value, limit)
        if isinstance(value, tuple):
            return tuple(self._all_of(each, limit, limits) for each in value)
        if not is_dataclass(value) or isinstance(value, type):
            return value
        parts = {each.name: getattr(value, each.name) for each in fields(value)}
        safe = {name: self._all_of(part, limits.get(name, NAME_LIMIT), limits) for name, part in parts.items()}
        return replace(value, **safe)

    def lines(self, data: Sequence[bytes]) -> tuple[str, ...]:
        """Lines of a log as they are shown."""
        return tuple(self.line(each.decode("utf-8", "replace")) for each in data)


def split(data: bytes, *, cut_at_start: bool) -> list[bytes]:
    """The lines of ``data``, told apart by newlines alone, as everywhere; without a first one that is cut, unless it is
    all there is. What stands behind the last newline is a line if there is anything."""
    lines = data.split(b"\n")
    if cut_at_start and len(lines) > 1 and any(lines[1:]):
        lines = lines[1:]
    if lines and not lines[-1]:
        lines.pop()
    return lines


def tail(name: str, blob: Blob, most: int, safe: Safe) -> Excerpt:
    """The last ``most`` lines of a log, of which ``blob`` is the end."""
    whole = blob.size_bytes <= len(blob.body)
    lines = split(blob.body, cut_at_start=not whole)
    kept = lines[-most:] if most > 0 else []
    first = len(lines) - len(kept) + 1 if whole else None
    note = None
    if not whole and len(lines) < most:
        note = f"only the last {len(blob.body) // 1024} KB were read"
    return Excerpt(
        safe.name(name), safe.lines(kept), first if kept else None, None, blob.modified, blob.size_bytes, note
    )


def stacks(name: str, blob: Blob, safe: Safe) -> Excerpt:
    """All that was written down of where threads hang, but lastbeat's own: those only look on."""
    lines, own = _without_own(split(blob.body, cut_at_start=False))
    cut = len(lines) > STACKS_LINES or blob.size_bytes > len(blob.body)
    shown = safe.lines(lines[:STACKS_LINES])
    notes = ["it is longer than what is shown"] if cut else []
    if own:
        notes.append(f"{own} of lastbeat's own frames {'is' if own == 1 else 'are'} not shown")
    first = 1 if shown and not own else None
    return Excerpt(name, shown, first, None, blob.modified, blob.size_bytes, "; ".join(notes) or None)


def _without_own(lines: Sequence[bytes]) -> tuple[list[bytes], int]:
    """Without the frames of lastbeat's own code and the threads that it started; how many frames were left out.

    A thread is left out whole by its name. The innermost frame of another thread always stays: there it hangs.
    """
    kept: list[bytes] = []
    own, ours = 0, False
    for index, line in enumerate(lines):
        if line.startswith(b'Thread "'):
            ours = line.startswith(b'Thread "lastbeat')
            if ours:
                continue
        frame = line.lstrip().startswith(b'File "')
        if ours:
            own += frame
            continue
        last = index + 1 >= len(lines) or not lines[index + 1].strip()
        if frame and not last and _OWN_FILE.search(line):
            own += 1
            continue
        kept.append(line)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept, own
