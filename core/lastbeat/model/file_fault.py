"""What is wrong with a file that somebody wrote by hand."""

from collections.abc import Iterable
from typing import NamedTuple


class FileFault(NamedTuple):
    """One thing that is wrong, and where."""

    file: str
    line: int
    """From 1; 0 where no one line is to blame."""
    what: str
    """What is wrong; what to write instead."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}" if self.line else f"{self.file}: {self.what}"


def nearest(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)``, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for who mistyped

    near = get_close_matches(name[:100], list(known), n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""
