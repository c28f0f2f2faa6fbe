"""A fleet and who looks at it: what each look costs, and what it shows."""

from collections import Counter
from typing import Any

from lastbeat.fleet.mark import MarkWriter
from lastbeat.model.view import FleetView, Row
from lastbeat.stores import s3
from lastbeat.views.watching import FleetWatch
from support.memory import MemoryStore
from support.world import World

HOUR = 3600.0


class Bucket(MemoryStore):
    """One that takes money for requests."""

    url = "s3://bucket/runs"
    traits = s3.TRAITS


class Looked(World):
    """A fleet with passes over it, and a table of it. ``paid``: its store takes money for requests."""

    def __init__(self, *, paid: bool = False, **policies: Any) -> None:
        super().__init__(**policies, store=Bucket() if paid else None)
        self._mark = MarkWriter(self.store, self.fleet)
        self.table = self.fresh()

    def fresh(self, **options: Any) -> FleetWatch:
        """Another look, which knows nothing yet."""
        return FleetWatch(self.store, self.policy, **{"threads": 1, **options})

    def passes(self, *, mark: bool = True) -> None:
        """Sweep once, and leave the mark."""
        report = self.sweep()
        if mark:
            self._mark.write(report)

    def beats(self, *run_ids: str, step: int = 1, **fields: Any) -> None:
        """Both heartbeats of these runs; progress.json tells the phase, as the SDK's does."""
        for run_id in run_ids:
            run = self.run(run_id)
            run.beat()
            run.progress(step, **{"phase": "train", **fields})

    def asked(self) -> Counter[str]:
        """What the store was asked since this was asked last: ``list`` and the names of what was read."""
        calls, self.store.calls = self.store.calls, []
        return Counter(operation if operation != "read" else key for operation, key in calls)

    def row(self, run_id: str, view: FleetView | None = None) -> Row:
        view = view or self.table.open()
        return next(row for row in view.rows if row.run_id == run_id)


def settle(watch: FleetWatch, rounds: int = 30) -> FleetView:
    """As many rounds as it takes to read everything."""
    for _ in range(rounds):
        watch.round()
    return watch.view()
