"""The one run that was named on the command line, and what to say where there is none of that name."""

import threading
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from lastbeat.model.runid import InvalidRunIdError, check_run_id
from lastbeat.settings import Settings
from lastbeat.stores.port import MissingStoreError, Store, StoreError
from lastbeat_cli import logs, options, values

WHAT: Final = "Which run"
argument = options.argument(
    "run", group=WHAT, listed=("RUN", "Its id: its folder's name below the fleet root."), metavar="RUN"
)
"""The run, listed with the options."""
EXITS: Final = """\
  0  RUNNING without conditions, or SUCCEEDED
  1  RUNNING (WARNING), SUCCEEDED with a loss that is no number, or silent for too long and judged by nobody
  2  FAILED, TIMED_OUT or CANCELLED
  3  there is no such run, or it could not be seen; also wrong settings or arguments
  141  whoever read the pipe left, as after head"""
"""What the status of a command that shows one run means."""
_MOST_NAMES: Final = 20_000
_PATIENCE_S: Final = 5.0


def read(run_id: str, given: Mapping[str, str | None], faults: list[str]) -> Settings:
    """The settings, from now on with their secrets masked. Raises :class:`SettingsError` with ``faults`` and all else
    that is wrong with what was asked for, before any I/O."""
    try:
        check_run_id(run_id)
    except InvalidRunIdError as fault:
        faults.append(str(fault))
    settings = values.settings(given, faults)
    logs.follow(settings)
    return settings


def unknown(store: Store, run_id: str) -> StoreError:
    """There is no such run: what there is instead."""
    names = _names(store)
    if run_id in names:
        return StoreError(
            f"there is no run {run_id} in {store.url}: its folder holds nothing that a run writes",
            "Training writes metadata.json there by lastbeat.run, 'lastbeat exec' or 'lastbeat beat'.",
        )
    advice = _suggestion(run_id, names) or "'lastbeat fleet' lists the runs; --root says where they are."
    return StoreError(f"there is no run {run_id} in {store.url}", advice)


def suggestion(store: Store, run_id: str) -> str | None:
    """``Did you mean …?`` for a run that nobody has seen; None where no run is called nearly so, or it is there."""
    names = _names(store)
    return None if run_id in names else _suggestion(run_id, names)


def _suggestion(run_id: str, names: Sequence[str]) -> str | None:
    begun = sorted((name for name in names if name.startswith(run_id)), key=len)
    near = [*begun, *(name for name in get_close_matches(run_id, names, cutoff=0.6) if name not in begun)][:3]
    return f"Did you mean {' or '.join(near)}?" if near else None


def missing(fault: MissingStoreError) -> StoreError:
    """There is not even a fleet root."""
    return StoreError(str(fault), fault.advice or "--root, or MONITORING_ROOT, says where the runs are")


def _names(store: Store) -> list[str]:
    """The folders below the fleet root, as far as they are to be had within some seconds: this is a courtesy."""
    found: list[str] = []

    def ask() -> None:
        try:
            found.extend(store.folders()[:_MOST_NAMES])
        except StoreError:
            return

    asking = threading.Thread(target=ask, name="names", daemon=True)
    asking.start()
    asking.join(_PATIENCE_S)
    return [name for name in found if not name.startswith("_")]
