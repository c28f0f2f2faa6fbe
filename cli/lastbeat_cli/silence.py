"""``silence``: for a while, do not tell people of some runs."""

import getpass
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import click

from lastbeat import wire
from lastbeat.model.silence import (
    LEAST_S,
    MOST_S,
    SILENCES,
    InvalidSilenceError,
    Silence,
    check_glob,
    check_why,
    is_pattern,
)
from lastbeat.model.text import one_line
from lastbeat.model.times import format_duration, format_time, parse_duration
from lastbeat.record.silences import Silences
from lastbeat.stores.port import Store, StoreError
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.document import dump

WHAT = "What is silenced"
EPILOG = """\
\b
Exit status:
  0  it was done
  3  it could not be done; also wrong settings or arguments

\b
Examples:
  lastbeat silence 'mistral-*' --for 2h --why 'moving to the new cluster'
  lastbeat silence --list
  lastbeat silence --lift 'mistral-*'
"""


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a new silence is to be, before the store's time is known."""

    runs: str
    length: timedelta
    why: str


@click.command("silence", cls=options.Grouped, epilog=EPILOG, context_settings=options.HELP)
@options.argument(
    "runs",
    group=WHAT,
    listed=("RUN-GLOB", "Which runs are not told of, quoted."),
    metavar="[RUN-GLOB]",
    required=False,
)
@options.option("--for", "duration", metavar="TIME", group=WHAT, help="How long: 30m, 2h, 1d, 1h30m; at most 30d.")
@options.option("--why", metavar="TEXT", group=WHAT, help="For people who wonder; each record of a run keeps it, too.")
@options.option("--list", "listed", is_flag=True, group=WHAT, help="Show the silences that are not over.")
@options.option("--lift", metavar="ID", group=WHAT, help="End a silence now, by its id or by its glob.")
@options.place
@options.form
def command(  # noqa: PLR0913 - one for each option
    *,
    runs: str | None,
    duration: str | None,
    why: str | None,
    listed: bool,
    lift: str | None,
    as_json: bool,
    verbose: bool,
    **given: str | None,
) -> int:
    """Do not tell people of the runs that RUN-GLOB covers, for a while.

    RUN-GLOB is over whole run ids; upper and lower case differ. * is any text, ? one character, [abc] one of these.

    What happens to these runs is recorded all the same, with who silenced it and why. When the silence ends nothing
    is sent for what happened during it, not even that a run still is TIMED_OUT. Every watcher of this fleet root
    honours a silence, at the latest a minute after it was made or lifted. That a watchdog is blind is always told.
    """
    logs.verbose(on=verbose)
    faults: list[str] = []
    wish: _Wish | None = None
    if (runs is not None) + listed + (lift is not None) != 1:
        faults.append("ask for one thing: RUN-GLOB with --for and --why, or --list, or --lift ID")
    elif runs is not None:
        wish = _wish(runs, duration, why, faults)
    elif (duration, why) != (None, None):
        faults.append("--for and --why belong to a RUN-GLOB that is to be silenced")
    settings = values.settings(given, faults)
    logs.hide(wire.redactor(settings))
    store = wire.store(settings)
    now = store.clock()
    if wish is not None:
        _tell(*_add(store, wish, now), "Silenced", now, as_json=as_json)
    elif lift is not None:
        _tell(_lift(store, lift.strip(), now), [], "Lifted", now, as_json=as_json)
    else:
        held = Silences(store).all(now)
        none = [] if held else [f"no run in {store.url} is silenced"]
        _tell(held, none, "Silenced", now, as_json=as_json)
    return exits.OK


def _wish(runs: str, duration: str | None, why: str | None, faults: list[str]) -> _Wish | None:
    """What was asked for, checked; what is wrong with it is added to ``faults``."""
    length = parse_duration(duration or "")
    checked = ""
    try:
        check_glob(runs)
    except InvalidSilenceError as fault:
        faults.append(str(fault))
    if duration is None:
        faults.append("--for is missing: how long? Use for example --for 2h")
    elif length is None or not LEAST_S <= length.total_seconds() <= MOST_S:
        faults.append(f"--for={duration[:80]!r} is not a time from 1m to 30d; use for example 30m, 2h or 1h30m")
    try:
        checked = check_why(why or "")
    except InvalidSilenceError as fault:
        faults.append(str(fault))
    return None if faults or length is None else _Wish(runs, length, checked)


def _add(store: Store, wish: _Wish, now: datetime) -> tuple[tuple[Silence, ...], list[str]]:
    # What is not to be told is not to be kept either: every watcher's log and record would have it.
    why = logs.redact(wish.why)
    silence = Silence(os.urandom(4).hex(), wish.runs, now, now + wish.length, why, _who())
    damage = Silences(store).add(silence, now)
    notes = [damage] if damage else []
    # Only for a name: whether a pattern covers any run costs a listing of them all.
    if not is_pattern(wish.runs):
        notes += _missing(store, wish.runs)
    return (silence,), notes


def _missing(store: Store, run_id: str) -> Iterator[str]:
    """What is to be said where there is no such run, or nobody can tell: the silence stands all the same."""
    try:
        if not store.list(f"{run_id}/", limit=1).entries:
            yield f"there is no run {run_id} in {store.url} yet"
    except StoreError as fault:
        yield f"whether there is a run called {run_id} could not be seen: {fault}"


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container's user often has no name.
        user = str(os.getuid()) if hasattr(os, "getuid") else "somebody"
    return one_line(f"{user}@{platform.node() or 'unknown'}")[:100]


def _lift(store: Store, which: str, now: datetime) -> tuple[Silence, ...]:
    lifted = Silences(store).lift(which, now)
    if not lifted:
        where = f"{store.url}/{SILENCES}"
        raise StoreError(f"there is no silence {which[:80]!r} in {where}", "see what there is: lastbeat silence --list")
    return lifted


def _tell(silences: Sequence[Silence], notes: Sequence[str], word: str, now: datetime, *, as_json: bool) -> None:
    # Masked before it is escaped, or a secret with a quote in it would get through.
    if as_json:
        shown = [{key: logs.redact(text) for key, text in _document(each).items()} for each in silences]
        print(dump({"silences": shown, "notes": list(map(logs.redact, notes))}))
        return
    for each in silences:
        until = f"{format_time(each.until.replace(microsecond=0))} ({format_duration(each.until - now)} left)"
        print(one_line(logs.redact(f"{word}: {each.runs} until {until}, id {each.id}, by {each.by}: {each.why}")))
    for note in notes:
        print(one_line(logs.redact(f"Note: {note}")))


def _document(silence: Silence) -> dict[str, str]:
    return {
        "id": silence.id,
        "runs": silence.runs,
        "starts_at": format_time(silence.starts_at) or "",
        "until": format_time(silence.until) or "",
        "why": silence.why,
        "by": silence.by,
    }
