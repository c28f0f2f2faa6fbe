"""A run that was named on the command line, and what to say where there is none of that name."""

import threading
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import click

from lastbeat import settings as configuration
from lastbeat import wire
from lastbeat.model.runid import InvalidRunIdError, check_run_id
from lastbeat.settings import Settings, SettingsError
from lastbeat.stores.port import MissingStoreError, Store, StoreError
from lastbeat_cli import logs, options

if TYPE_CHECKING:
    from lastbeat.views.one_run import RunWatch

WHAT: Final = "Which run"
_MOST_NAMES: Final = 20_000
_PATIENCE_S: Final = 5.0


class RunArgument(click.Argument):
    """The run, listed with the options, by any version of click."""

    group = WHAT

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:  # noqa: ARG002 - click's face
        return "RUN", "Its id: its folder's name below the fleet root."


def read(run_id: str, given: Mapping[str, str | None], faults: list[str]) -> Settings:
    """The settings, from now on with their secrets masked. Raises :class:`SettingsError` with ``faults`` and all else
    that is wrong with what was asked for, before any I/O."""
    try:
        check_run_id(run_id)
    except InvalidRunIdError as fault:
        faults.append(str(fault))
    try:
        settings = configuration.load(options.arguments(given))
    except SettingsError as wrong:
        raise SettingsError([*faults, *wrong.faults]) from None
    if faults:
        raise SettingsError(faults)
    logs.hide(wire.redactor(settings))
    return settings


def watch(settings: Settings, store: Store, run_id: str) -> "RunWatch":
    """What looks at the run."""
    from lastbeat.views.one_run import RunWatch  # noqa: PLC0415 - what reads it is not needed for --help

    return RunWatch(
        store,
        settings.policy,
        run_id,
        mask=wire.redactor(settings),
        link=wire.console_link(settings, run_id),
        catalogue=wire.signals(settings, places=True),
    )


def unknown(store: Store, run_id: str) -> StoreError:
    """There is no such run: what there is instead."""
    names = _names(store)
    begun = sorted((name for name in names if name.startswith(run_id)), key=len)
    near = [*begun, *(name for name in get_close_matches(run_id, names, cutoff=0.6) if name not in begun)][:3]
    advice = (
        f"Did you mean {' or '.join(near)}?" if near else "'lastbeat fleet' lists the runs; --root says where they are."
    )
    return StoreError(f"there is no run {run_id} in {store.url}", advice)


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
    return [name for name in found if not name.startswith(("_", "."))]


def whole(name: str, text: str, faults: list[str], most: int) -> int:
    """A whole number of lines; what is wrong with it is added to ``faults``."""
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most:
        return int(text)
    faults.append(f"{name}={text[:40]!r} is not a whole number up to {most:,}; use for example {name} 100")
    return 0
