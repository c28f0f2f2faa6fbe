"""How many examples a law is tried with."""

from hypothesis import settings


def examples(count: int, hunted: int = 2000) -> int:
    """``count`` of them in `make test`, the same each time; `make laws` tries ``hunted`` new ones."""
    return count if settings().derandomize else hunted
