"""The value of a row under a name: its own fields, keys of its configuration, and metrics. Pure.

A name is as filters, sort orders and columns have it. A key of nested configuration is found by its last part, too:
``lr`` finds ``optim.lr``.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from lastbeat.model.status import steps_done
from lastbeat.model.view import Row

Scalar = str | float | bool
KEYS_LIMIT: Final = 300
"""Most keys that are listed for people to choose from."""
ASKED_LIMIT: Final = 24
"""Most keys that rows of one document have values of."""
FILE_KEYS: Final = 12
"""Most keys of which a page in a file has values."""
FILE_VALUES: Final = 20_000
"""Most values in it: those of 5,000 runs take 100 KB of the 720 that it may have."""
NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
"""A number as people type it, and as the page reads it."""

TEXTS: Final[Mapping[str, Callable[[Row], tuple[str | None, ...]]]] = {
    "cause": lambda row: (row.cause,),
    "condition": lambda row: row.conditions,
    "host": lambda row: (row.host,),
    "owner": lambda row: (row.owner,),
    "phase": lambda row: (row.phase,),
    "run": lambda row: (row.run_id,),
    "status": lambda row: (row.shown,),
    "tag": lambda row: row.tags,
    "team": lambda row: (row.team,),
}
"""Field → its texts. The page has the same, in filter.js."""


def _done(row: Row) -> float | None:
    """Percent of its steps."""
    if row.step is None or not row.total_steps:
        return None
    return 100 * steps_done(row.step, row.total_steps, row.status) / row.total_steps


NUMBERS: Final[Mapping[str, Callable[[Row], float | None]]] = {
    "attempt": lambda row: row.attempt,
    "done": _done,
    "eta": lambda row: row.eta_s,
    "gpu_hours": lambda row: row.gpu_hours,
    "gpus": lambda row: row.gpus,
    "loss": lambda row: row.loss,
    "speed": lambda row: row.steps_per_s,
    "step": lambda row: row.step,
    "tokens": lambda row: row.tokens_per_s,
    "total_steps": lambda row: row.total_steps,
}
"""Field → its number. The page has those whose numbers stand in each row, and asks for the others."""


def value(row: Row, key: str) -> Scalar | None:
    """What ``row`` says under ``key``, in capitals or not; None if it says nothing."""
    name = key.casefold()
    if name in TEXTS:
        return ", ".join(filter(None, TEXTS[name](row))) or None
    found = NUMBERS[name](row) if name in NUMBERS else None
    return _configured(row, key) if found is None else found


def _configured(row: Row, key: str) -> Scalar | None:
    for told in (row.metrics, row.config):
        if key in told:
            return told[key]
    name = key.casefold()
    for told in (row.metrics, row.config):
        for known, found in told.items():
            whole = known.casefold()
            if whole == name or whole.endswith(f".{name}"):
                return found
    return None


def number(found: Scalar | None) -> float | None:
    """The number in ``found``: YAML reads ``1e-4`` as a text."""
    if isinstance(found, bool) or found is None:
        return None
    if isinstance(found, str):
        return float(found) if NUMBER.fullmatch(found) else None
    return float(found)


def known_keys(rows: Iterable[Row]) -> list[str]:
    """The names of all metrics and keys of configurations in ``rows``."""
    found: set[str] = set()
    for row in rows:
        found.update(row.config, row.metrics)
    return sorted(found)[:KEYS_LIMIT]


def telling_keys(rows: Sequence[Row]) -> list[str]:
    """The keys of configurations in which ``rows`` differ, those of most runs first: as many as a file has room for."""
    values: dict[str, set[Scalar]] = {}
    many: Counter[str] = Counter()
    for row in rows:
        for key, found in row.config.items():
            many[key] += 1
            values.setdefault(key, set()).add(found)
    most = min(FILE_KEYS, FILE_VALUES // max(1, len(rows)))
    return [key for key, _ in many.most_common() if len(values[key]) > 1][:most]


def is_known(key: str, rows: Iterable[Row]) -> bool:
    """Whether any row may say something under ``key``."""
    name = key.casefold()
    return name in {*TEXTS, *NUMBERS, *_SORTED} or any(_configured(row, key) is not None for row in rows)


def sorted_by(rows: Sequence[Row], order: Sequence[str]) -> tuple[Row, ...]:
    """``rows`` by each key of ``order``, from small to large, or with a ``-`` before it from large to small. Equals
    keep their order, and what is not known comes last. ``status`` is the order in which ``rows`` come."""
    found = list(enumerate(rows))
    for each in reversed(order):
        key, backwards = each.removeprefix("-"), each.startswith("-")
        by = _SORTED.get(key.casefold(), lambda _, row, key=key: value(row, key))
        said = [(place, row, by(place, row)) for place, row in found]
        known = [each for each in said if not _unknown(each[2])]
        known.sort(key=lambda each: _rank(each[2]), reverse=backwards)
        found = [(place, row) for place, row, _ in (*known, *(each for each in said if _unknown(each[2])))]
    return tuple(row for _, row in found)


def _youngest(at: datetime | None) -> float | None:
    return None if at is None else -at.timestamp()


_SORTED: Final[Mapping[str, Callable[[int, Row], Scalar | None]]] = {
    "beat": lambda _, row: _youngest(row.beat_at),
    "progress": lambda _, row: _done(row),
    "since": lambda _, row: _youngest(row.since),
    "status": lambda place, _: place,
    "strip": lambda _, row: _youngest(row.since),
}
"""What sorts otherwise than by :func:`value`, as on the page: status by need, times with the latest first."""


def _unknown(found: Scalar | None) -> bool:
    return found is None or (isinstance(found, float) and math.isnan(found))


def _rank(found: Scalar | None) -> tuple[bool, float, str]:
    """Numbers before texts."""
    as_number = number(found)
    return as_number is None, as_number or 0.0, "" if as_number is not None else str(found).casefold()
