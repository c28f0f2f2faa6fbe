"""A fault in a file that a user wrote by hand."""

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
