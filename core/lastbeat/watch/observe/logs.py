"""What a run's logs say: they are followed as they grow, and read further back to explain an event."""

import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar

from lastbeat import explain
from lastbeat.model.cause import (
    NOTHING,
    TEXT_LIMIT,
    AttemptInFile,
    Cause,
    Evidence,
    Explanation,
    LostPeer,
    MissingRanks,
)
from lastbeat.model.codec import codec
from lastbeat.model.efa_use import EfaUse
from lastbeat.model.log_report import LogReport
from lastbeat.model.persisted import Form
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import clean, one_line
from lastbeat.stores.port import Entry, Store, StoreError
from lastbeat.watch.observe.log_backfill import NumberedSummary, backfill
from lastbeat.watch.observe.log_files import MOST, is_of_now
from lastbeat.watch.observe.log_following import follow
from lastbeat.watch.observe.log_source import LogSource, LogSources, sources_of
from lastbeat.watch.observe.log_times import last_time
from lastbeat.watch.observe.run import LOG_TAIL_LINES, last_lines
from lastbeat.watch.observe.tailed_log import Readers, TailedLog

if TYPE_CHECKING:
    from lastbeat.explain.causes.log_reader import LogReader
    from lastbeat.explain.causes.log_summary import LogSummary
    from lastbeat.model.signal import Catalogue

log = logging.getLogger(__name__)

ERROR: Final = "_error"
_KNOWN_FILES: Final = 2 * MOST
_NOTES: Final = 10
_EXCERPT_BYTES: Final = 64 * 1024
"""Bytes of a log's end that are read for the lines of an alert."""
_AFTER: Final = 8
"""An excerpt around a line ends fewer than this many lines after it."""
_KEY_CHARS: Final = 200
_END_BYTES: Final = 8192
"""Bytes of a log's end that are searched for the time of its last line."""
T = TypeVar("T")


class LogReadLimits(NamedTuple):
    """Limits of one read of the logs, in bytes and seconds."""

    file_bytes: int = 4 << 20
    """Per file and look. If more is new, the end is read."""
    look_bytes: int = 16 << 20
    """Per look. Files that do not fit come first in the next look."""
    look_s: float = 10.0
    """After this many seconds a look reads no further file."""
    deep_file_bytes: int = 8 << 20
    deep_bytes: int = 32 << 20
    deep_s: float = 30.0


DEFAULT: Final = LogReadLimits()


@dataclass(eq=False, repr=False)
class RunLogsState:
    """How far the logs of a run were read and what they say, for a later process."""

    FORM: ClassVar = Form.SPARSE

    attempt: int | None = None
    """The attempt being read, if known."""
    turn: int = 0
    """Counts looks."""
    report: LogReport = field(default_factory=LogReport)
    """The report without the fields that apply to one look only."""
    files: list[TailedLog] = field(default_factory=list)

    def __post_init__(self) -> None:
        del self.files[_KNOWN_FILES:]


class RunLogs:
    """The logs of one run: those in its folder, and those on this machine that ``places`` match, see
    :mod:`lastbeat.watch.observe.local_logs`.

    Keeps from look to look how far each file was read and what it says; :meth:`state` passes that on to a later
    process. ``catalogue`` is called when there is text to read. ``mask`` hides this watcher's secrets in all its
    results; tokens recognized by their form are always hidden.

    An attempt's start (``since``) is in the store's time.
    """

    def __init__(
        self,
        store: Store,
        run_id: str,
        catalogue: "Callable[[], Catalogue]",
        mask: Callable[[str], str] = str,
        *,
        places: Sequence[str] = (),
        limits: LogReadLimits = DEFAULT,
    ) -> None:
        self.changed = False
        """Whether :meth:`state` has changed since it was last returned or restored."""
        self.attempt: int | None = None
        self._store = store
        self._catalogue = catalogue
        self._mask = mask
        self.places = tuple(places)
        """Paths and patterns of logs on this machine."""
        self.left_out = frozenset[str]()
        """Files that ``places`` match and that are not read, whatever is written there."""
        self._limits = limits
        self._readers = Readers(self._fresh, self._restored)
        self._isolation = Isolation(run_id, self._readers)
        self._files: dict[str, TailedLog] = {}
        self._turn = 0
        self._appeared: set[str] = set()
        """Files that the last look found for the first time."""
        self._report = LogReport()
        self._cold = False
        """The last look was the first."""

    def look(
        self,
        files: Mapping[str, Entry],
        since: datetime | None = None,
        old_until: datetime | None = None,
        *,
        again: bool = False,
    ) -> LogReport:
        """What the logs say now. ``files`` are the run's files by their name below its folder, as just listed; a file
        missing there may still exist. Text stored by ``old_until`` belongs to an earlier attempt. ``again``: this
        repeats the last look, so an unchanged file has not stood still. Never raises.

        1. Find the logs, and sort them by their last read: those that had to wait go first.
        2. An unchanged file costs nothing. If it stood still for a whole look, its last line counts as it is.
        3. Follow a file that has changed, which costs a single read if it merely grew. Once the look has read enough,
           or taken too long, the rest has to wait.
        4. Mark a file that cannot be read, or trips its reader, as unread. It does not affect the others.
        5. If there was new text, combine what all files say.
        """
        sources, notes, hidden = self._sources(files)
        again = again and self._turn > 0
        if not again:
            self._cold, self._appeared = self._turn == 0, set()
            self._turn += 1
        if self._turn > 1:
            self._appeared |= {each.name for each in sources}.difference(self._files)
        self._isolation.begin()
        began, left = time.monotonic(), self._limits.look_bytes
        fresh = False
        unread: list[str] = []
        waiting = 0
        for source in sorted(sources, key=lambda each: self._tailed(each).turn):
            file = self._tailed(source)
            if file.is_read(source):
                if not again:
                    fresh = fresh or (bool(file.partial) and not file.still)
                    file.still, file.notes, file.replaced = True, [], False
                notes += file.notes
                continue
            room = min(self._limits.file_bytes, left)
            if room < self._limits.file_bytes // 4 or time.monotonic() - began >= self._limits.look_s:
                waiting += 1
                unread.append(source.name)
                continue
            try:
                left -= self._follow(file, source, room, since, again=again)
            except StoreError as error:
                notes.append(f"{source.name} could not be read: {error}")
                unread.append(source.name)
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this log's
                self._isolation.trip(file, error)
                continue
            fresh = True
            if old_until is not None and source.modified <= old_until:
                file.begin_attempt()
            notes += file.notes
            if file.cursor is not None and file.cursor.behind:
                unread.append(source.name)
        if waiting:
            notes.append(f"{waiting} log files have to wait for the next look: too much is new at once.")
        self._forget(sources)
        if fresh:
            self.changed = True
            self._report = self._reported()
        tripped = self._isolation.tripped
        unread += [*tripped, *hidden]
        times = [source.modified for source in sources if source.name in unread]
        return replace(
            self._report,
            notes=self._cleaned([*hidden, *notes, *tripped.values()]),
            unread=self._cleaned(unread, most=None),
            unread_at=max(times, default=None),
            hidden=self._cleaned(hidden),
            empty_at=max((source.modified for source in sources if source.size_bytes == 0), default=None),
            cold=self._cold,
        )

    def explain(
        self,
        files: Mapping[str, Entry],
        error_text: str | None,
        since: datetime | None = None,
        *,
        old_until: datetime | None = None,
        exit_code: int | None = None,
        world_size: int | None = None,
    ) -> Explanation:
        """Why the run failed or fell silent, by its logs, within the limits, and by the text of ``_error``. An
        unreadable file is ignored. Never raises.

        1. Look once more, as part of the last look, so that the explanation fits the decision.
        2. Read the files back, see :func:`backfill`, also those that were not listed this time.
        3. Add ``_error``, and explain it all. A rank's silence in its log means something only if all logs were read.
        4. Read when the logs of missing ranks end.
        """
        looked = self.look(files, since, old_until, again=True)
        sources, left_out, hidden = self._sources(files)
        newest = max((source.modified for source in sources), default=None)
        found = [(source, self._tailed(source)) for source in sources if is_of_now(source.modified, newest)]
        listed = {source.name for source in sources}
        gone = [
            file
            for name, file in self._files.items()
            if name not in listed and is_of_now(file.written_at, newest or file.written_at)
        ]
        read = backfill(found, gone, since, self._limits, self._isolation)
        if error_text:
            reader = self._fresh(ERROR, None, 1)
            reader.feed(error_text.encode("utf-8", "replace"))
            reader.finish()
            read.append(NumberedSummary(reader.summary(), 0))
        shifts = {each.summary.file: each.shift for each in read}
        whole = not (looked.unread or left_out or hidden)
        explained = self._explained(
            [each.summary for each in read], shifts, exit_code, world_size=world_size, whole=whole
        )
        return explained.located({}, self._last_times(explained.missing, sources))

    def lines(self, files: Mapping[str, Entry], name: str, around: str = "") -> tuple[str, ...]:
        """The last lines of the log that people know as ``name``, oldest first, or those around its last line with the
        text ``around``; none if the log is gone. Raises :class:`StoreError`."""
        source = next((each for each in self._sources(files).logs if self._shown_name(each) == name), None)
        if source is None:
            return ()
        start = max(0, source.size_bytes - _EXCERPT_BYTES)
        blob = source.read(start, _EXCERPT_BYTES)
        found = last_lines(blob.body, cut_at_start=start > 0, most=_EXCERPT_BYTES) if blob is not None else ()
        lines = [mask_tokens(self._mask(clean(line))) for line in found]
        key = clean(around).strip()[:_KEY_CHARS]
        at = next((index for index in reversed(range(len(lines))) if key and key in lines[index]), len(lines))
        end = min(len(lines), at + _AFTER)
        return tuple(lines[max(0, end - LOG_TAIL_LINES) : end])

    def _last_times(self, missing: MissingRanks | None, sources: Sequence[LogSource]) -> dict[int, datetime]:
        """Rank → the time in the last line of its log that has one, for each of ``missing``'s ranks."""
        if missing is None:
            return {}
        found: dict[int, datetime] = {}
        for each in missing.ranks:
            source = next((source for source in sources if self._shown_name(source) == each.log), None)
            try:
                blob = None if source is None else source.read(max(0, source.size_bytes - _END_BYTES), _END_BYTES)
            except StoreError:
                continue
            at = None if blob is None else last_time(blob.body, blob.modified)
            if at is not None:
                found[each.rank] = at
        return found

    def _shown_name(self, source: LogSource) -> str:
        return mask_tokens(self._mask(one_line(source.name)))

    def begin_attempt(self, number: int | None = None) -> None:
        """Count the text read so far as that of an earlier attempt, except in files that the last look found to be new
        or replaced: those began with the new attempt. Does nothing if ``number`` is the current attempt, or the first
        one named."""
        known, self.attempt = self.attempt, number
        if number is not None and known in {None, number}:
            return
        for file in self._files.values():
            if not file.replaced:
                file.begin_attempt()
        self._report, self.changed = self._reported(), True

    def state(self) -> RunLogsState:
        """The state for :meth:`restore`. Resets :attr:`changed`."""
        self.changed = False
        files = [file.kept() for file in self._files.values()]
        return RunLogsState(self.attempt, self._turn, self._report, files)

    def restore(self, document: Any) -> None:
        """Continue where another process stopped, whose :meth:`state` is ``document`` as JSON data. Raises
        :class:`DamagedError`."""
        state = codec(RunLogsState).read(document)
        self.attempt, self._turn, self._report = state.attempt, state.turn, state.report
        self._files = {file.name: file for file in state.files}
        self.changed = False

    def _follow(self, file: TailedLog, source: LogSource, room: int, since: datetime | None, *, again: bool) -> int:
        notes, replaced = (file.notes, file.replaced) if again else ([], False)
        taken = follow(file, source, room, since, self._readers)
        file.notes = [*notes, *file.notes]
        file.turn, file.replaced = self._turn, file.replaced or replaced or source.name in self._appeared
        return taken

    def _sources(self, files: Mapping[str, Entry]) -> LogSources:
        found = sources_of(self._store, files, self.places, self._files)
        return found._replace(logs=[each for each in found.logs if each.name not in self.left_out])

    def _tailed(self, source: LogSource) -> TailedLog:
        file = self._files.get(source.name)
        if file is None:
            file = self._files[source.name] = TailedLog(source.name)
        return file

    def _forget(self, sources: Sequence[LogSource]) -> None:
        """Drop the oldest files that are no longer listed. Some are kept, for they may come back."""
        listed = {source.name for source in sources}
        gone = sorted((file for name, file in self._files.items() if name not in listed), key=lambda file: file.turn)
        for file in gone[: max(0, len(self._files) - _KNOWN_FILES)]:
            del self._files[file.name]

    def _reported(self) -> LogReport:
        newest = max((file.written_at for file in self._files.values() if file.written_at is not None), default=None)
        files = [file for _, file in sorted(self._files.items()) if is_of_now(file.written_at, newest)]
        read = [(file, summary) for file in files if (summary := self._isolation.summary(file)) is not None]
        if not read:
            return LogReport()
        # Line numbers counted from the middle of a file are useless to another reader.
        shifts = {file.name: 0 if file.shift is not None else None for file, _ in read}
        return _report(
            read,
            self._explained([summary for _, summary in read], shifts),
            lambda line: _masked_line(line, self._mask, shifts),
        )

    def _explained(
        self,
        summaries: "Sequence[LogSummary]",
        shifts: Mapping[str, int | None] | None = None,
        exit_code: int | None = None,
        *,
        world_size: int | None = None,
        whole: bool = False,
    ) -> Explanation:
        if not summaries and exit_code is None:
            return NOTHING
        found = explain.causes.explaining.explain(
            summaries, self._catalogue(), exit_code=exit_code, world_size=world_size, whole=whole
        )
        return _masked(found, self._mask, shifts)

    def _cleaned(self, texts: Sequence[str], most: int | None = _NOTES) -> tuple[str, ...]:
        cleaned = tuple(self._mask(one_line(text)) for text in texts[:most])
        return cleaned if most is None or len(texts) <= most else (*cleaned, f"… and {len(texts) - most} notes more.")

    def _fresh(self, name: str, rank: int | None, line: int) -> "LogReader":
        return explain.causes.log_reader.LogReader(self._catalogue(), name, rank=rank, line=line)

    def _restored(self, document: Any) -> "LogReader":
        return explain.causes.log_reader.LogReader.restore(self._catalogue(), document)


class Isolation:
    """Reads each log on its own: one that trips its reader must not hide the others."""

    def __init__(self, run_id: str, readers: Readers) -> None:
        self.tripped: dict[str, str] = {}
        """Name of a log that tripped since :meth:`begin` → a note about it."""
        self._run_id = run_id
        self.readers = readers

    def begin(self) -> None:
        """Begin a look."""
        self.tripped = {}

    def trip(self, file: TailedLog, error: Exception) -> None:
        """Drop the content of ``file``, which could not be understood. Reading continues from the same place."""
        log.error("%s of %s could not be understood", file.name, self._run_id, exc_info=error)
        file.forget()
        self.tripped[file.name] = f"{file.name} could not be understood ({type(error).__name__})."

    def summary(self, file: TailedLog) -> "LogSummary | None":
        """The summary of this attempt's text in ``file``, or None if there is none."""
        found = self.ask(file, lambda: file.summary(self.readers))
        # If it trips, its content is lost, but the time of its last write is kept.
        return found or self.ask(file, lambda: file.summary(self.readers))

    def ask(self, file: TailedLog, question: Callable[[], T]) -> T | None:
        """The answer to a question about ``file``, or None if that trips its reader. Raises :class:`StoreError`."""
        try:
            return question()
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this log's
            self.trip(file, error)
            return None


def _report(
    read: "Sequence[tuple[TailedLog, LogSummary]]", explanation: Explanation, masked: Callable[[Evidence], Evidence]
) -> LogReport:
    """The files' combined report. Progress comes from the file whose step changed last."""
    written = [file.written_at for file, _ in read if file.written_at is not None]
    seen: dict[str, datetime] = {}
    for _, summary in read:
        for name, at in summary.last_seen.items():
            seen[name] = max(at, seen.get(name, at))
    mark = hashlib.sha256("\0".join(file.mark for file, _ in read).encode("utf-8", "replace")).hexdigest()[:16]
    cause = explanation.cause
    shown = [file.written_at for file, _ in read if cause is not None and file.name == cause.evidence.file]
    report = LogReport(
        written_at=max(written, default=None),
        explanation=explanation,
        last_seen=seen,
        mark=mark,
        shown_at=next(iter(shown), None),
    )
    network = _network(read)
    if network is not None:
        efa, line = network
        report = replace(report, efa=efa, efa_line=None if line is None else masked(line))
    moving = [(file, summary) for file, summary in read if file.progress_at is not None]
    if not moving:
        return report
    file, summary = max(moving, key=lambda each: (each[0].progress_at, each[0].step or 0, each[0].name))
    progress = summary.progress
    return replace(
        report,
        progress_at=file.progress_at,
        step=progress.step,
        total_steps=progress.total_steps,
        loss=progress.loss,
        not_finite_since=progress.not_finite_since,
        learning_rate=progress.learning_rate,
        throughput=progress.throughput,
        throughput_unit=progress.throughput_unit,
    )


def _network(read: "Sequence[tuple[TailedLog, LogSummary]]") -> tuple[EfaUse, Evidence | None] | None:
    """Which network NCCL's traffic uses, and the line that shows it, or None if no file shows a network. The file that
    was written last decides: all ranks of a job use one kind of network, and logs of an earlier attempt may remain. Any
    file may show that EFA is available or requested."""
    told = [(file, summary) for file, summary in read if summary.efa.active is not None and file.written_at is not None]
    if not told:
        return None
    _, last = max(told, key=lambda each: (each[0].written_at, each[1].efa.fallback, each[0].name))
    return replace(last.efa, expected=any(summary.efa.expected for _, summary in read)), last.efa_line


def _masked_line(evidence: Evidence, mask: Callable[[str], str], shifts: Mapping[str, int | None] | None) -> Evidence:
    """As :func:`_masked`."""
    host = None if evidence.host is None else mask_tokens(mask(one_line(evidence.host)))
    text = mask_tokens(mask(clean(evidence.text)))[:TEXT_LIMIT]
    shift = shifts.get(evidence.file, 0) if shifts is not None else 0
    number = 0 if shift is None else max(0, evidence.line - shift)
    file = mask_tokens(mask(one_line(evidence.file)))
    return replace(evidence, line=number, file=file, text=text, host=host)


def _masked(
    explanation: Explanation, mask: Callable[[str], str], shifts: Mapping[str, int | None] | None
) -> Explanation:
    """``explanation`` without secrets and without anything that a terminal would interpret. ``shifts``: file → by how
    much its line numbers exceed those of the current file."""

    def safe(text: str) -> str:
        return mask_tokens(mask(text))

    def line(evidence: Evidence) -> Evidence:
        return _masked_line(evidence, mask, shifts)

    def cause(found: Cause) -> Cause:
        frames = tuple(safe(one_line(frame)) for frame in found.frames)
        return replace(found, evidence=line(found.evidence), hint=safe(clean(found.hint)), frames=frames)

    def attempt(found: AttemptInFile) -> AttemptInFile:
        shift = shifts.get(found.file, 0) if shifts is not None else 0
        return replace(found, file=safe(one_line(found.file)), line=max(0, found.line - (shift or 0)))

    def peer(found: LostPeer) -> LostPeer:
        host = None if found.host is None else safe(one_line(found.host))
        return replace(found, host=host, log=safe(one_line(found.log)))

    def missing(found: MissingRanks) -> MissingRanks:
        ranks = (
            replace(
                each,
                log=safe(one_line(each.log)),
                host=None if each.host is None else safe(one_line(each.host)),
                stack=safe(one_line(each.stack)),
            )
            for each in found.ranks
        )
        return replace(found, ranks=tuple(ranks))

    return replace(
        explanation,
        cause=None if explanation.cause is None else cause(explanation.cause),
        alternatives=tuple(map(cause, explanation.alternatives)),
        downstream=tuple(map(line, explanation.downstream)),
        success=None if explanation.success is None else line(explanation.success),
        peer=None if explanation.peer is None else peer(explanation.peer),
        missing=None if explanation.missing is None else missing(explanation.missing),
        warned=tuple(
            replace(each, evidence=line(each.evidence), hint=safe(clean(each.hint))) for each in explanation.warned
        ),
        attempt=None if explanation.attempt is None else attempt(explanation.attempt),
    )
