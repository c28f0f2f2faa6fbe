"""One who looks at a fleet, in a process of its own: ``python -m bench.views_child``.

For each line of its standard input it does what stands there, and answers with a line of JSON. ``sweep``: a pass, with
its mark. ``open``: the fleet, as a page or a terminal opens it. ``round``: what an interval of watching may do.
``run ID``: the whole view of one run. ``again``: of the same run, a moment later.
"""

import gzip
import json
import sys
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lastbeat.model.view import FleetView
    from lastbeat.views.one_run import RunWatch
    from lastbeat.views.watching import FleetWatch


class Looker:
    """What people look with, as its environment sets it up."""

    def __init__(self) -> None:
        from lastbeat import settings  # noqa: PLC0415 - each process loads its own
        from lastbeat.fleet.configured import configured_sweep  # noqa: PLC0415 - as above
        from lastbeat.settings import opening  # noqa: PLC0415 - each process loads its own
        from lastbeat.stores.counting import Tally  # noqa: PLC0415 - as above
        from lastbeat.views.left_gists import left_for_views  # noqa: PLC0415 - as above
        from lastbeat.views.one_run import run_watch  # noqa: PLC0415 - as above
        from lastbeat.views.watching import fleet_watch  # noqa: PLC0415 - as above

        self._left_for_views = left_for_views
        self._sweep, self._run_watch, self._fleet_watch = configured_sweep, run_watch, fleet_watch
        self._settings, self._tally = settings.load(), Tally()
        self._store = opening.store(self._settings, tally=self._tally)
        self._fleet: FleetWatch | None = None
        self._run: RunWatch | None = None

    def do(self, what: str) -> dict[str, Any]:
        word, _, run_id = what.partition(" ")
        asked, began, cpu = self._tally.counts, time.perf_counter(), time.process_time()
        found = self._done(word, run_id)
        took = {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
        requests = {kind: count for kind, count in self._tally.since(asked).items() if count}
        return {**took, "requests": requests, **(_size(found) if found is not None else {})}

    def _done(self, word: str, run_id: str) -> "FleetView | None":
        if word == "sweep":
            sweep = self._sweep(
                self._settings, (), clock=lambda: datetime.now(timezone.utc), make_views=self._left_for_views
            )
            report = sweep.run()
            if report.blind or not report.complete or report.unreadable_count:
                raise RuntimeError(f"the sweep could not do its work: {report}")
            return None
        if word in {"run", "again"}:
            if word == "run" or self._run is None:
                self._run = self._run_watch(self._settings, run_id, at=self._store)
            if self._run.look() is None:
                raise RuntimeError(f"there is no run {run_id}")
            return None
        if word == "open" or self._fleet is None:
            self._fleet = self._fleet_watch(self._settings, at=self._store)
            view = self._fleet.open()
        else:
            view = self._fleet.round()
        if view.fault is not None or view.notes:
            raise RuntimeError(f"the fleet could not be seen: {view.fault} {view.notes}")
        return view


def _size(view: "FleetView") -> dict[str, Any]:
    from lastbeat.views.documents import fleet_document  # noqa: PLC0415 - as above

    began = time.perf_counter()
    body = json.dumps(fleet_document(view), ensure_ascii=False, separators=(",", ":")).encode()
    packed = gzip.compress(body, 6, mtime=0)
    return {
        "rows": len(view.rows),
        "unread": view.unread,
        "document_bytes": len(body),
        "packed_bytes": len(packed),
        "document_s": time.perf_counter() - began,
    }


def main() -> None:
    looker = Looker()
    for line in sys.stdin:
        print(json.dumps(looker.do(line.strip())), flush=True)


if __name__ == "__main__":
    main()
