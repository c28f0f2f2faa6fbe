"""Selects the runs that ids and globs name, each with its current view."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from lastbeat.model.as_json import Json
from lastbeat.model.runid import RECORD, is_run_id, waiting_record
from lastbeat.model.silence import is_pattern
from lastbeat.model.status import Status
from lastbeat.model.view import RunView
from lastbeat.settings import Settings
from lastbeat.stores import run_names
from lastbeat.stores.port import Store, StoreError
from lastbeat.views.one_run import run_watch

_THREADS: Final = 8
_UNSEEN: Final = "_watchdog/unseen/"


@dataclass(frozen=True, slots=True)
class ChosenRun:
    """One selected run with its current view."""

    run_id: str
    view: RunView | None
    """None if the run was never seen and has only a record."""
    curves: Json | None = None
    """What the run keeps of its curves, if that was asked for."""

    @property
    def status(self) -> str:
        """The status for people."""
        return self.view.row.shown if self.view is not None else "never seen"

    @property
    def beat_s(self) -> float | None:
        """Seconds since the last heartbeat if the run is alive, else None."""
        view = self.view
        if view is None or view.row.status is not Status.RUNNING or view.row.beat_at is None:
            return None
        ago_s = (view.at - view.row.beat_at).total_seconds()
        return ago_s if ago_s <= (view.stale_s or 0.0) else None

    @property
    def job(self) -> str | None:
        """The id of the job if it still runs, as its supervisor last saw it, else None."""
        job = self.view.job.job if self.view is not None and self.view.job is not None else None
        return job.id if job is not None and not job.state.ended else None


def choose(settings: Settings, store: Store, runs: Sequence[str], *, curves: bool = False) -> list[ChosenRun]:
    """The runs of these ids and globs. Raises :class:`StoreError`, also if an id or glob matches no run."""
    names: dict[str, None] = {}
    known: list[str] | None = None
    for each in runs:
        if not is_pattern(each):
            names[each] = None
            continue
        known = known if known is not None else list(_every_name(store))
        covered = [name for name in known if fnmatchcase(name, each)]
        if not covered:
            near = run_names.near_glob(each, known) or "'lastbeat fleet' lists the runs; --root says where they are."
            raise StoreError(f"{each} matches no run in {store.url}", near)
        names.update(dict.fromkeys(sorted(covered)))

    def look(run_id: str) -> ChosenRun:
        watch = run_watch(settings, run_id, at=store)
        view = watch.look(log_lines=0)
        kept = watch.curves() if curves and view is not None and view.keeps_curves else None
        return ChosenRun(run_id, view, kept)

    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(look, names))
    for run in found:
        if run.view is None and store.read(waiting_record(run.run_id), 1) is None and run.run_id in runs:
            raise run_names.unknown(store, run.run_id)
    return found


def _every_name(store: Store) -> Iterator[str]:
    waiting = (entry.key.removeprefix(_UNSEEN).removesuffix(f"/{RECORD}") for entry in store.list(_UNSEEN).entries)
    return (name for name in dict.fromkeys((*store.folders(), *waiting)) if is_run_id(name))
