"""Acknowledges runs that need attention, for commands, the live table and Slack."""

from collections.abc import Sequence
from dataclasses import replace

from lastbeat.model.record import Acknowledgement
from lastbeat.model.view import RunView
from lastbeat.settings import Settings
from lastbeat.settings.own_log import redact
from lastbeat.stores.port import Store, StoreError
from lastbeat.views.choosing import ChosenRun, choose
from lastbeat.views.order import NEEDS_PEOPLE, need
from lastbeat.watch.record.acknowledging import acknowledge


def acknowledge_runs(
    settings: Settings, store: Store, runs: Sequence[str], note: str, by: str
) -> tuple[list[str], Acknowledgement]:
    """Acknowledge those of ``runs`` that need attention. Returns their ids, and what is recorded of each. Raises
    :class:`StoreError`."""
    needy = _needy(choose(settings, store, runs), runs)
    # The note is read in the record and on the page, so secrets are masked before it is stored.
    about = Acknowledgement(store.clock(), by, redact(note))
    for run_id, view in needy.items():
        acknowledge(store, run_id, replace(about, transition=view.transitions or 0, conditions=tuple(view.conditions)))
    return list(needy), about


def _needy(chosen: Sequence[ChosenRun], asked: Sequence[str]) -> dict[str, RunView]:
    """Those that need attention. Raises :class:`StoreError` if there is none, or if one that was named does not."""
    needy: dict[str, RunView] = {}
    for run in chosen:
        if run.view is None:
            if run.run_id in asked:
                advice = f"wait for it: lastbeat silence {run.run_id} --for 4h; or: lastbeat forget {run.run_id}"
                raise StoreError(f"{run.run_id} has not started: there is nothing to acknowledge", advice)
        elif need(run.view.row, run.view.at) <= NEEDS_PEOPLE:
            needy[run.run_id] = run.view
        elif run.run_id in asked:
            known = run.view.row.acknowledged is not None
            what = "acknowledged already" if known else f"{run.status}: there is nothing to acknowledge"
            raise StoreError(f"{run.run_id} is {what}", f"see it: lastbeat show {run.run_id}")
    if not needy:
        raise StoreError("none of these runs needs attention", "'lastbeat fleet' shows first the runs that do")
    return needy
