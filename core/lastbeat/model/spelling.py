"""Finds the names that a mistyped one probably stands for, as advice of its own and within a fault."""

from collections.abc import Iterable, Sequence


def near_names(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> Sequence[str]:
    """Those of ``known`` that are nearly ``name``, the nearest first; ``cutoff`` is how alike, from 0 to 1."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for who mistyped

    return get_close_matches(name[:100], list(known), n=most, cutoff=cutoff)


def did_you_mean(names: Sequence[object]) -> str:
    """``Did you mean x or y?``: a sentence of its own. Empty where there are none."""
    return f"Did you mean {' or '.join(map(str, names))}?" if names else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` within a fault, or nothing."""
    near = near_names(name, known)
    return f" (did you mean '{near[0]}'?)" if near else ""
