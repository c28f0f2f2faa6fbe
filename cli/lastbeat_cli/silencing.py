"""Making and lifting silences, for the command line and for the page: what is kept, and what people are told of it."""

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from lastbeat.model.silence import SILENCES, Silence, is_pattern
from lastbeat.model.times import format_time
from lastbeat.record.silences import Silences
from lastbeat.stores.port import Store, StoreError
from lastbeat_cli import logs
from lastbeat_cli.run import one_run


class NoSuchSilenceError(StoreError):
    """What was to be lifted is over, lifted already, or never was."""


@dataclass(frozen=True, slots=True)
class SilenceWish:
    """What a new silence is to be, checked, before the store's time is known."""

    runs: str
    length: timedelta
    why: str


@dataclass(frozen=True, slots=True)
class SilenceOutcome:
    """The silence as it stands now."""

    silence: Silence
    covered: int | None
    """How many runs it covers now; None: that could not be seen."""
    notes: tuple[str, ...] = ()
    """What is to be said of it; the last one warns where it covers no run."""


def make_silence(store: Store, wish: SilenceWish, by: str, now: datetime) -> SilenceOutcome:
    """Silence these runs, or silence them for longer. Raises :class:`StoreError`."""
    # What is not to be told is not to be kept either: every watcher's log and record would have it.
    why = logs.redact(wish.why)
    silence = Silence(os.urandom(4).hex(), wish.runs, now, now + wish.length, why, by)
    made = Silences(store).add(silence, now)
    notes = [made.note] if made.note else []
    if made.extended is not None:
        until = format_time(made.extended.until.replace(microsecond=0))
        longer = "is silenced for longer now" if made.silence.until > made.extended.until else "stays silenced as long"
        notes.append(f"{wish.runs} was silenced until {until} by {made.extended.by}, and {longer}")
    names = one_run.run_names(store)
    if names is None:
        unseen = f"whether it covers any run could not be seen in {store.url}"
        return SilenceOutcome(made.silence, None, (*notes, unseen))
    covered = sum(fnmatchcase(name, wish.runs) for name in names)
    if not covered:
        none = (
            f"matches 0 runs in {store.url}" if is_pattern(wish.runs) else f"there is no run {wish.runs} in {store.url}"
        )
        near = one_run.near_glob(wish.runs, names)
        notes.append(f"{none} yet; the silence stands. {near}".rstrip())
    return SilenceOutcome(made.silence, covered, tuple(notes))


def lift_silence(store: Store, which: str, now: datetime) -> tuple[Silence, ...]:
    """End the silence of this id, or those of this very glob. Raises :class:`NoSuchSilenceError` where there is none,
    and :class:`StoreError`."""
    lifted = Silences(store).lift(which, now)
    if not lifted:
        where = f"{store.url}/{SILENCES}"
        raise NoSuchSilenceError(
            f"there is no silence {which[:80]!r} in {where}", "see what there is: lastbeat silence --list"
        )
    return lifted
