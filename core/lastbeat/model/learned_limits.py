"""Limits that a run learns of itself, from how long its spans have taken: its sections, the time out of all of them,
its steps, and the time until its first step. Pure.

The rule is that of the fault-tolerance package of NVIDIA's resiliency extension: a safety factor times the longest that
any rank has seen, merged half and half with what was known before. Ours learns each name by itself, not before it has
enough samples, and within bounds.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

FACTOR: Final = 5.0
"""A limit is so many times the longest span."""
LEAST_SAMPLES: Final = 16
"""Spans of one name, over all ranks and attempts, before it has a limit."""
FLOOR_S: Final = 60.0
"""No limit is shorter: a store, a garbage collector or a network may be slow for a moment."""
IDLE_FLOOR_S: Final = 1800.0
"""Nor one for the time in which no section is open, before an attempt has ended: the first evaluation, or the first
checkpoint, may be yet to come, and in no section either."""
CEILING_S: Final = 6 * 3600.0
"""No limit is longer."""
_ROOM: Final = 1.5
"""Where the ceiling is less than so many times the longest span, there is no limit: it would be a false alarm."""
MOST_SPANS: Final = 32
"""So many names are learned."""
LIMIT_BYTES: Final = 65536
_MOST_S: Final = 10 * 365 * 86400.0
_NAME_CHARS: Final = 60
Kind = Literal["section", "between", "outside", "starting"]
_KINDS: Final[Mapping[str, Kind]] = {
    "section": "section", "between": "between", "outside": "outside", "starting": "starting",
}  # fmt: skip


class SpanKey(NamedTuple):
    """What a span is of. Out of all sections: ``starting``, before the first step; ``between`` two steps, where steps
    are no sections; else ``outside``."""

    kind: Kind
    name: str = ""
    """Of a section: hostile text."""


OUTSIDE: Final = SpanKey("outside")
BETWEEN: Final = SpanKey("between")
STARTING: Final = SpanKey("starting")


@dataclass(frozen=True, slots=True)
class Taken:
    """How long spans of one name took."""

    samples: int = 0
    longest_s: float = 0.0
    at_least_s: float = 0.0
    """The longest that was not finished when its process ended."""

    def __add__(self, other: "Taken") -> "Taken":
        """Both together, of two ranks or of two times."""
        return Taken(
            self.samples + other.samples,
            max(self.longest_s, other.longest_s),
            max(self.at_least_s, other.at_least_s),
        )


@dataclass(frozen=True, slots=True)
class LearnedLimit:
    """What is known of one name after some attempts."""

    taken: Taken
    """Samples of all attempts; the longest of the latest one that had any."""
    limit_s: float | None = None
    """None: there are too few samples, or its spans are too long to be told from a hang."""


Learned = Mapping[SpanKey, LearnedLimit]


def learned(before: Learned, now: Mapping[SpanKey, Taken]) -> dict[SpanKey, LearnedLimit]:
    """What is known with ``now``, the spans of one attempt, after the attempts ``before``.

    1. The longest span counts, finished or not, :data:`FACTOR` times, from :data:`FLOOR_S` (out of sections, in a
       first attempt, :data:`IDLE_FLOOR_S`) to :data:`CEILING_S`.
    2. The mean of that and the limit from before, if there was one.
    3. Not before :data:`LEAST_SAMPLES`; until then the limit from before stays.
    """
    found = dict(before)
    for key, taken in now.items():
        known = before.get(key)
        samples = taken.samples + (known.taken.samples if known is not None else 0)
        longest_s = max(taken.longest_s, taken.at_least_s)
        if longest_s <= 0:
            continue
        limit_s = known.limit_s if known is not None else None
        if samples >= LEAST_SAMPLES:
            floor_s = FLOOR_S if key.kind == "section" or known is not None else IDLE_FLOOR_S
            own_s = min(max(FACTOR * longest_s, floor_s), CEILING_S)
            limit_s = own_s if limit_s is None else (own_s + limit_s) / 2
            limit_s = limit_s if limit_s >= _ROOM * longest_s else None
        found[key] = LearnedLimit(replace(taken, samples=samples), limit_s)
    return _bounded(found)


def together(ranks: Iterable[Mapping[SpanKey, Taken]]) -> dict[SpanKey, Taken]:
    """The spans of all ranks."""
    found = dict[SpanKey, Taken]()
    for rank in ranks:
        for key, taken in rank.items():
            found[key] = found.get(key, Taken()) + taken
    return found


def _bounded(found: dict[SpanKey, LearnedLimit]) -> dict[SpanKey, LearnedLimit]:
    most = sorted(found, key=lambda key: (-found[key].taken.samples, key))[:MOST_SPANS]
    return {key: found[key] for key in found if key in most} if len(found) > MOST_SPANS else found


@dataclass(frozen=True, slots=True)
class LearnedState:
    """``ft_state.json``: what a run has learned."""

    attempt: str = ""
    """The start of the attempt that wrote it."""
    before: Learned = field(default_factory=dict)
    """What was known when that began."""
    learned: Learned = field(default_factory=dict)
    applied: bool = False
    """A person has made these limits stay as they are."""
    forgotten_at: str = ""
    """When a person had it forget what it knew."""


def encode_state(state: LearnedState) -> bytes:
    """``state`` as JSON."""
    document = {
        "schema": 1,
        "attempt": state.attempt,
        "applied": state.applied,
        "forgotten_at": state.forgotten_at or None,
        "before": [_row(key, known) for key, known in state.before.items()],
        "learned": [_row(key, known) for key, known in state.learned.items()],
    }
    return json.dumps({name: value for name, value in document.items() if value is not None}).encode()


def read_state(body: bytes) -> LearnedState | None:
    """What a file of that form says, as far as it is understood. None: it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    return LearnedState(
        _text(document.get("attempt")),
        _rows(document.get("before")),
        _rows(document.get("learned")),
        document.get("applied") is True,
        _text(document.get("forgotten_at")),
    )


def taken_fields(times: Mapping[SpanKey, Taken]) -> list[dict[str, Any]]:
    """``times`` as a heartbeat tells them, those that took longest first."""
    most = sorted(times.items(), key=lambda each: (-each[1].longest_s, each[0]))[:MOST_SPANS]
    return [_row(key, LearnedLimit(taken)) for key, taken in most]


def read_taken(value: object) -> dict[SpanKey, Taken]:
    """What a heartbeat tells of them, as far as it is understood."""
    return {key: known.taken for key, known in _rows(value).items()}


def _row(key: SpanKey, known: LearnedLimit) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": key.kind}
    if key.kind == "section":
        row["name"] = key.name[:_NAME_CHARS]
    row |= {"samples": known.taken.samples, "longest_s": round(known.taken.longest_s, 3)}
    if known.taken.at_least_s:
        row["at_least_s"] = round(known.taken.at_least_s, 3)
    if known.limit_s is not None:
        row["limit_s"] = round(known.limit_s, 3)
    return row


def _rows(value: object) -> dict[SpanKey, LearnedLimit]:
    found = dict[SpanKey, LearnedLimit]()
    for each in value[:MOST_SPANS] if isinstance(value, list) else ():
        told = each if isinstance(each, dict) else {}
        kind, name, samples = told.get("kind"), told.get("name"), told.get("samples")
        known = _KINDS.get(kind) if isinstance(kind, str) else None
        if known is None or type(samples) is not int or not 0 <= samples < 1 << 53:
            continue
        if known != "section":
            name = ""
        if not isinstance(name, str):
            continue
        taken = Taken(samples, _seconds(told.get("longest_s")) or 0.0, _seconds(told.get("at_least_s")) or 0.0)
        limit_s = _seconds(told.get("limit_s"))
        # Nobody has less time because a file was tampered with, or more than there is.
        limit_s = None if limit_s is None else min(max(limit_s, FLOOR_S), CEILING_S)
        found[SpanKey(known, name[:_NAME_CHARS])] = LearnedLimit(taken, limit_s)
    return found


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and 0 < value < _MOST_S else None


def _text(value: object) -> str:
    return value[:100] if isinstance(value, str) else ""
