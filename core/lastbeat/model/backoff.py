"""How long to wait before something that has failed is tried again."""

from math import inf
from typing import Final

_MOST_DOUBLINGS: Final = 20


def backoff_s(failures: int, first_s: float, cap_s: float = inf) -> float:
    """The seconds to wait after so many failures in a row: none after no failure, ``first_s`` after one, twice as long
    after each further one, and ``cap_s`` at most."""
    return min(first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), cap_s) if failures > 0 else 0.0
