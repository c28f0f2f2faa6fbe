"""The rows of a fleet as they are, in the order of need."""

from datetime import datetime
from operator import attrgetter

from lastbeat.model.view import Row
from lastbeat.views.order import need, sorted_rows

_told = attrgetter(*Row.__slots__)


class Table:
    """Not for two threads at once."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._needs: dict[str, int] = {}
        self._sorted: tuple[Row, ...] | None = ()

    def put(self, row: Row, at: datetime | None) -> None:
        """``row`` as of ``at``. One that is as it was, in the same need, stays the very same object: by that others see
        what changed."""
        run_id, needs = row.run_id, need(row, at)
        known = self._rows.get(run_id)
        # As tuples, in which a NaN is equal to itself.
        if known is not None and self._needs[run_id] == needs and _told(known) == _told(row):
            return
        self._rows[run_id], self._needs[run_id] = row, needs
        self._sorted = None

    def drop(self, run_id: str) -> None:
        """It is not shown any more."""
        if self._rows.pop(run_id, None) is not None:
            del self._needs[run_id]
            self._sorted = None

    def needs(self, run_id: str) -> int | None:
        """How much a run needs people, see :func:`lastbeat.views.order.need`."""
        return self._needs.get(run_id)

    def rows(self, at: datetime | None) -> tuple[Row, ...]:
        """All of them in the order of need; ``at`` is what they were put in as of."""
        if self._sorted is None:
            self._sorted = sorted_rows(self._rows.values(), at)
        return self._sorted
