"""Checks that a pattern compiles, does not match every line, and cannot be slow on any line."""

import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from lastbeat.explain.scanning import backtracking, matching
from lastbeat.model.signal import Signal

PATTERN_LIMIT: Final = 4000
"""Most characters of a pattern."""


def groups_of(pattern: str) -> tuple[str, ...]:
    """The named groups of a pattern that compiles."""
    return tuple(matching.compiled(Signal("", pattern)).groupindex)


@lru_cache(maxsize=2000)
def faults(pattern: str, *, ignore_case: bool = False) -> Sequence[str]:
    """The faults of the regular expression ``pattern``, each with advice."""
    if len(pattern) > PATTERN_LIMIT:
        return [f"the pattern has {len(pattern):,} characters, and {PATTERN_LIMIT:,} is the most; split it"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled = matching.compiled(Signal("", pattern, ignore_case=ignore_case))
    except (re.error, Warning) as error:
        return [f"the pattern does not compile: {error}; a literal ( [ . * + ? needs a \\ before it"]
    except (RecursionError, OverflowError, ValueError, MemoryError):
        return ["the pattern does not compile: it is too large or too deep; split it"]
    slow = backtracking.fault(pattern, ignore_case=ignore_case)
    if slow is not None:
        return [f"the pattern {slow}"]
    # The line is short, and the pattern is known to be harmless.
    if compiled.search("") is not None:
        return ["the pattern matches the empty line, and so every line; ask for at least one character"]
    return []
