"""The curves of a run as people see them: what its attempts keep in ``curves/``, and newer points of its heartbeat.

A table has a row for each cell of the axis, so that however much a run keeps, an answer is bounded, and a closer look
shows more.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import accumulate, islice
from math import inf, isfinite
from typing import Final, Literal, NamedTuple

from lastbeat.model.as_json import Json, rounded
from lastbeat.model.json_values import finite, json_object, number, whole
from lastbeat.model.runid import CURVES
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import fit, one_line
from lastbeat.model.view import Point
from lastbeat.stores.port import Blob, Entry, Store
from lastbeat.views.file_cache import FileCache, FilePiece
from lastbeat.views.heartbeats import NAME_LIMIT
from lastbeat.views.run_document import speeds

FILE_BYTES: Final = 4 * 1024 * 1024
"""A larger file counts as missing."""
ATTEMPTS: Final = 8
"""Attempts whose files are read, the latest."""
ALL_BYTES: Final = 6 * 1024 * 1024
"""Files of older attempts are left out where the files together are larger."""
CURVES_MOST: Final = 20
"""Curves of an attempt that are read."""
ROWS_MOST: Final = 4000
"""Rows of a curve that are read, the latest."""
CELLS: Final = 480
"""Rows of a table at most."""
_MARGIN: Final = 0.02
"""A part of the axis on each side of what was asked for, so that lines go on to its edges."""
_LAST_S: Final = 1e11
"""A later Unix time in s is a mistake."""
_FILE: Final = re.compile(rf"{CURVES}([1-9]\d{{0,8}})\.json")
_ITEMS: Final = 5
_USUAL: Final = [float, int, float]
_LAST_STEP: Final = 10**15
_OWN: Final = ("loss", "learning_rate", "tokens")
Axis = Literal["step", "at"]


@dataclass(frozen=True, slots=True)
class CurvesAsked:
    """What is wanted of a run's curves."""

    by: Axis = "step"
    window: tuple[float, float] | None = None
    """A part of the axis; None for all of it."""
    only: str | None = None
    """The one curve that is wanted; None for all."""


ALL_CURVES: Final = CurvesAsked()


class CurveRow(NamedTuple):
    """A value of a curve, or what several of them come to."""

    at: float
    """Unix time in s of the last one."""
    step: float
    mean: float
    """May be NaN or infinite: one of the values was."""
    least: float
    greatest: float


def attempt_of(name: str) -> int | None:
    """The attempt whose curves the file has, by its name below the run's folder; None if it is no such file."""
    found = _FILE.fullmatch(name)
    return int(found[1]) if found is not None else None


class CurveReader:
    """Reads the files of one run, each again only when it was written. For one thread at a time."""

    def __init__(self, store: Store, mask: Callable[[str], str] = str) -> None:
        self._cache = FileCache(store, 2)
        self._mask = mask

    def read(self, files: Mapping[int, Entry], only: str | None = None) -> list[dict[str, list[CurveRow]]]:
        """The curves of each attempt by name, or one of them and the tokens; oldest attempt first. ``files`` are as a
        listing has them. A file that cannot be read is left out."""
        latest = sorted(files, reverse=True)[:ATTEMPTS]
        small = [number for number in latest if files[number].size_bytes <= FILE_BYTES]
        so_far = accumulate(files[number].size_bytes for number in small)
        names = {str(number): files[number] for number, all_ in zip(small, so_far, strict=True) if all_ <= ALL_BYTES}
        self._cache.fetch({name: FilePiece(entry, FILE_BYTES) for name, entry in names.items()})
        packed = (self._cache.understood(name, self._packed) for name in reversed(names))
        return [
            {name: list(_unpacked(rows)) for name, rows in each.items() if only is None or name in {only, "tokens"}}
            for each in packed
            if each
        ]

    def _packed(self, blob: Blob) -> dict[str, bytes]:
        curves = (json_object(blob.body) or {}).get("curves")
        named = islice(curves.items(), CURVES_MOST) if isinstance(curves, dict) else ()
        found = {
            fit(mask_tokens(self._mask(one_line(name))), NAME_LIMIT): array("d", _read(rows)) for name, rows in named
        }
        return {name: rows.tobytes() for name, rows in found.items() if rows}


def _read(rows: object) -> Iterator[float]:
    for row in rows[-ROWS_MOST:] if isinstance(rows, list) else ():
        if not isinstance(row, list) or not 3 <= len(row) <= _ITEMS:
            continue
        if (
            list(map(type, row[:3])) == _USUAL
            and 0 <= row[0] <= _LAST_S
            and abs(row[1]) <= _LAST_STEP
            and (type(row[-1]) is type(row[-2]) is float or len(row) == 3)
        ):
            # Nearly all are, and large files have many.
            yield from row if len(row) == _ITEMS else (*row[:3], row[2], row[2])
            continue
        at, step, mean = finite(row[0]), whole(row[1]), number(row[2])
        if at is None or not 0 <= at <= _LAST_S or step is None or mean is None:
            continue
        bounds = [finite(each) for each in row[3:]]
        least, greatest = bounds if len(bounds) == 2 and None not in bounds else (mean, mean)
        yield from (at, float(step), mean, least, greatest)  # type: ignore[misc]


def _unpacked(packed: bytes) -> Iterator[CurveRow]:
    values = array("d")
    values.frombytes(packed)
    numbers = iter(values)
    return (CurveRow(*row) for row in zip(*[numbers] * _ITEMS, strict=True))


@dataclass
class _Cell:
    """What the rows in one cell of the axis come to."""

    at: float = 0.0
    step: float = 0.0
    rows: dict[str, list[CurveRow]] = field(default_factory=dict)

    def add(self, name: str, row: CurveRow) -> None:
        if row.at >= self.at:
            self.at, self.step = row.at, row.step
        self.rows.setdefault(name, []).append(row)

    def value(self, name: str) -> CurveRow | None:
        rows = self.rows.get(name)
        if not rows:
            return None
        odd = next((row.mean for row in rows if not isfinite(row.mean)), None)
        # Each divided first: the sum of the largest numbers is infinite.
        mean = sum(row.mean / len(rows) for row in rows) if odd is None else odd
        known = [(row.least, row.greatest) for row in rows if isfinite(row.least) and isfinite(row.greatest)]
        least, greatest = min((low for low, _ in known), default=inf), max((high for _, high in known), default=-inf)
        return CurveRow(self.at, self.step, mean, least, greatest)


def curves_table(
    attempts: Sequence[Mapping[str, Sequence[CurveRow]]],
    points: Sequence[Point],
    asked: CurvesAsked,
) -> Json:
    """Columns of one length, as ``points_document`` has them, with those of the metrics by name, and of each curve the
    least and the greatest values where they differ. ``points`` are of the heartbeat; those that are newer than all that
    attempts keep stand behind it. Pure."""
    by, window = asked.by, asked.window
    curves = _together([*attempts, _newer(attempts, points)], by)
    if asked.only is not None:
        curves = {name: rows for name, rows in curves.items() if name in {asked.only, "tokens"}}
    place = CurveRow._fields.index(by)
    places = [row[place] for rows in curves.values() for row in rows]
    first, last = min(places, default=0.0), max(places, default=0.0)
    margin = 0.0 if window is None else (window[1] - window[0]) * _MARGIN
    from_, to = (first, last) if window is None else (window[0] - margin, window[1] + margin)
    cells: dict[int, _Cell] = {}
    for name, rows in curves.items():
        for row in rows:
            if from_ <= row[place] <= to:
                number = min(CELLS - 1, int((row[place] - from_) / (to - from_) * CELLS)) if to > from_ else 0
                cells.setdefault(number, _Cell()).add(name, row)
    return {"by": by, "first": first, "last": last, **_columns([cells[number] for number in sorted(cells)], curves)}


def _columns(cells: Sequence[_Cell], names: Iterable[str]) -> Json:
    found = {name: [cell.value(name) for cell in cells] for name in names}
    mean = {name: [None if each is None else rounded(each.mean) for each in column] for name, column in found.items()}
    bands = {
        name: column for name, column in found.items() if any(each and each.least < each.greatest for each in column)
    }
    bound = {
        which: {name: [_bound(each, which) for each in column] for name, column in bands.items()}
        for which in ("least", "greatest")
    }
    places = [Point(datetime.fromtimestamp(cell.at, timezone.utc), int(cell.step)) for cell in cells]
    nothing = [None] * len(cells)
    return {
        "at": [round(cell.at, 3) for cell in cells],
        "step": [int(cell.step) for cell in cells],
        **{name: mean.get(name, nothing) for name in _OWN},
        "steps_per_s": speeds(places),
        "metrics": {name: column for name, column in mean.items() if name not in _OWN},
        **bound,
    }


def _bound(row: CurveRow | None, which: str) -> float | str | None:
    value: float = inf if row is None else getattr(row, which)
    return rounded(value) if isfinite(value) else None


def _newer(attempts: Sequence[Mapping[str, Sequence[CurveRow]]], points: Sequence[Point]) -> dict[str, list[CurveRow]]:
    """The points of the heartbeat that are newer than all that is kept."""
    kept = max((row.at for curves in attempts for rows in curves.values() for row in rows), default=-inf)
    found: dict[str, list[CurveRow]] = {}
    for point in points:
        at = point.at.timestamp()
        for name, value in {"loss": point.loss, "learning_rate": point.learning_rate, **point.metrics}.items():
            # Rows are rounded to milliseconds.
            if value is not None and at > kept + 0.001:
                found.setdefault(name, []).append(CurveRow(at, float(point.step), value, value, value))
    return found


def _together(parts: Sequence[Mapping[str, Sequence[CurveRow]]], by: Axis) -> dict[str, list[CurveRow]]:
    """The curves of all attempts. By step, those that training took again later are left out."""
    found: dict[str, list[CurveRow]] = {}
    limit = inf
    for part in reversed(parts):
        steps = [row.step for rows in part.values() for row in rows]
        for name, rows in part.items():
            found[name] = [*_standing(rows, limit if by == "step" else None), *found.get(name, ())]
        limit = min(limit, *steps) if steps else limit
    return found


def _standing(rows: Sequence[CurveRow], limit: float | None) -> list[CurveRow]:
    if limit is None:
        return sorted(rows)
    kept = []
    for row in sorted(rows, reverse=True):
        if row.step < limit:
            limit = row.step
            kept.append(row)
    return kept[::-1]
