"""A run's curve as watchers judge it: its latest points, as progress.json has them or as a watcher saw them."""

from array import array
from collections.abc import Iterator, Mapping
from itertools import islice
from math import isfinite, nan
from typing import Final, NamedTuple

from lastbeat.model.data import dataclass
from lastbeat.model.document_field import PLAUSIBLE, Reading
from lastbeat.model.json_values import finite, whole

MOST_POINTS: Final = 256
"""Points of a document that are read at most."""
_KEPT: Final = 192
"""Points that a watcher keeps of a run whose documents have only the latest one, at most."""
_TAIL: Final = 64
"""The newest of these are never thinned."""
_NORMS: Final = ("grad_norm", "gradient_norm", "train/grad_norm", "train/gradient_norm")
"""Names under which training reports the norm of its gradients."""
_ITEMS: Final = 4


class CurvePoint(NamedTuple):
    """One point. NaN: a number that the point does not have."""

    at: float
    """Unix time in s, by the clock of the curve's source."""
    step: int
    loss: float = nan
    """Also NaN if it is not finite."""
    rate: float = nan
    """The learning rate."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Points in the order in which they were reported, packed: a fleet has many of them."""

    packed: bytes = b""
    packed_norms: bytes = b""
    """Points whose ``loss`` is the norm of the gradients."""

    @property
    def points(self) -> list[CurvePoint]:
        """Its points, oldest first."""
        return list(_unpacked(self.packed))

    @property
    def norms(self) -> list[CurvePoint]:
        """The norm of the gradients, in place of the loss."""
        return list(_unpacked(self.packed_norms))

    @property
    def length(self) -> int:
        """Number of points."""
        return len(self.packed) // (_ITEMS * 8)

    def since(self, at: float) -> "Curve":
        """The part that is not older than Unix time ``at``."""
        return Curve(*(_packed(each for each in _unpacked(part) if each.at >= at) for part in _parts(self)))

    def extended(self, newer: "Curve") -> "Curve":
        """This curve with the points of ``newer`` behind it, thinned: the newest are kept, of older ones every
        other."""
        return Curve(*map(_extended, _parts(self), _parts(newer)))


def curve_point(at: float, step: int, loss: float | None, rate: float | None) -> Curve:
    """A curve of one point."""
    return Curve(_packed([_point(at, step, loss, rate)]))


def read_curve(document: Mapping[str, object], reading: Reading, at: float) -> Curve:
    """The curve in a progress.json: its ``recent``, else its latest step at ``at``. Never raises."""
    points = list(_read(document.get("recent"), reading))
    metric_points, metrics = document.get("metric_points"), document.get("metrics")
    norms = next((list(_read(found, reading)) for found in _named(metric_points) if isinstance(found, list)), [])
    step = whole(document.get("step"))
    if step is not None and step >= 0 and not points:
        points = [_point(at, step, document.get("loss"), document.get("learning_rate"))]
        norms = [_point(at, step, found, None) for found in islice(_named(metrics), 1)]
    return Curve(_packed(points), _packed(norms))


def _named(values: object) -> Iterator[object]:
    if isinstance(values, Mapping):
        yield from (values[name] for name in _NORMS if name in values)


def _read(rows: object, reading: Reading) -> Iterator[CurvePoint]:
    now = reading.modified.timestamp()
    for row in rows[-MOST_POINTS:] if isinstance(rows, list) else ():
        if not isinstance(row, list) or not 2 <= len(row) <= 8:
            continue
        at, step = _time(row[0], now, reading), whole(row[1])
        if at is not None and step is not None and step >= 0:
            loss, rate, *_ = (*row[2:], None, None)
            yield _point(at, step, loss, rate)


def _time(value: object, now: float, reading: Reading) -> float | None:
    if type(value) is float and abs(value - now) < PLAUSIBLE.total_seconds():
        # Nearly all are: no text is parsed for them.
        return value
    at = reading.time(value)
    return None if at is None else at.timestamp()


def _point(at: float, step: int, loss: object, rate: object) -> CurvePoint:
    return CurvePoint(at, step, _finite(loss), _finite(rate))


def _finite(value: object) -> float:
    if type(value) is float:
        return value if isfinite(value) else nan
    known = finite(value)
    return nan if known is None else known


def _parts(curve: Curve) -> tuple[bytes, bytes]:
    return curve.packed, curve.packed_norms


def _packed(points: "Iterator[CurvePoint] | list[CurvePoint]") -> bytes:
    return array("d", (value for point in points for value in point)).tobytes()


def _unpacked(packed: bytes) -> Iterator[CurvePoint]:
    values = array("d")
    values.frombytes(packed)
    for place in range(0, len(values), _ITEMS):
        at, step, loss, rate = values[place : place + _ITEMS]
        yield CurvePoint(at, int(step), loss, rate)


def _extended(before: bytes, newer: bytes) -> bytes:
    known = list(_unpacked(before))
    known += [each for each in _unpacked(newer) if not known or each[:2] != known[-1][:2]]
    if len(known) > _KEPT:
        old = known[:-_TAIL]
        known = [*old[:1], *old[2::2], *known[-_TAIL:]]
    return _packed(known)
