"""All that is known of one run of a fleet, what of it is still to be read, and whether it is too old to be shown."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from lastbeat.fleet.index import newest_of
from lastbeat.model import runid
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.status import UNWELL, Status
from lastbeat.model.view import SPARK_POINTS
from lastbeat.stores.port import Entry
from lastbeat.views.heartbeats import HeartbeatFields, thinned
from lastbeat.views.log_judge import JudgedRun
from lastbeat.views.standings import Standing
from lastbeat.watch.observe.log_files import is_log

AGAIN_AFTER: Final = 10
"""What was refused is asked for again when it was written, or after so many listings."""
_BEATS: Final = (runid.PROGRESS, runid.METADATA)


@dataclass(frozen=True, slots=True)
class Gist:
    """What a row shows of one heartbeat document."""

    heartbeat: Heartbeat
    losses: tuple[float | None, ...] = ()
    steps_per_s: float | None = None
    tokens_per_s: float | None = None
    eta_s: float | None = None
    report_s: float | None = None
    """The usual seconds from one reported step to the next."""
    fault: str | None = None
    """Why the latest one could not be understood: then all else is of the one before it."""


@dataclass(frozen=True, slots=True)
class UnreadableDocument:
    """What could not be read."""

    version: str
    why: str
    listing: int
    again: bool
    """It may work in a moment."""

    def is_over(self, listing: int) -> bool:
        """Whether it is worth another try."""
        return listing - self.listing >= (1 if self.again else AGAIN_AFTER)


@dataclass(frozen=True, slots=True)
class DocumentRequest:
    """A document of a run that is to be read."""

    run_id: str
    entry: Entry
    name: str
    first: bool
    """Nothing is known of it yet, or what is known is of another time."""
    extra: bool = False
    """The row can do without it."""


@dataclass
class Known:
    """One run. ``files`` are as the last listing had them; what was read is known by the version that it had."""

    run_id: str
    files: Mapping[str, Entry] = field(default_factory=dict)
    memory: Standing | None = None
    memory_version: str | None = None
    record: Standing | None = None
    record_version: str | None = None
    damaged: str | None = None
    """Why the record at ``record_version`` could not be understood."""
    gists: dict[str, Gist] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    """Name → version of the document as it was read."""
    refused: dict[str, UnreadableDocument] = field(default_factory=dict)
    error_text: str = ""
    host_of: int | None = None
    """The attempt that metadata.json was read in."""
    closed: str | None = None
    """Why it could not be looked at in the last listing: then all else is as it was before that."""
    undecided: bool = False
    """Whether only its record can show that it ended too long ago to be listed."""
    stands_still: bool = False
    """Its metadata.json tells whether that is watched, and what it does instead of steps."""
    read_at: int = 0
    """In which listing's time something of it was read last."""
    seems: Standing | None = None
    """What it is by everything but its logs, where no pass has recorded it and nothing is still to be read."""
    judged: JudgedRun | None = None
    """What its logs said last, where no pass has recorded it."""
    looked_at: datetime | None = None
    """When they were last read, or could not be."""

    @property
    def listed_record(self) -> str | None:
        """The version of its record as the listing shows it."""
        entry = self.files.get(runid.RECORD)
        return None if entry is None else entry.version

    @property
    def standing(self) -> Standing | None:
        """What is recorded of it as it lies there now; None: that is not known."""
        version = self.listed_record
        if version is None:
            return None
        if version == self.record_version and self.damaged is None:
            return self.record
        return self.memory if version == self.memory_version else None

    @property
    def last_known(self) -> Standing | None:
        """What was recorded of it when that was last known."""
        return self.standing or self.record or self.memory

    @property
    def explained(self) -> JudgedRun | None:
        """What its logs say, as far as they were read since it is what it ``seems``."""
        found = self.judged
        return found if found is not None and self.seems is not None and found.seems is self.seems.status else None

    @property
    def explainable(self) -> bool:
        """Whether no pass has recorded it, and its logs or its ``_error`` may say why it is what it seems, or that it
        failed."""
        if self.seems is None or (self.seems.status.ended and self.seems.status not in UNWELL):
            return False
        return any(name == runid.ERROR or is_log(name) for name in self.files)

    def wishes(self, listing: int, *, all_beats: bool) -> Iterator[DocumentRequest]:
        """What is to be read of it. ``all_beats``: also what a row can do without."""
        if self.closed is not None:
            return
        version = self.listed_record
        if version is None:
            for name in (*_BEATS, runid.ERROR):
                yield from self._wish(name, listing)
            return
        standing = self.standing
        # How far a run came that has no progress.json, its record alone tells.
        partial = standing is not None and (standing.partial or runid.PROGRESS not in self.files)
        enough = standing is not None and not (standing is self.memory and partial)
        if not enough and version != self.record_version:
            yield from self._wish(runid.RECORD, listing)
        if self.undecided:
            return
        yield from self._wish(runid.PROGRESS, listing)
        if runid.PROGRESS not in self.files or self._phaseless:
            yield from self._wish(runid.METADATA, listing)
        elif all_beats or runid.METADATA not in self.versions or self.host_of != self._attempt:
            needed = self.stands_still and runid.METADATA not in self.versions
            for wish in self._wish(runid.METADATA, listing):
                yield wish if needed else replace(wish, first=False, extra=True)

    @property
    def _attempt(self) -> int | None:
        known = self.last_known
        return None if known is None else known.attempt

    @property
    def _phaseless(self) -> bool:
        gist = self.gists.get(runid.PROGRESS)
        return gist is not None and gist.heartbeat.phase is None

    def _wish(self, name: str, listing: int) -> Iterator[DocumentRequest]:
        entry = self.files.get(name)
        if entry is None or token(entry) == self.versions.get(name):
            return
        refused = self.refused.get(name)
        if refused is not None and refused.version == token(entry) and not refused.is_over(listing):
            return
        yield DocumentRequest(self.run_id, entry, name, first=name == runid.RECORD or name not in self.versions)

    def take_told(self, wish: DocumentRequest, told: HeartbeatFields) -> None:
        """A heartbeat document was read."""
        before = self.gists.get(wish.name)
        fault, beat = told.heartbeat.fault, told.heartbeat
        blank = fault is not None and beat.step is None and beat.phase is None and beat.own_time is None
        if blank and before is not None:
            gist = replace(before, fault=fault)
        else:
            losses = tuple(point.loss for point in thinned(told.points, SPARK_POINTS))
            gist = Gist(beat, losses, told.steps_per_s, told.tokens_per_s, told.eta_s, told.report_s, fault)
        self.gists[wish.name] = gist
        self.read(wish)

    def take_record(self, wish: DocumentRequest, standing: Standing | None, fault: str | None) -> None:
        """Its record was read; ``fault`` says why it could not be understood."""
        if standing is not None:
            self.record = standing
        self.damaged, self.record_version = fault, wish.entry.version
        self.read(wish)

    def read(self, wish: DocumentRequest) -> None:
        """``wish`` came true, be it that there is nothing any more."""
        self.versions[wish.name] = token(wish.entry)
        self.refused.pop(wish.name, None)
        if wish.name == runid.METADATA:
            self.host_of = self._attempt

    def see(self, files: Mapping[str, Entry]) -> None:
        """As it was listed: what is there no more is known no more."""
        self.files, self.closed = files, None
        for name in [name for name in self.versions if name not in files]:
            del self.versions[name]
            self.gists.pop(name, None)
        for name in [name for name in self.refused if name not in files]:
            del self.refused[name]
        if runid.ERROR not in files:
            self.error_text = ""
        if runid.RECORD not in files:
            self.record, self.record_version, self.damaged = None, None, None
            self.memory, self.memory_version = None, None


def token(entry: Entry) -> str:
    """Names one writing of a file: its version alone would not, where an equal body has an equal one."""
    return f"{entry.modified.timestamp()}:{entry.version}"


def is_over(known: Known, finished: int | None, at: datetime, since_s: float, stale_s: float) -> bool | None:
    """Whether a run ended, or fell silent and was given up, longer than ``since_s`` before ``at``, as far as its files
    and what is known of its record show without a request. None: only its record can tell. ``finished``: the fleet's
    memory has it as one that ended when nothing younger than this (unix seconds) lay there."""
    files, now = known.files, at.timestamp()
    if known.closed is not None and known.standing is None:
        # A run that cannot be read neither ended nor fell silent, unless passes have seen it end.
        return finished is not None
    record, written = files.get(runid.RECORD), newest_of(files)
    recorded = record.modified.timestamp() if record is not None else 0.0
    if now - max(written, recorded) <= since_s:
        return False
    ends = [files[name].modified.timestamp() for name in runid.SENTINELS if name in files]
    ended = bool(ends) and written - max(ends) <= stale_s
    standing = known.standing
    if standing is not None:
        return (ended or standing.status not in {Status.RUNNING, Status.UNKNOWN}) and not standing.pending
    if ended or (finished is not None and written <= finished):
        return True
    if record is None:
        # It fell silent, and was never watched.
        return now - written > max(since_s, stale_s)
    # A record that was written when the run had been silent for longer than the limit is no record of one that lives.
    return True if recorded - written > stale_s else None
