"""Makes and lifts silences, for commands, the page and Slack."""

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from lastbeat.model.silence import SILENCES, Silence, is_pattern
from lastbeat.model.times import format_duration, format_time
from lastbeat.settings.own_log import redact
from lastbeat.stores import run_names
from lastbeat.stores.port import Store, StoreError
from lastbeat.watch.record.acknowledging import note_intervention
from lastbeat.watch.record.silences import Silences


class NoSuchSilenceError(StoreError):
    """The silence to lift is over, already lifted, or never existed."""


@dataclass(frozen=True, slots=True)
class SilenceWish:
    """A new silence as the user wants it, checked; its times depend on the store's clock."""

    runs: str
    length: timedelta
    why: str


@dataclass(frozen=True, slots=True)
class SilenceOutcome:
    """The result of making a silence."""

    silence: Silence
    covered: int | None
    """Number of runs that it covers now, or None if runs could not be listed."""
    notes: tuple[str, ...] = ()
    """Notes for the user; if it covers no run, the last one is a warning."""


def make_silence(store: Store, wish: SilenceWish, by: str, now: datetime, *, extends: bool = True) -> SilenceOutcome:
    """Silence these runs, or extend their silence if ``extends``. Raises :class:`StoreError`."""
    # The reason ends up in every watcher's log and record, so secrets are masked before it is stored.
    why = redact(wish.why)
    silence = Silence(os.urandom(4).hex(), wish.runs, now, now + wish.length, why, by)
    made = Silences(store).add(silence, now, extends=extends)
    if made.extended is not None and not extends:
        until = format_time(made.extended.until.replace(microsecond=0))
        what = f"{wish.runs} is silenced already, until {until} by {made.extended.by}"
        raise StoreError(what, f"to prolong that, type /lastbeat silence {wish.runs} {format_duration(wish.length)}")
    notes = [made.note] if made.note else []
    if made.extended is not None:
        until = format_time(made.extended.until.replace(microsecond=0))
        longer = "is silenced for longer now" if made.silence.until > made.extended.until else "stays silenced as long"
        notes.append(f"{wish.runs} was silenced until {until} by {made.extended.by}, and {longer}")
    if not is_pattern(wish.runs):
        length = format_duration(wish.length)
        unnoted = note_intervention(store, wish.runs, by, f"silenced it for {length}: {why}".removesuffix(": "))
        notes += [unnoted] if unnoted is not None else []
    names = run_names.names_in(store)
    if names is None:
        unseen = f"whether it covers any run could not be seen in {store.url}"
        return SilenceOutcome(made.silence, None, (*notes, unseen))
    covered = sum(fnmatchcase(name, wish.runs) for name in names)
    if not covered:
        none = (
            f"matches 0 runs in {store.url}" if is_pattern(wish.runs) else f"there is no run {wish.runs} in {store.url}"
        )
        near = run_names.near_glob(wish.runs, names)
        notes.append(f"{none} yet; the silence stands. {near}".rstrip())
    return SilenceOutcome(made.silence, covered, tuple(notes))


def lift_silence(store: Store, which: str, now: datetime) -> tuple[Silence, ...]:
    """End the silence with this id, or those of exactly this glob. Raises :class:`NoSuchSilenceError` if there is none,
    and :class:`StoreError`."""
    lifted = Silences(store).lift(which, now)
    if not lifted:
        where = f"{store.url}/{SILENCES}"
        raise NoSuchSilenceError(
            f"there is no silence {which[:80]!r} in {where}", "see what there is: lastbeat silence --list"
        )
    return lifted
