"""A fault in a file that a user wrote by hand."""

from collections.abc import Iterable
from typing import NamedTuple


class FileFault(NamedTuple):
    """One fault and its place."""

    file: str
    line: int
    """From 1. 0: no single line is to blame."""
    what: str
    """What is wrong, and what to write instead."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}" if self.line else f"{self.file}: {self.what}"


def nearest(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)``, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for who mistyped

    near = get_close_matches(name[:100], list(known), n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""
