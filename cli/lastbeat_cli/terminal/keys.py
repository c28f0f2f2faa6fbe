"""Bytes from a terminal → names of keys, the same for all terminals."""

import codecs
from typing import Final

_SEQUENCES: Final = {
    "A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end",
    "1~": "home", "4~": "end", "7~": "home", "8~": "end", "5~": "pageup", "6~": "pagedown", "3~": "delete",
    "200~": "paste-begins", "201~": "paste-ends",
}  # fmt: skip
_CONTROLS: Final = {
    "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\t": "tab", "\x0c": "redraw",
    "\x04": "pagedown", "\x06": "pagedown", "\x02": "pageup", "\x15": "clear", "\x0e": "down", "\x10": "up",
}  # fmt: skip
_LONGEST: Final = 32
"""Longest sequence of a key, in characters."""
PASTED: Final = "pasted:"
"""Prefix of the pseudo-key for a whole pasted text."""
_MOST_PASTED: Final = 1000
"""Most characters kept of a pasted text."""


class Keys:
    """Decodes keys, and remembers an incomplete sequence."""

    def __init__(self) -> None:
        # Bytes that are not UTF-8 are ignored.
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._rest = ""
        self._pasted: str | None = None

    @property
    def waiting(self) -> bool:
        """Whether a sequence or a pasted text is incomplete. A single escape may be a key or begin a sequence."""
        return bool(self._rest) or self.pasting

    @property
    def pasting(self) -> bool:
        """Whether a pasted text is incomplete."""
        return self._pasted is not None

    def feed(self, data: bytes) -> list[str]:
        """The keys completed by ``data``: characters as they are, other keys by name."""
        self._rest += self._decoder.decode(data)
        keys: list[str] = []
        while self._rest:
            taken, key = self._next()
            if not taken:
                break
            self._rest = self._rest[taken:]
            keys += self._taken(key)
        return keys

    def _taken(self, key: str) -> list[str]:
        if self._pasted is None:
            if key == "paste-begins":
                self._pasted = ""
            return [key] if key and not key.startswith("paste-") else []
        if key == "paste-ends":
            return self._end_of_paste()
        if len(key) == 1 and len(self._pasted) < _MOST_PASTED:
            self._pasted += key
        return []

    def _end_of_paste(self) -> list[str]:
        text, self._pasted = self._pasted, None
        return [PASTED + text] if text else []

    def flush(self) -> list[str]:
        """Finish an incomplete sequence: a single escape becomes the key ``escape``, and a pasted text ends."""
        alone, self._rest = self._rest == "\x1b", ""
        return self._end_of_paste() if self.pasting else ["escape"] if alone else []

    def _next(self) -> tuple[int, str]:
        """Length and name of the next key. The length is 0 if it is incomplete; the name is empty if it is unknown."""
        first = self._rest[0]
        if first != "\x1b":
            return 1, _CONTROLS.get(first, first if first.isprintable() else "")
        if len(self._rest) < 2:
            return 0, ""
        if self._rest[1] not in "[O":
            # Two keys, or one with Alt: the escape counts as a key of its own.
            return 1, "escape"
        for index, char in enumerate(self._rest[2:_LONGEST], start=2):
            if "@" <= char <= "~":
                return index + 1, _SEQUENCES.get(self._rest[2 : index + 1], "")
        return (len(self._rest), "") if len(self._rest) >= _LONGEST else (0, "")
