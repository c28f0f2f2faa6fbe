"""The names of a fleet's runs, and what to advise where a name or a glob matches none."""

from collections.abc import Sequence
from typing import Final

from lastbeat.model.text import did_you_mean, near_names
from lastbeat.stores.port import Store, StoreError
from lastbeat.stores.timed_calls import call_with_timeout

_MOST_NAMES: Final = 20_000
"""Most run names that are compared for a suggestion."""
_PATIENCE_S: Final = 5.0
"""Longest time, in seconds, to list run names."""


def unknown(store: Store, run_id: str, commands: Sequence[str] = ()) -> StoreError:
    """The error for a run that does not exist, with ``commands`` or else similar names as advice."""
    names = names_in(store) or []
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
    names = names_in(store) or []
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


def names_in(store: Store) -> list[str] | None:
    """The folders below the fleet root that may be runs, or None if they cannot be listed within some seconds."""
    none: list[str] | None = None
    names = call_with_timeout(lambda: list(store.folders()[:_MOST_NAMES]), _PATIENCE_S, none)
    return None if names is None else [name for name in names if not name.startswith("_")]
