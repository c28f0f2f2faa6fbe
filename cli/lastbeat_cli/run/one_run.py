"""The run named on the command line: its exit status, and the error message if there is no such run."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from lastbeat.model.status import Status
from lastbeat.model.text import did_you_mean, near_names
from lastbeat.settings import Settings
from lastbeat.stores.port import Store, StoreError
from lastbeat.training.sdk.timed_calls import call_with_timeout
from lastbeat_cli import exits, options, values

if TYPE_CHECKING:
    from lastbeat.model.view import RunView

WHAT: Final = "Which run"
argument = options.argument("run", "RUN", "Its id: its folder's name below the fleet root.", group=WHAT)
"""The run, listed with the options."""
EXITS: Final = """\
  0  RUNNING without conditions, or SUCCEEDED
  1  RUNNING (WARNING), SUCCEEDED with a loss that is no number, PREEMPTED, or silent for too long, with no pass since
  2  FAILED, TIMED_OUT or CANCELLED
  3  there is no such run, or it could not be read; also wrong settings or arguments
  141  the reader closed the pipe, as head does"""
"""Exit statuses of the commands that show one run, for their help."""
_MOST_NAMES: Final = 20_000
"""Most run names that are compared for a suggestion."""
_PATIENCE_S: Final = 5.0
"""Longest time, in seconds, to list run names."""


def read(run_id: str, given: Mapping[str, str | None], faults: list[str]) -> Settings:
    """The settings; from now on their secrets are masked in output.

    Raises :class:`SettingsError` with ``faults``, a wrong id and wrong settings, before any I/O.
    """
    values.run_id(run_id, faults)
    return values.settings(given, faults)


def status(view: "RunView") -> int:
    """The exit status of ``view`` for Nagios, Icinga or Sensu, see :data:`EXITS`."""
    row = view.row
    if row.status is Status.UNKNOWN:
        return exits.UNKNOWN
    if row.status in {Status.FAILED, Status.TIMED_OUT, Status.CANCELLED}:
        return exits.CRITICAL
    warned = (
        row.conditions or row.status is Status.PREEMPTED or (row.status is Status.RUNNING and row.doubt is not None)
    )
    return exits.WARNING if warned else exits.OK


def unknown(store: Store, run_id: str, commands: Sequence[str] = ()) -> StoreError:
    """The error for a run that does not exist, with ``commands`` or else similar names as advice."""
    names = run_names(store) or []
    if run_id in names:
        return StoreError(
            f"there is no run {run_id} in {store.url}: its folder holds nothing that a run writes",
            "Training writes metadata.json there by lastbeat.run, 'lastbeat exec' or 'lastbeat beat'.",
        )
    advice = (
        did_you_mean(commands)
        or _suggestion(run_id, names)
        or "'lastbeat fleet' lists the runs; --root says where they are."
    )
    return StoreError(f"there is no run {run_id} in {store.url}", advice)


def suggestion(store: Store, run_id: str) -> str:
    """``Did you mean …?`` for an unknown run; empty if no name is similar, or the run exists."""
    names = run_names(store) or []
    return "" if run_id in names else _suggestion(run_id, names)


def near_glob(glob: str, names: Sequence[str]) -> str:
    """``Did you mean …?`` for a glob that matches no run; empty if no name is similar."""
    stem = glob.strip("*?") if not set(glob.strip("*?")) & set("*?[") else glob.partition("*")[0]
    beginnings = {name[: len(stem)]: name for name in sorted(names, reverse=True)}
    near = [beginnings[each] for each in near_names(stem, beginnings, most=3, cutoff=0.7)] if stem else []
    return did_you_mean(near).replace("mean", "mean one for", 1)


def _suggestion(run_id: str, names: Sequence[str]) -> str:
    begun = sorted((name for name in names if name.startswith(run_id)), key=len)
    return did_you_mean([*begun, *(name for name in near_names(run_id, names, most=3) if name not in begun)][:3])


def run_names(store: Store) -> list[str] | None:
    """The folders below the fleet root that may be runs, or None if they cannot be listed within some seconds."""
    none: list[str] | None = None
    names = call_with_timeout(lambda: list(store.folders()[:_MOST_NAMES]), _PATIENCE_S, none)
    return None if names is None else [name for name in names if not name.startswith("_")]
