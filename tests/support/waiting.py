"""Waiting for what happens elsewhere: by looking, with a generous limit."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
LIMIT_S = 300.0
"""Most seconds that anything may take on a busy machine."""


def until(look: Callable[[], T], enough: Callable[[T], object] = bool, limit_s: float = LIMIT_S) -> T:
    """What ``look`` finds once that is ``enough``, or anything at all; fails with the last of it after ``limit_s``.

    What takes longer is looked at less often, for a look may cost a listing; and after a look that took long comes as
    long a rest.
    """
    began = time.monotonic()
    while True:
        looked = time.monotonic()
        if enough(found := look()):
            return found
        now = time.monotonic()
        assert now - began < limit_s, f"after {limit_s:g} s still {found!r}"
        time.sleep(max(min(max(0.001, (now - began) / 10), 0.05), min(now - looked, 0.5)))


def text_in(path: Path) -> str:
    """What ``path`` says once it says something: a shell makes the file before it writes into it."""
    return until(lambda: path.read_text(encoding="utf-8") if path.exists() else "", bool)
