"""Bytes of a keyboard → names of keys: what a person pressed, whatever the terminal calls it."""

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
"""No key sends a longer sequence."""
PASTED: Final = "pasted:"
"""Begins what stands for a whole pasted text, of which nothing is a key."""
_MOST_PASTED: Final = 1000


class Keys:
    """Remembers the part of a key that has not come whole yet."""

    def __init__(self) -> None:
        # Whatever is no UTF-8 is no key.
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._rest = ""
        self._pasted: str | None = None

    @property
    def waiting(self) -> bool:
        """Whether an escape has come that may begin a longer key, or be the key itself; or more is being pasted."""
        return bool(self._rest) or self.pasting

    @property
    def pasting(self) -> bool:
        """Whether a pasted text has not come whole yet."""
        return self._pasted is not None

    def feed(self, data: bytes) -> list[str]:
        """The keys that ``data`` completes: a character as it is, others by their name."""
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
        """Nothing more came: an escape alone is the key of that name, and a paste is over."""
        alone, self._rest = self._rest == "\x1b", ""
        return self._end_of_paste() if self.pasting else ["escape"] if alone else []

    def _next(self) -> tuple[int, str]:
        """How many characters the next key takes, none if it is not whole; its name, empty if it is none of ours."""
        first = self._rest[0]
        if first != "\x1b":
            return 1, _CONTROLS.get(first, first if first.isprintable() else "")
        if len(self._rest) < 2:
            return 0, ""
        if self._rest[1] not in "[O":
            # Two keys, or one with Alt; an escape before anything is meant as one.
            return 1, "escape"
        for index, char in enumerate(self._rest[2:_LONGEST], start=2):
            if "@" <= char <= "~":
                return index + 1, _SEQUENCES.get(self._rest[2 : index + 1], "")
        return (len(self._rest), "") if len(self._rest) >= _LONGEST else (0, "")
