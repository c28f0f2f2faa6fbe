"""The curves that an attempt keeps in ``curves/{attempt}.json``: 1,500 to 3,000 points each, from as many values.

    value ──► the open bucket: mean, least, greatest ──► closed after ``width`` values
      ──► 3,000 buckets: each two become one, and the width doubles

Object stores cannot append, so the document is written whole, but seldom: progress.json has the newest points.
"""

import json
from array import array
from collections.abc import Iterator
from math import inf, isfinite
from time import monotonic
from typing import Final

from lastbeat.model.json_values import json_number
from lastbeat.model.runid import curves_key
from lastbeat.training.sdk.beat_tasks import Beat, BeatTask, RunStart
from lastbeat.training.sdk.documents import delete_if_allowed

MOST_BUCKETS: Final = 3000
"""A curve with this many is halved."""
MOST_CURVES: Final = 20
"""Curves that an attempt keeps at most: the first that a run reports."""
EVERY_S: Final = 120.0
"""Least time in s between two writes of the document."""
BYTES_A_SECOND: Final = 4096
"""A large document is written less often, so that on average it takes at most this many bytes a second."""
MOST_BYTES: Final = 3 * 1024 * 1024
"""All curves are halved until the document is no larger."""
KEPT_ATTEMPTS: Final = 8
"""The documents of older attempts are deleted."""
_FIELDS: Final = 6
Bucket = tuple[float, float, float, float, float, float]
"""Unix time and step of its last value, mean, least, greatest, and number of values. A mean that is not finite stands
for a value that is not; the least and the greatest are of the finite ones."""


class KeptCurve:
    """One curve. Packed, because training's process holds all of it."""

    def __init__(self) -> None:
        self._closed = array("d")
        self._open: Bucket | None = None
        self._width = 1
        self._last_step: int | None = None

    def add(self, at: float, step: int, value: float) -> bool:
        """Add a value that is newer than all before. Returns False for a step that is reported again, as at a
        validation: it adds nothing."""
        if step == self._last_step:
            return False
        self._last_step = step
        finite = isfinite(value)
        bucket = (at, float(step), value, value if finite else inf, value if finite else -inf, 1.0)
        self._open = bucket if self._open is None else _merged(self._open, bucket)
        if self._open[-1] >= self._width:
            self._closed.extend(self._open)
            self._open = None
        if len(self._closed) >= MOST_BUCKETS * _FIELDS:
            self.halve()
        return True

    def halve(self) -> None:
        """Let each two neighbours become one."""
        buckets = list(self.buckets())
        pairs = zip(buckets[::2], buckets[1::2], strict=False)
        self._open = buckets[-1] if len(buckets) % 2 else None
        self._closed = array("d", (number for pair in pairs for number in _merged(*pair)))
        self._width *= 2

    def rows(self) -> Iterator[str]:
        """Each bucket as a row of JSON: Unix time, step, mean, and the least and greatest value if they differ."""
        for at, step, mean, least, greatest, _ in self.buckets():
            shown = f"{mean:.6g}" if isfinite(mean) else f'"{json_number(mean)}"'
            band = f",{least:.6g},{greatest:.6g}" if least < greatest else ""
            yield f"[{at:.3f},{step:.0f},{shown}{band}]"

    def buckets(self) -> Iterator[Bucket]:
        numbers = iter(self._closed)
        yield from zip(*[numbers] * _FIELDS, strict=True)
        if self._open is not None:
            yield self._open


def _merged(one: Bucket, other: Bucket) -> Bucket:
    many = one[-1] + other[-1]
    odd = next((each[2] for each in (one, other) if not isfinite(each[2])), None)
    mean = one[2] * (one[-1] / many) + other[2] * (other[-1] / many) if odd is None else odd
    return *other[:2], mean, min(one[3], other[3]), max(one[4], other[4]), many


class KeptCurves(BeatTask):
    """The curves of one run, filled with each progress.json and written by rank 0."""

    purpose = "store its curves"

    def __init__(self, every_s: float = EVERY_S, most_bytes: int = MOST_BYTES) -> None:
        self._every_s, self._most_bytes = every_s, most_bytes
        self._curves: dict[str, KeptCurve] = {}
        self._is_new = False
        self._due = monotonic() + every_s
        self._deleted = False

    def begin(self, start: RunStart) -> None:
        start.run.curves = self

    def add(self, name: str, at: float, step: int, value: float | str | None) -> None:
        """Add a value at Unix time ``at``, if there is one, to the curve ``name``."""
        if value is None or (name not in self._curves and len(self._curves) >= MOST_CURVES):
            return
        self._is_new |= self._curves.setdefault(name, KeptCurve()).add(at, step, float(value))

    def buckets(self, name: str) -> list[Bucket]:
        """What a curve has so far, oldest first."""
        curve = self._curves.get(name)
        return [] if curve is None else list(curve.buckets())

    def write(self, beat: Beat) -> None:
        if beat.attempt is None or not self._is_new or (beat.ending is None and monotonic() < self._due):
            return
        while len(body := self._document(beat)) > self._most_bytes:
            for curve in self._curves.values():
                curve.halve()
        # Set first: a store that refuses it is not asked with each beat.
        self._due = monotonic() + max(self._every_s, len(body) / BYTES_A_SECOND)
        beat.store.write(beat.folder + curves_key(beat.attempt), body)
        self._is_new = False
        if not self._deleted and beat.attempt > KEPT_ATTEMPTS:
            delete_if_allowed(beat.store, beat.folder + curves_key(beat.attempt - KEPT_ATTEMPTS))
        self._deleted = True

    def _document(self, beat: Beat) -> bytes:
        # Row by row: json.dumps of the whole would hold Python's lock, and training with it, for a tenth of a second.
        head = json.dumps({"run_id": beat.run.run_id, "attempt": beat.attempt, "start_time": beat.start_time})
        curves = (f"{json.dumps(name)}: [{','.join(curve.rows())}]" for name, curve in self._curves.items())
        return f'{head[:-1]}, "curves": {{{", ".join(curves)}}}}}'.encode()
