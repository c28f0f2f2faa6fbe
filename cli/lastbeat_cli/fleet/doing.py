"""What the live table does to a run: silence it, acknowledge it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from lastbeat.model.silence import LEAST_S, MOST_S, InvalidSilenceError, check_why
from lastbeat.model.times import format_duration, parse_span
from lastbeat.settings import Settings
from lastbeat.stores.port import Store, StoreError
from lastbeat.stores.timed_calls import call_with_timeout
from lastbeat.views.acting.acknowledging import acknowledge_runs
from lastbeat.views.acting.silencing import SilenceWish, make_silence
from lastbeat_cli.author import author

WAIT_S: Final = 15.0
"""Longest time, in seconds, that the screen waits for the store."""


def done(do: Callable[[], str]) -> str:
    """What came of ``do``, or why it could not be done."""

    def work() -> str:
        try:
            return do()
        except StoreError as fault:
            return f"{fault}; {fault.advice}" if fault.advice else str(fault)
        except (InvalidSilenceError, ValueError) as fault:
            return str(fault)

    return call_with_timeout(work, WAIT_S, f"the store has not answered for {WAIT_S:.0f} s: it may have been done")


def silence(settings: Settings, store: Store, run_id: str, text: str) -> str:  # noqa: ARG001 - as acknowledge
    """Silence ``run_id`` for the time that ``text`` states."""
    length_s = parse_span(text.strip(), None)
    if length_s is None or not LEAST_S <= length_s <= MOST_S:
        return f"{text.strip()[:40]!r} is no time; use for example 30m, 4h or 7d, and 30d at most"
    made = make_silence(store, SilenceWish(run_id, timedelta(seconds=length_s), ""), author(), store.clock())
    return f"silenced for {format_duration(length_s)}: {made.silence.runs}; lastbeat silence --remove lifts it"


def acknowledge(settings: Settings, store: Store, run_id: str, note: str) -> str:
    """Acknowledge ``run_id`` with ``note``."""
    acknowledge_runs(settings, store, (run_id,), check_why(note), author())
    return f"acknowledged: {run_id}; lastbeat ack --remove withdraws it"
