"""Reads a dump in JSON, as torch's debug server returns it, an entry at a time."""

import json
from collections.abc import Callable
from typing import Any, Final

from lastbeat.explain.flight_recorder.plain_pickle import MOST_BYTES, Read, RefusedDumpError

_CHUNK_BYTES: Final = 1 << 18
_MOST_VALUE_CHARS: Final = 1 << 24
"""Most characters of one entry, or of all groups."""
_BLANK: Final = " \t\r\n"


class JsonDump:
    """One JSON object. ``take`` gets each item of its list ``entries``. ``expired`` says that the time is up."""

    def __init__(self, read: Read, take: Callable[[dict[Any, Any]], bool], expired: Callable[[], bool]) -> None:
        self._read, self._take, self._expired = read, take, expired
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._bytes = "", 0, 0
        self._found: dict[Any, Any] = {}

    def load(self) -> dict[Any, Any]:
        """The object without its entries. Raises :class:`RefusedDumpError`."""
        self._expect("{")
        while not self._begins("}"):
            key = self._value()
            self._expect(":")
            if key == "entries" and self._begins("["):
                while not self._begins("]"):
                    entry = self._value()
                    if isinstance(entry, dict):
                        self._take(entry)
                    self._begins(",")
            else:
                self._found[str(key)] = self._value()
            self._begins(",")
        return self._found

    def salvaged(self) -> dict[Any, Any]:
        """The object as far as it was read."""
        return self._found

    def _value(self) -> Any:
        """The next value. One that ends where the text read so far does may go on behind."""
        while True:
            self._next()
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except ValueError:
                end = len(self._text)
            except RecursionError:
                raise RefusedDumpError(f"nested too deep before byte {self._bytes:,}") from None
            if end < len(self._text):
                self._at = end
                return value
            if len(self._text) - self._at > _MOST_VALUE_CHARS or not self._more():
                raise RefusedDumpError(f"no JSON, or cut off, before byte {self._bytes:,}")

    def _begins(self, sign: str) -> bool:
        """Whether ``sign`` is next. Moves behind it."""
        if self._next() != sign:
            return False
        self._at += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._begins(sign):
            raise RefusedDumpError(f"no JSON before byte {self._bytes:,}: {sign!r} is missing")

    def _next(self) -> str:
        """The next character that is not blank. Moves to it."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                raise RefusedDumpError(f"cut off at byte {self._bytes:,}")

    def _more(self) -> bool:
        if self._expired():
            raise RefusedDumpError(f"there was no time to read beyond byte {self._bytes:,}")
        # As much again as waits, so that a long value is not parsed many times.
        chunk = self._read(max(_CHUNK_BYTES, len(self._text) - self._at))
        self._bytes += len(chunk)
        if self._bytes > MOST_BYTES:
            raise RefusedDumpError(f"more than {MOST_BYTES:,} bytes")
        self._text, self._at = self._text[self._at :] + chunk.decode("utf-8", "replace"), 0
        return bool(chunk)
