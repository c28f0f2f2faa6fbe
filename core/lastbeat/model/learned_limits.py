"""Limits that a run learns of itself, from how long its spans have taken: its sections, the time out of all of them,
its steps, and the time until its first step. Pure.

The rule is that of the fault-tolerance package of NVIDIA's resiliency extension: a safety factor times the longest that
any rank has seen, merged half and half with what was known before. Ours learns each name by itself, not before it has
enough samples, within bounds, and unlearns nothing for an attempt that was short.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any, Final, Literal, NamedTuple

from lastbeat.model.data import dataclass
from lastbeat.model.json_values import json_object

FACTOR: Final = 5.0
"""A limit is this many times the longest span."""
LEAST_SAMPLES: Final = 16
"""Fewest spans of one name, over all ranks and attempts, for a limit."""
LEAST_OF_A_RANK: Final = 4
"""Fewest spans of one rank among them. What all ranks do together counts once, however many ranks there are."""
FLOOR_S: Final = 60.0
"""No limit is shorter: a store, a garbage collector or a network may be slow for a moment."""
IDLE_FLOOR_S: Final = 1800.0
"""Nor one for the time in which no section is open, before earlier attempts were long enough: the first evaluation, or
the first checkpoint, may be yet to come, and in no section either."""
LONG_SAMPLES: Final = 5000
"""Earlier attempts were, if one rank saw so many such spans in them."""
CEILING_S: Final = 6 * 3600.0
"""No limit is longer."""
ROOM: Final = 1.5
"""Without this factor between the longest span and the ceiling there is no limit: it would be a false alarm."""
MOST_SPANS: Final = 32
"""Most names that are learned."""
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
    """The section's name, which is hostile text; empty for other kinds."""


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
    of_a_rank: int | None = None
    """The most samples that one rank has. None: all of them."""

    def __add__(self, other: "Taken") -> "Taken":
        """Both together, of two ranks."""
        return self._with(other, max(self.most, other.most))

    def then(self, later: "Taken") -> "Taken":
        """Both together, of two attempts."""
        return self._with(later, self.most + later.most)

    def _with(self, other: "Taken", most: int) -> "Taken":
        samples = self.samples + other.samples
        return Taken(
            samples,
            max(self.longest_s, other.longest_s),
            max(self.at_least_s, other.at_least_s),
            most if most < samples else None,
        )

    @property
    def most(self) -> int:
        """The most samples that one rank has."""
        return self.samples if self.of_a_rank is None else self.of_a_rank

    @property
    def enough(self) -> bool:
        """Whether a limit may rest on it."""
        return self.samples >= LEAST_SAMPLES and self.most >= LEAST_OF_A_RANK

    @property
    def usual_s(self) -> float:
        """The longest, finished or not."""
        return max(self.longest_s, self.at_least_s)


@dataclass(frozen=True, slots=True)
class LearnedLimit:
    """What is known of one name after some attempts."""

    taken: Taken
    """Samples of all attempts; the longest of the latest one that had enough of them, and of all since."""
    limit_s: float | None = None
    """Limit in s; None if there are too few samples, or if spans are as long as a hang."""


Learned = Mapping[SpanKey, LearnedLimit]


def learned(before: Learned, now: Mapping[SpanKey, Taken]) -> dict[SpanKey, LearnedLimit]:
    """What is known with ``now``, the spans of one attempt, after the attempts ``before``.

    1. The longest span counts, finished or not, :data:`FACTOR` times, from :data:`FLOOR_S` to :data:`CEILING_S`. An
       attempt with too few of them adds to what is known, and takes nothing away: one that dies after a single quick
       save shows no more of saves than that.
    2. Out of sections it is :data:`IDLE_FLOOR_S` at least, before earlier attempts were long enough.
    3. The mean of that and the limit from before, if there was one.
    4. Not before there are enough samples; until then the limit from before stays.
    """
    found = dict(before)
    for key, taken in now.items():
        known = before.get(key)
        if taken.usual_s <= 0:
            continue
        everything = taken if known is None else known.taken.then(taken)
        counted = taken if taken.enough else everything
        limit_s = known.limit_s if known is not None else None
        if everything.enough:
            own_s = min(max(FACTOR * counted.usual_s, _floor_s(key, known)), CEILING_S)
            limit_s = own_s if limit_s is None else (own_s + limit_s) / 2
            limit_s = limit_s if limit_s >= ROOM * counted.usual_s else None
        samples, of_a_rank = everything.samples, everything.of_a_rank
        found[key] = LearnedLimit(replace(counted, samples=samples, of_a_rank=of_a_rank), limit_s)
    return _bounded(found)


def _floor_s(key: SpanKey, known: LearnedLimit | None) -> float:
    """No limit of such spans is shorter."""
    seen = key.kind == "section" or (known is not None and known.taken.most >= LONG_SAMPLES)
    return FLOOR_S if seen else IDLE_FLOOR_S


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

    def with_attempt(self, attempt: str, now: Mapping[SpanKey, Taken]) -> "LearnedState":
        """What is known with all spans of ``attempt`` so far, ``now``: of earlier ones it counts what was known when it
        began, however often it asks."""
        before = self.before if self.attempt == attempt else self.learned
        found = before if self.applied else learned(before, now)
        return replace(self, attempt=attempt, before=before, learned=found)


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
    document = json_object(body)
    if document is None:
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
    """The times in a heartbeat, as far as they are understood."""
    return {key: known.taken for key, known in _rows(value).items()}


def _row(key: SpanKey, known: LearnedLimit) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": key.kind}
    if key.kind == "section":
        row["name"] = key.name[:_NAME_CHARS]
    row |= {"samples": known.taken.samples, "longest_s": round(known.taken.longest_s, 3)}
    if known.taken.of_a_rank is not None:
        row["of_a_rank"] = known.taken.of_a_rank
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
        most = told.get("of_a_rank")
        most = most if type(most) is int and 0 <= most < samples else None
        taken = Taken(samples, _seconds(told.get("longest_s")) or 0.0, _seconds(told.get("at_least_s")) or 0.0, most)
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
