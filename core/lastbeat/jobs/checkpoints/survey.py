"""What lies in a place of checkpoints, and which one a restart takes."""

import os
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.jobs.checkpoints.layouts import (
    SINGLE_FILES,
    TRACKERS,
    CheckpointFiles,
    IncompleteError,
    judge,
    step_in,
    tracked,
)
from lastbeat.model.checkpoint import Checkpoint, CheckpointSurvey, Completeness, Quarantine
from lastbeat.model.times import format_duration
from lastbeat.settings import load, opening
from lastbeat.stores.port import Entry, Store, StoreError

MOST_FILES: Final = 200_000
MOST_CHECKPOINTS: Final = 200
"""Number of newest checkpoints that are judged."""
SETTLED_S: Final = 60.0
"""Age in s of the last write from which a checkpoint counts as finished."""
MARKED_S: Final = 2.0
"""The same age in s for a checkpoint with a marker that is written last."""
CRASH_MARGIN_S: Final = 30.0
"""Least time in s from a checkpoint without a marker to the crash, which may have interrupted its writing."""
_ALIASES: Final = ("latest", "last", "best")
"""Links of these names to a checkpoint show its files a second time."""


def survey_place(
    place: str | os.PathLike[str], *, crashed_at: datetime | None = None, settle_s: float = 2.0
) -> CheckpointSurvey:
    """See :func:`lastbeat.find_checkpoints`."""
    store = opening.place(load(channels=False, training=True), os.fspath(place))
    return survey(store, crashed_at=crashed_at, settle_s=settle_s)


def survey(
    store: Store,
    *,
    crashed_at: datetime | None = None,
    quarantined: Mapping[str, Quarantine] | None = None,
    settle_s: float = 2.0,
    stop_at_first: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> CheckpointSurvey:
    """Look at every checkpoint of ``store``, the newest first. Raises :class:`StoreError` if nothing could be listed.

    ``crashed_at`` is when the last attempt died, by the store's clock; ``quarantined`` has the checkpoints (by name)
    that attempts died on; what was saved again since is looked at as any other. With ``stop_at_first`` nothing older
    than the one that would be taken is looked at.

    1. List all files; those right below the place, and its folders, are candidates.
    2. Order candidates by step, and by time where nothing tells the step.
    3. Judge each by its layout, then by the crash and the quarantine.
    4. List what was written within the last minute again after ``settle_s``: sizes that move are not complete.
    """
    entries, whole, _ = _pages(store, "", ())
    notes = [] if whole else [f"there are more than {MOST_FILES:,} files; only these were looked at"]
    notes += [f"{each.key}: {each.fault}" for each in entries if each.fault is not None][:10]
    faults = any(each.fault is not None for each in entries)
    entries = [each for each in entries if each.fault is None]
    trackers = _trackers(store, entries)
    candidates = sorted(_candidates(entries), key=_order(entries), reverse=True)
    if len(candidates) > MOST_CHECKPOINTS:
        notes.append(f"only the newest {MOST_CHECKPOINTS} of {len(candidates)} were looked at")
    found: list[Checkpoint] = []
    for candidate in candidates[:MOST_CHECKPOINTS]:
        judged = _judged(store, candidate, trackers)
        if judged is None:
            continue
        checkpoint, marked = judged
        if checkpoint.usable:
            checkpoint = _after_crash(checkpoint, marked, crashed_at)
        kept_from = (quarantined or {}).get(checkpoint.name)
        if checkpoint.usable and kept_from is not None and checkpoint.saved_at <= kept_from.at:
            checkpoint = replace(checkpoint, completeness=Completeness.QUARANTINED, why=kept_from.why)
        if checkpoint.usable:
            checkpoint = _settled(store, candidate, checkpoint, settle_s, sleep)
        found.append(checkpoint)
        if stop_at_first and checkpoint.usable:
            break
    chosen = next((each for each in found if each.usable), None)
    return CheckpointSurvey(store.url, tuple(found), tuple(notes), whole and not faults, chosen)


def newly_saved(
    store: Store,
    is_new: Callable[[Checkpoint], bool],
    *,
    skipped: Container[str] = (),
    crashed_at: datetime | None = None,
    over: bool = False,
) -> tuple[tuple[Checkpoint, ...], int]:
    """The complete checkpoints that ``is_new`` says are, the oldest first, and how many listing requests that took: one
    for each 1,000 files, and of a folder whose name is ``skipped`` one in all. Raises :class:`StoreError`.

    This never waits, so a later look finds files that may still change. ``over`` means that all writers have ended;
    ``crashed_at`` as for :func:`survey`.
    """
    entries, _, requests = _pages(store, "", skipped)
    entries = [each for each in entries if each.fault is None]
    found, now = list[Checkpoint](), store.clock()
    trackers: dict[str, str] | None = None
    candidates = sorted(_candidates(entries), key=_order(entries), reverse=True)
    for candidate in candidates[:MOST_CHECKPOINTS]:
        if candidate.name in skipped or not is_new(_unjudged(store, candidate)):
            continue
        if trackers is None:
            trackers = _trackers(store, entries)
        judged = _judged(store, candidate, trackers)
        if judged is None:
            continue
        checkpoint, marked = judged
        if checkpoint.usable and crashed_at is not None:
            checkpoint = _after_crash(checkpoint, marked, crashed_at)
        age_s = (now - checkpoint.saved_at).total_seconds()
        if checkpoint.usable and is_new(checkpoint) and (over or age_s >= (MARKED_S if marked else SETTLED_S)):
            found.append(checkpoint)
    return tuple(reversed(found)), requests


def _unjudged(store: Store, candidate: CheckpointFiles) -> Checkpoint:
    """What its listing tells."""
    return Checkpoint(
        candidate.name,
        f"{store.url.rstrip('/')}/{candidate.name}",
        "folder",
        _step(candidate),
        _saved_at(candidate),
        sum(each.size_bytes for each in candidate.files.values()),
        len(candidate.files),
        Completeness.INCOMPLETE,
        "",
    )


def _pages(store: Store, prefix: str, skipped: Container[str]) -> tuple[list[Entry], bool, int]:
    """The files, whether these are all, and how many requests that took. Where a page ends within a folder that is
    skipped, the rest of it is."""
    entries: list[Entry] = []
    after, requests = "", 0
    while len(entries) < MOST_FILES:
        page, requests = store.list(prefix, after), requests + 1
        entries += page.entries
        if not page.more or not page.entries:
            return entries, True, requests
        after = page.entries[-1].key
        folder, slash, _ = after.partition("/")
        if slash and folder in skipped:
            after = f"{folder}/\U0010ffff"
    return entries, False, requests


def _trackers(store: Store, entries: Iterable[Entry]) -> dict[str, str]:
    """What the tracker files among ``entries`` say."""
    names = {each.key for each in entries}.intersection(TRACKERS)
    return {name: said for name in TRACKERS if name in names and (said := tracked(store, name)) is not None}


def _candidates(entries: Iterable[Entry]) -> list[CheckpointFiles]:
    files: dict[str, dict[str, Entry]] = {}
    for each in entries:
        name, _, rest = each.key.partition("/")
        if rest or name.endswith(SINGLE_FILES):
            files.setdefault(name, {})[rest] = each
    found = [CheckpointFiles(name, each) for name, each in files.items()]
    seen = {_identity(each) for each in found if not _is_alias(each)}
    return [each for each in found if not _is_alias(each) or _identity(each) not in seen]


def _is_alias(candidate: CheckpointFiles) -> bool:
    return candidate.name.partition(".")[0] in _ALIASES


def _identity(candidate: CheckpointFiles) -> frozenset[tuple[str, str]]:
    return frozenset((name, each.version) for name, each in candidate.files.items())


def _saved_at(candidate: CheckpointFiles) -> datetime:
    return max(each.modified for each in candidate.files.values())


def _order(entries: Iterable[Entry]) -> Callable[[CheckpointFiles], tuple[float, datetime]]:
    """By step. What does not tell its step comes right after the latest that was saved before it."""
    steps = sorted((_saved_at(each), step) for each in _candidates(entries) if (step := _step(each)) is not None)

    def place(candidate: CheckpointFiles) -> tuple[float, datetime]:
        at, step = _saved_at(candidate), _step(candidate)
        if step is None:
            return max((known + 0.5 for saved, known in steps if saved <= at), default=-1.0), at
        return float(step), at

    return place


def _step(candidate: CheckpointFiles) -> int | None:
    return step_in(candidate.name.rpartition(".")[0] if candidate.is_file else candidate.name)


def _judged(store: Store, candidate: CheckpointFiles, trackers: Mapping[str, str]) -> tuple[Checkpoint, bool] | None:
    """The candidate as a checkpoint, and whether a marker proves that it is complete."""
    marked = False
    try:
        finding = judge(store, candidate, trackers)
        if finding is None:
            return None
        layout, step, why, marked = finding.layout, finding.step, finding.why, finding.marked
        completeness = Completeness.COMPLETE
    except IncompleteError as incomplete:
        layout, step, why = incomplete.layout, incomplete.step, str(incomplete)
        completeness = Completeness.INCOMPLETE
    except StoreError as error:
        layout, step, why = "folder", _step(candidate), str(error)
        completeness = Completeness.UNREADABLE
    listed = _unjudged(store, candidate)
    return replace(listed, layout=layout, step=step, completeness=completeness, why=why), marked


def _after_crash(checkpoint: Checkpoint, marked: bool, crashed_at: datetime | None) -> Checkpoint:
    if marked or crashed_at is None:
        return checkpoint
    margin = timedelta(seconds=CRASH_MARGIN_S)
    if checkpoint.saved_at <= crashed_at - margin:
        return checkpoint
    before = format_duration(max(crashed_at - checkpoint.saved_at, timedelta()))
    why = f"last written {before} before the crash, which may have cut it off, and no marker says that it is whole"
    return replace(checkpoint, completeness=Completeness.INCOMPLETE, why=why)


def _settled(
    store: Store, candidate: CheckpointFiles, checkpoint: Checkpoint, settle_s: float, sleep: Callable[[float], None]
) -> Checkpoint:
    """The checkpoint, unless its files still change."""
    age_s = (store.clock() - checkpoint.saved_at).total_seconds()
    if settle_s <= 0 or age_s > SETTLED_S:
        return checkpoint
    sleep(settle_s)
    if candidate.is_file:
        blob = store.read(candidate.name, 1)
        now = {candidate.name: blob.version} if blob is not None else {}
    else:
        entries, *_ = _pages(store, f"{candidate.name}/", ())
        now = {each.key: each.version for each in entries if each.fault is None}
    if now == {each.key: each.version for each in candidate.files.values()}:
        return checkpoint
    return replace(checkpoint, completeness=Completeness.INCOMPLETE, why="its files still change: it is being written")
