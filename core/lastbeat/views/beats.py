"""A run's heartbeat files as people are shown them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lastbeat.model import runid
from lastbeat.model.document_field import declared
from lastbeat.model.observation import Seen
from lastbeat.model.times import format_time
from lastbeat.model.view import HeartbeatFile
from lastbeat.views.file_cache import CachedFile, FileCache
from lastbeat.views.heartbeats import HeartbeatFields, read_told
from lastbeat.views.safe import Safe

NAMES = (runid.METADATA, runid.PROGRESS)
_MOST_RANKS: Final = 10**7
"""A larger world is a mistake."""


@dataclass(frozen=True)
class Beats:
    """What both heartbeats say."""

    metadata: HeartbeatFields | None = None
    progress: HeartbeatFields | None = None
    """The source of progress: progress.json, or a metadata.json with a step. None if it is of an earlier attempt."""
    shown: tuple[HeartbeatFile, ...] = ()
    world_size: int | None = None
    notes: tuple[str, ...] = ()


def heartbeat_fields(cache: FileCache, mask: Callable[[str], str]) -> dict[str, HeartbeatFields]:
    """What each heartbeat says that ``cache`` could read, by name."""
    found = {name: cache.understood(name, lambda blob: read_told(blob, mask)) for name in NAMES}
    return {name: each for name, each in found.items() if each is not None}


def beats_of(
    got: Mapping[str, CachedFile], told: Mapping[str, HeartbeatFields], seen: Seen | None, safe: Safe
) -> Beats:
    """``told`` is what the heartbeats in ``got`` say. ``seen`` is what counts for this attempt; None if that could not
    be found out, so all of it may."""
    metadata, progress = told.get(runid.METADATA), told.get(runid.PROGRESS)
    notes = []
    if seen is not None:
        if metadata is not None and seen.metadata is None:
            notes.append("metadata.json was written by an earlier attempt, and does not count.")
            metadata = None
        if progress is not None and seen.progress is None:
            notes.append("progress.json was written by an earlier attempt, and does not count.")
            progress = None
    shown = tuple(_beat(name, got[name], told.get(name), safe) for name in NAMES if name in got)
    return Beats(metadata, progress or metadata, shown, _world_size(metadata), tuple(notes))


def _beat(name: str, read: CachedFile, told: HeartbeatFields | None, safe: Safe) -> HeartbeatFile:
    fault = None if read.fault is None else safe.name(f"it could not be read: {read.fault}")
    if told is None:
        return HeartbeatFile(name, read.entry.modified, None, fault or "it went away while it was read")
    beat = told.heartbeat
    return HeartbeatFile(name, beat.modified, beat.own_time, fault or beat.fault, _facts(told))


def _world_size(metadata: HeartbeatFields | None) -> int | None:
    size = metadata.heartbeat.world_size if metadata is not None else None
    return size if size is not None and 0 <= size < _MOST_RANKS else None


def _facts(told: HeartbeatFields) -> dict[str, str]:
    """What people see of it beside its name: the fields that have a label, then others as they stand there."""
    labelled = {
        each.label: _fact(value)
        for part in (told.heartbeat, told)
        for attribute, each in declared(type(part)).items()
        if each.label and (value := getattr(part, attribute)) is not None
    }
    return {**labelled, **{name: text for name, text in told.facts.items() if name not in labelled}}


def _fact(value: object) -> str:
    return str(format_time(value.replace(microsecond=0)) if isinstance(value, datetime) else value)
