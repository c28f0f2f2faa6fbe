"""Text for people: what came from training is made harmless, so that it is shown and never interpreted; a mistyped name
gets advice.

Nothing here knows a channel. A channel then escapes what is special to it, and measures after that.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from lastbeat.model.pattern import Pattern

NAME_LIMIT = 100
"""Characters of an owner or a team. More is cut, never refused: training must not stop for it."""
CUT = "…"
"""Marks where something was left out."""

# CSI and OSC sequences whole, so that a colour leaves no "[31m" behind, then any other escape of two bytes.
_ANSI = Pattern(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]{0,500}(?:\x07|\x1b\\)|\x1b[@-Z\\-_]?")
# What reorders, hides or breaks text: C0 and C1 controls, bidirectional marks and overrides, invisible tag
# characters, lone surrogates, which no UTF-8 can carry, and the two that XML and SQS refuse.
_HARMFUL = Pattern(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufffe\uffff\U000e0000-\U000e007f]"
)
_NEWLINE = Pattern("\r*\n|\x85|\u2028|\u2029")
_MOST = 200_000
"""Characters beyond this are ignored: far more than any channel takes."""


def clean(text: str) -> str:
    """``text`` without ANSI sequences, controls and bidirectional tricks; newlines are ``\\n``.

    A line that was overwritten with carriage returns, as progress bars do, is what a terminal would show:
    its last state. Other harmful characters become ``�``, so that their being there is seen.
    """
    text = _ANSI.sub("", text[:_MOST])
    text = _NEWLINE.sub("\n", text).expandtabs(4)
    if "\r" in text:
        text = "\n".join(_last_state(line) for line in text.split("\n"))
    return _HARMFUL.sub("\ufffd", text)


def one_line(text: str) -> str:
    """:func:`clean` text with every run of white space made one space, and none at its ends."""
    return " ".join(clean(text).split())


def owner_name(text: str | None) -> str | None:
    """``text`` as the name of a person or team: one harmless, bounded line; None if it is empty."""
    return None if text is None else fit(one_line(text), NAME_LIMIT) or None


def _last_state(line: str) -> str:
    return next((part for part in reversed(line.split("\r")) if part.strip()), "")


def counted(number: int, one: str, many: str = "") -> str:
    """``1 step``, ``1,200 steps``. ``many``: the plural, where an *s* does not make it."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def fit(text: str, limit: int, cost: Callable[[str], int] = len) -> str:
    """The start of ``text`` whose characters cost at most ``limit`` together, ending in ``…`` where it was cut.

    ``cost`` gives the length of one character as the channel counts it after escaping, at least 1.
    """
    used = 0
    room = 0  # How many characters still leave place for the mark.
    for index, char in enumerate(text[: limit + 1]):
        used += cost(char)
        if used > limit:
            return text[:room].rstrip() + CUT if limit > 0 else ""
        if used <= limit - 1:
            room = index + 1
    return text


def newest(lines: tuple[str, ...], limit: int, line_limit: int, cost: Callable[[str], int] = len) -> list[str]:
    """The last of ``lines`` that fit into ``limit`` with a newline each, oldest first, each within ``line_limit``.

    Where older ones were left out the first line is ``…``. Blank lines at either end are dropped.
    """
    kept: list[str] = []
    left = limit - 2  # For the mark and its newline.
    for line in _newest_first(lines):
        if not kept and not line:
            continue
        short = fit(line, line_limit, cost)
        left -= sum(map(cost, short)) + 1
        if left < 0:
            kept.append(CUT)
            break
        kept.append(short)
    while kept and not kept[-1]:
        kept.pop()
    return kept[::-1]


def _newest_first(lines: tuple[str, ...]) -> Iterator[str]:
    # An entry may hold newlines of its own. Lazily, because a few lines fill any channel.
    for entry in reversed(lines):
        yield from (line.rstrip() for line in reversed(clean(entry).removesuffix("\n").split("\n")))


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
