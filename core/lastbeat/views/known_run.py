"""What is known of one run of a fleet, which of its documents are to be read, and whether it is too old to be shown."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from lastbeat.fleet.index import newest_of
from lastbeat.model import runid
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.persisted import AnyFloat
from lastbeat.model.status import UNWELL, Status
from lastbeat.model.view import SPARK_POINTS
from lastbeat.stores.port import Entry
from lastbeat.views.heartbeats import HeartbeatFields, thinned
from lastbeat.views.log_judge import JudgedRun
from lastbeat.views.standing import Standing
from lastbeat.watch.observe.log_files import is_log

AGAIN_AFTER: Final = 10
"""Number of listings after which a document that the store refused is asked for again, unless it is written before."""
_SHORT: Final = 80
"""Longest text of a configuration that rows keep, in characters."""
_BEATS: Final = (runid.PROGRESS, runid.METADATA)


@dataclass(frozen=True, slots=True)
class Gist:
    """What a row shows of one heartbeat document."""

    heartbeat: Heartbeat
    losses: tuple[AnyFloat | None, ...] = ()
    steps_per_s: float | None = None
    tokens_per_s: float | None = None
    eta_s: float | None = None
    report_s: float | None = None
    """The usual seconds from one reported step to the next."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Texts, numbers and truth values."""
    metrics: Mapping[str, AnyFloat | None] = field(default_factory=dict)
    gpus: int | None = None


Content = Gist | Standing | str | None
"""What a document says: a heartbeat, a record, an ``_error``; None if it was gone."""


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """One document of a run, as it was last read."""

    token: str
    """Names the writing of the file that was read, see :func:`token`."""
    content: Content = None
    """What it says, or what the last one said that could be understood."""
    fault: str | None = None
    """Why the file as it was read could not be understood, or only in part."""


@dataclass(frozen=True, slots=True)
class UnreadableDocument:
    """A document that the store refused."""

    token: str
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
    judged: bool = False
    """The run is judged by it, because no pass has recorded it."""


@dataclass
class KnownRun:
    """One run. ``files`` are as the last listing had them."""

    run_id: str
    files: Mapping[str, Entry] = field(default_factory=dict)
    documents: dict[str, KnownDocument] = field(default_factory=dict)
    """Name → the document as it was last read."""
    refused: dict[str, UnreadableDocument] = field(default_factory=dict)
    indexed: tuple[Standing, str | None] | None = None
    """Its state by the fleet's index, and the version of its record then."""
    host_of: int | None = None
    """The attempt that metadata.json was read in."""
    closed: str | None = None
    """Why the last listing could not look at it: then all else is as it was before that."""
    undecided: bool = False
    """Whether only its record can show that it ended too long ago to be listed."""
    stands_still: bool = False
    """Its metadata.json tells whether that is watched, and what it does instead of steps."""
    read_at: int = 0
    """The listing after which a document of it was last read."""
    seems: Standing | None = None
    """What it is by everything but its logs, where no pass has recorded it and nothing is still to be read."""
    judged: JudgedRun | None = None
    """What its logs said last, where no pass has recorded it."""
    looked_at: datetime | None = None
    """When they were last read, or could not be."""

    @property
    def is_recorded(self) -> bool:
        """Whether it has a record, by the last listing."""
        return runid.RECORD in self.files

    @property
    def standing(self) -> Standing | None:
        """What the record that is there now says, if that is known."""
        entry, read = self.files.get(runid.RECORD), self.documents.get(runid.RECORD)
        if entry is None:
            return None
        if read is not None and read.token == token(entry) and read.fault is None:
            return _standing(read)
        return self.indexed[0] if self.indexed is not None and self.indexed[1] == entry.version else None

    @property
    def last_known(self) -> Standing | None:
        """What was recorded of it when that was last known."""
        return self.standing or _standing(self.documents.get(runid.RECORD)) or (self.indexed and self.indexed[0])

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

    def gist(self, name: str) -> Gist | None:
        """What the heartbeat file ``name`` says, if one was read."""
        read = self.documents.get(name)
        return read.content if read is not None and isinstance(read.content, Gist) else None

    def seen_at(self, name: str, at: datetime) -> datetime:
        """The time of which its file ``name``, as it was last read, speaks: ``at`` if nothing newer was written."""
        entry, read, gist = self.files.get(name), self.documents.get(name), self.gist(name)
        if entry is None or read is None or gist is None or read.token == token(entry):
            return at
        return min(at, gist.heartbeat.modified)

    def recall(self, left: Mapping[str, KnownDocument]) -> bool:
        """Take on what a pass has left of its heartbeats, where that is newer. Returns whether it did."""
        new = {name: each for name, each in left.items() if self._is_newer(name, each)}
        if not self.is_recorded or not new:
            return False
        self.documents |= new
        if runid.METADATA in new:
            self.host_of = self._attempt
        return True

    def _is_newer(self, name: str, left: KnownDocument) -> bool:
        entry, read = self.files.get(name), self.documents.get(name)
        return entry is not None and (read is None or (read.token != left.token == token(entry)))

    @property
    def beats(self) -> dict[str, Heartbeat]:
        """Its heartbeats as they were last read, by name."""
        gists = {name: self.gist(name) for name in _BEATS}
        return {name: gist.heartbeat for name, gist in gists.items() if gist is not None}

    @property
    def error_text(self) -> str:
        """The beginning of its ``_error``."""
        read = self.documents.get(runid.ERROR)
        return read.content if read is not None and isinstance(read.content, str) else ""

    def requests(self, listing: int, *, all_beats: bool) -> Iterator[DocumentRequest]:
        """The documents that are to be read. ``all_beats``: also such as a row can do without."""
        if self.closed is not None:
            return
        if not self.is_recorded:
            for name in (*_BEATS, runid.ERROR):
                yield from (replace(request, judged=True) for request in self._request(name, listing))
            return
        standing = self.standing
        # How far a run came that has no progress.json, its record alone tells.
        partial = standing is not None and (standing.partial or runid.PROGRESS not in self.files)
        from_index = self.indexed is not None and standing is self.indexed[0]
        if standing is None or (from_index and partial):
            yield from self._request(runid.RECORD, listing)
        if self.undecided:
            return
        yield from self._request(runid.PROGRESS, listing)
        progress = self.gist(runid.PROGRESS)
        if runid.PROGRESS not in self.files or (progress is not None and progress.heartbeat.phase is None):
            yield from self._request(runid.METADATA, listing)
        elif all_beats or runid.METADATA not in self.documents or self.host_of != self._attempt:
            needed = self.stands_still and runid.METADATA not in self.documents
            for request in self._request(runid.METADATA, listing):
                yield request if needed else replace(request, first=False, extra=True)

    @property
    def _attempt(self) -> int | None:
        known = self.last_known
        return None if known is None else known.attempt

    def _request(self, name: str, listing: int) -> Iterator[DocumentRequest]:
        entry, read = self.files.get(name), self.documents.get(name)
        if entry is None or (read is not None and read.token == token(entry)):
            return
        refused = self.refused.get(name)
        if refused is not None and refused.token == token(entry) and not refused.is_over(listing):
            return
        yield DocumentRequest(self.run_id, entry, name, first=name == runid.RECORD or read is None)

    def take(self, name: str, entry: Entry, content: Content, fault: str | None = None) -> None:
        """Its file ``name`` was read, as it was listed in ``entry``."""
        before = self.documents.get(name)
        if before is not None and before.content is not None and _says_nothing(content, fault):
            content = before.content
        self.documents[name] = KnownDocument(token(entry), content, fault)
        self.refused.pop(name, None)
        if name == runid.METADATA:
            self.host_of = self._attempt

    def see(self, files: Mapping[str, Entry]) -> None:
        """Take ``files`` as the present listing. What is there no more is known no more."""
        self.files, self.closed = files, None
        for known in (self.documents, self.refused):
            for name in known.keys() - files.keys():
                del known[name]
        if runid.RECORD not in files:
            self.indexed = None


def gist_of(told: HeartbeatFields) -> Gist:
    """What a row shows of a heartbeat document."""
    losses = tuple(point.loss for point in thinned(told.points, SPARK_POINTS))
    beat, seen = told.heartbeat, told.resources.gpus if told.resources is not None else ()
    more = {"learning_rate": told.learning_rate, "epoch": told.epoch}
    return Gist(
        beat,
        losses,
        told.steps_per_s,
        beat.tokens_per_s,
        told.eta_s,
        told.report_s,
        config={key: each for key, each in told.config.items() if not isinstance(each, str) or len(each) <= _SHORT},
        metrics={**{key: each for key, each in more.items() if each is not None}, **told.metrics},
        gpus=(beat.world_size or len(seen)) if seen else None,
    )


def _standing(read: KnownDocument | None) -> Standing | None:
    return read.content if read is not None and isinstance(read.content, Standing) else None


def _says_nothing(content: Content, fault: str | None) -> bool:
    """Whether a document is gone, damaged as a whole, or a heartbeat without anything that could be understood."""
    if not isinstance(content, Gist):
        return content is None
    beat = content.heartbeat
    return fault is not None and beat.step is None and beat.phase is None and beat.own_time is None


def token(entry: Entry) -> str:
    """Names one writing of a file: its version alone would not, where an equal body has an equal one."""
    return f"{entry.modified.timestamp()}:{entry.version}"


def is_over(known: KnownRun, finished: int | None, at: datetime, since_s: float, stale_s: float) -> bool | None:
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
