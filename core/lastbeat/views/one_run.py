"""One run in depth, looked at again and again: one listing of all its files that people are shown, and reads of what
was written since."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Final

from lastbeat.fleet.mark import read_mark
from lastbeat.model import runid
from lastbeat.model.as_json import Json
from lastbeat.model.policy import Policy
from lastbeat.model.record import Attempt
from lastbeat.model.state import RecordedCause
from lastbeat.model.text import counted
from lastbeat.model.view import Excerpt, Point, Row, RunView, WatchState
from lastbeat.settings import Settings, opening
from lastbeat.stores.port import ConflictError, Entry, Store, StoreError
from lastbeat.views import excerpts, recorded
from lastbeat.views.alerts import alerts, pending
from lastbeat.views.curves import ALL_CURVES, CurveReader, CurvesAsked, attempt_of, curves_table
from lastbeat.views.evidence import EvidenceReader
from lastbeat.views.evidence import alone as evidence_alone
from lastbeat.views.file_cache import CachedFile, FileCache, FilePiece
from lastbeat.views.fleet_index import shown_silence, watched
from lastbeat.views.goodput import with_log
from lastbeat.views.heartbeats import Beats, HeartbeatFields, beats_of, heartbeat_fields, ignoring
from lastbeat.views.judging import Judge, Judged, documents, exceeded, in_force, limits_shown, worry_s
from lastbeat.views.known_run import KnownRun, UnreadableDocument, gist_of, token
from lastbeat.views.ranks import RankReader, standing_out
from lastbeat.views.rows import doubt_of, row, unjudged_end
from lastbeat.views.safe import Safe
from lastbeat.views.standing import CONDITIONS_LIMIT, Standing
from lastbeat.watch import decide
from lastbeat.watch.decide.goodput import goodput
from lastbeat.watch.decide.numbers import LOSS_RISE
from lastbeat.watch.decide.timesheet import restart_waits, watched_from
from lastbeat.watch.observe.listing import RANK_PAGES, RANKS, Folder, rank_of, run_files
from lastbeat.watch.observe.log_files import is_log
from lastbeat.watch.observe.log_observer import LogSettings, log_settings
from lastbeat.watch.observe.run import newest_log
from lastbeat.watch.record.fleet_document import GOOD_FOR_S
from lastbeat.watch.record.limits import FleetLimits
from lastbeat.watch.record.silences import Silences

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastbeat.model.silence import Silence
    from lastbeat.model.status import Status

_TRIES: Final = 3
_LOGS: Final = 96
_NOTE_LIMIT: Final = 500
_SAME_CHARS: Final = 60
_TAIL_MOST: Final = 1024 * 1024
_LINE_BYTES: Final = 256
_CLOSED: Final = 10
_ACTION_LIMIT: Final = 1000
_REASON_LIMIT: Final = 500


@dataclass(frozen=True, slots=True)
class Listed:
    """One run as a listing shows it."""

    files: dict[str, Entry]
    """Its own files and logs, by their name below the run's folder, as :class:`Folder` has them."""
    ranks: dict[int, Entry]
    """Its ranks' heartbeats, by rank."""
    more_ranks: bool = False
    """Whether there were more files in ``ranks/`` than are listed."""
    curves: Mapping[int, Entry] = field(default_factory=dict)
    """The files with the curves of its attempts, by attempt."""
    closed: Mapping[str, StoreError] = field(default_factory=dict)
    """What could not be read, by name, and why; few."""
    dumps_at: datetime | None = None
    """When the newest dump of a flight recorder was stored, as far as listed."""


class _Whole(Folder):
    """A run's folder with the whole entries of its ranks' heartbeats and of its curves."""

    def __init__(self) -> None:
        super().__init__(RANK_PAGES)
        self.beats: dict[int, Entry] = {}
        self.curves: dict[int, Entry] = {}
        self.closed: dict[str, StoreError] = {}

    def see(self, name: str, entry: Entry) -> None:
        rank, attempt = rank_of(name), attempt_of(name)
        if attempt is not None:
            self.curves[attempt] = entry
        elif entry.fault is not None and name.startswith(RANKS[:-1]):
            if len(self.closed) < _CLOSED and (rank is not None or name.rstrip("/") == RANKS[:-1]):
                self.closed[name] = entry.fault
        elif rank is not None:
            self.beats[rank] = entry
        else:
            super().see(name, entry)

    def onward(self, last: str) -> str | None:
        ahead = super().onward(last)
        # Checkpoints may lie before the curves.
        return runid.CURVES if ahead is not None and last < runid.CURVES < ahead else ahead


def list_run(store: Store, run_id: str) -> Listed:
    """One listing: a page holds nearly every run whole. Raises :class:`StoreError`."""
    folder = _Whole()
    files = run_files(store, run_id, folder)
    closed = {name: entry.fault for name, entry in files.items() if entry.fault is not None}
    return Listed(files, folder.beats, folder.ranks_cut, folder.curves, {**closed, **folder.closed}, folder.dumps_at)


class RunWatch:
    """One run as people look at it: what is read once is read again only when the listing shows that it changed.
    ``limits`` are the fleet's, kept up to date by the caller; without them they are read once a minute.

    ``mask`` hides the secrets of who looks; ``link`` is a web address of the run's files; ``catalogue`` says what is
    looked for in the logs of a run that no pass has recorded yet. May be asked by several threads.
    """

    def __init__(  # noqa: PLR0913 - what it looks with, each by its name
        self,
        store: Store,
        policy: Policy,
        run_id: str,
        *,
        mask: "Callable[[str], str]" = str,
        link: str | None = None,
        catalogue: LogSettings | None = None,
        limits: FleetLimits | None = None,
    ) -> None:
        self.run_id = runid.check_run_id(run_id)
        self.ended: Status | None = None
        """How the run had ended as of the last look, if it had: perhaps no pass has recorded that yet."""
        self._store = store
        self._policy = policy
        self._limits = limits or FleetLimits(store, GOOD_FOR_S)
        self._link = link
        self._safe = Safe(mask)
        self._cache = FileCache(store)
        self._judge = Judge(self._cache, self.run_id, mask, catalogue or LogSettings())
        self._ranks = RankReader(store, self._safe)
        self._evidence = EvidenceReader(store, self._safe)
        self._silences = Silences(store)
        self._curves = CurveReader(store, mask)
        self._kept: Mapping[int, Entry] = {}
        self._points: tuple[Point, ...] = ()
        self._lock = Lock()

    def look(self, *, log_lines: int = 40) -> RunView | None:
        """All about the run as of now, with the last ``log_lines`` lines of its newest log; None: there is no such run.

        Raises :class:`StoreError` when the run cannot be seen. What alone could not be read says so in its place.
        """
        with self._lock:
            for tried in range(1, _TRIES + 1):
                at = self._store.clock()
                listed = list_run(self._store, self.run_id)
                if not listed.files:
                    return None
                try:
                    return self._look(listed, at, log_lines)
                except ConflictError:
                    # Something went away between the listing and the read: perhaps it is being rewritten.
                    if tried == _TRIES:
                        raise
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def curves(self, asked: CurvesAsked = ALL_CURVES) -> Json:
        """The run's curves as of the last look, as ``curves_table`` has them."""
        with self._lock:
            return curves_table(self._curves.read(self._kept, asked.only), self._points, asked)

    def _look(self, listed: Listed, at: datetime, log_lines: int) -> RunView:
        files = {name: entry for name, entry in listed.files.items() if entry.fault is None}
        newest = newest_log(files)
        got = self._cache.fetch(_pieces(files, newest, log_lines))
        policy = self._limits.policy(self.run_id, self._policy, at)
        by_file = heartbeat_fields(self._cache, self._safe.mask)
        for name, each in by_file.items():
            self._judge.know(name, each.heartbeat)
        judged = self._judge.judge(listed.files, at, policy, listed.dumps_at)
        record, attempt = judged.record, judged.attempt
        policy = in_force(policy, judged.metadata, record)
        limits = tuple(limits_shown(policy, judged.metadata))
        self.ended = judged.ended
        why = recorded.explained(judged.explained, self._safe)
        beats = beats_of(got, by_file, judged.seen, self._safe)
        told = beats.progress
        self._kept, self._points = listed.curves, told.points if told is not None else ()
        ranks = self._ranks.look(listed.ranks, _began(attempt), attempt.declared)
        evidence = None
        if judged.explained is not None:
            found = judged.explained.cause.evidence
            # A dump has no lines around the evidence.
            recorded_by_ranks = judged.explained.stuck is not None
            alone = evidence_alone(found, self._safe, "") if recorded_by_ranks else None
            evidence = alone or self._evidence.look(found, files.get(found.file), at)
        conditions = islice(judged.conditions.items(), CONDITIONS_LIMIT)
        # Without a record no alert was sent. With one that cannot be read, that is not known.
        none = None if judged.unread else 0
        missing = why.missing if why is not None else None
        if missing is not None and missing.ranks[0].log in files:
            # What a rank that reports the timeout printed last says nothing of the one that is missing.
            newest = files[missing.ranks[0].log]
            got = self._cache.fetch(_pieces(files, newest, log_lines))
        tail = self._tail(newest, got, log_lines)
        sheet = with_log(judged.timesheet, judged.seen, tail)
        known = _known_run(self.run_id, files, got, by_file, judged, self._safe)
        watching = self._watching(judged.standing, files, at, policy)
        shown = _with_details(row(known, judged.standing, at, policy, watching), judged, self._safe)
        return RunView(
            row=replace(shown, silence=self._silenced(at)),
            at=at,
            where=f"{self._store.url.rstrip('/')}/{self.run_id}/",
            link=self._link,
            stale_s=worry_s(limits),
            limits=limits,
            exceeded=exceeded(record, self._safe.name),
            seen_at=record.since if record is not None else None,
            conditions={self._safe.name(name): self._safe.name(text) for name, text in conditions},
            explained=why,
            evidence=evidence,
            beats=beats.shown,
            points=self._points,
            keeps_curves=bool(listed.curves),
            metrics=told.metrics if told is not None else {},
            learning_rate=told.learning_rate if told is not None else None,
            epoch=told.epoch if told is not None else None,
            config=beats.metadata.config if beats.metadata is not None else {},
            training_notes=beats.metadata.heartbeat.notes if beats.metadata is not None else None,
            resources=beats.metadata.resources if beats.metadata is not None else None,
            node=beats.metadata.node if beats.metadata is not None else None,
            phases=beats.metadata.phases if beats.metadata is not None else (),
            ranks=ranks.lines,
            ranks_left_out=ranks.left_out,
            suspects=_suspects(why) or standing_out(ranks, judged, beats.world_size, at),
            world_size=beats.world_size,
            history=recorded.history(record, self._safe) if record is not None else (),
            interventions=tuple(map(self._safe.all_of, record.interventions)) if record is not None else (),
            transitions=record.transitions if record is not None else none,
            job=recorded.job(record, self._safe, at) if record is not None else None,
            goodput=goodput(
                sheet,
                at,
                restart_waits=record is not None and restart_waits(record),
                # Of a run without a record this is the first look.
                watched_from=at if record is None else watched_from(record),
            ),
            times=sheet.attempts if sheet is not None else (),
            attempts=recorded.attempts(record) if record is not None else (),
            alerts=alerts(record, self._safe) if record is not None else (),
            alerts_pending=pending(record) if record is not None else none,
            alerts_delivered=record.delivered if record is not None else none,
            alerts_dropped=record.dropped if record is not None else none,
            log=tail,
            logs=_logs(files, self._safe),
            stacks=self._stacks(files, got, judged),
            error_text=self._error_text(got),
            notes=tuple(self._safe.name(note, _NOTE_LIMIT) for note in self._notes(listed, judged, beats)),
        )

    def _notes(self, listed: Listed, judged: Judged, beats: Beats) -> Iterator[str]:
        yield from (*judged.notes, *beats.notes, *(f"{name}: {fault}" for name, fault in listed.closed.items()))
        died = judged.metadata.thread_error if judged.metadata is not None else None
        # A reason keeps the beginning of it.
        if died and died[:_SAME_CHARS] not in judged.reason:
            yield f"A thread of it has ended with an exception: {died}"
        shown = judged.seen.progress if judged.seen is not None else None
        spike = decide.levels.returned(shown.curve.points, LOSS_RISE) if shown is not None else None
        if spike is not None:
            told = f"The loss jumped from {spike.before:.4g} to {spike.now:.4g} at step {spike.step}"
            yield f"{told} and came back within {counted(spike.lasts, 'step')}."
        if beats.metadata is not None and beats.metadata.ignored_settings:
            yield f"{ignoring(beats.metadata.ignored_settings)}; correct that where its training starts."
        end = unjudged_end(judged.standing, listed.files) if judged.record is not None else None
        if end is not None:
            yield f"It wrote {end}; the next pass records what became of it."
        if listed.more_ranks:
            yield "There are more files in ranks/ than were listed."
        if self._limits.note:
            yield self._limits.note

    def _watching(self, standing: Standing, files: Mapping[str, Entry], at: datetime, policy: Policy) -> WatchState:
        """Whether the fleet is watched: asked for, with one small read, only where the run may be doubted."""
        unwatched = WatchState()
        if doubt_of(standing, files, at, policy, unwatched) is None:
            return unwatched
        try:
            mark = read_mark(self._store)
        except StoreError:
            # Whether passes are made is not known. That none has judged the latest evidence is.
            return WatchState(at)
        return unwatched if mark is None else watched(mark, mark.at, at)

    def _silenced(self, at: datetime) -> "Silence | None":
        found = self._silences.of(self.run_id, at)
        return None if found is None else shown_silence(found, self._safe.mask)

    def _tail(self, newest: Entry | None, got: Mapping[str, CachedFile], log_lines: int) -> Excerpt | None:
        if newest is None or log_lines <= 0:
            return None
        name = newest.key.removeprefix(f"{self.run_id}/")
        read = got[_TAIL]
        if read.blob is None:
            return self._unread(name, read)
        shown = excerpts.tail(name, read.blob, log_lines, self._safe)
        return shown if read.fault is None else replace(shown, note=self._unread(name, read).note)

    def _stacks(self, files: Mapping[str, Entry], got: Mapping[str, CachedFile], judged: Judged) -> Excerpt | None:
        entry = files.get(runid.STACKS)
        # Where nothing may delete the file it is emptied when training goes on.
        if entry is None or entry.size_bytes == 0 or not judged.stacks_count:
            return None
        read = got[runid.STACKS]
        return (
            self._unread(runid.STACKS, read)
            if read.blob is None
            else excerpts.stacks(runid.STACKS, read.blob, self._safe)
        )

    def _unread(self, name: str, read: CachedFile) -> Excerpt:
        why = "it went away while it was read" if read.fault is None else f"it could not be read: {read.fault}"
        return Excerpt(
            self._safe.name(name), (), None, None, read.entry.modified, read.entry.size_bytes, self._safe.name(why)
        )

    def _error_text(self, got: Mapping[str, CachedFile]) -> str | None:
        read = got.get(runid.ERROR)
        if read is None or read.blob is None:
            return (
                None if read is None or read.fault is None else self._safe.name(f"it could not be read: {read.fault}")
            )
        return self._safe.text(read.blob.body.decode("utf-8", "replace"))


def _known_run(
    run_id: str,
    files: Mapping[str, Entry],
    got: Mapping[str, CachedFile],
    told: Mapping[str, HeartbeatFields],
    judged: Judged,
    safe: Safe,
) -> KnownRun:
    """The run as its fleet would know it."""
    known = KnownRun(run_id, files)
    if judged.record is not None:
        known.take(runid.RECORD, got[runid.RECORD].entry, judged.standing)
    for name, each in told.items():
        if name != runid.PROGRESS or judged.seen is None or judged.seen.progress is not None:
            known.take(name, files[name], gist_of(each), each.heartbeat.fault)
    for name, read in got.items():
        if read.fault is not None and name in files:
            known.refused[name] = UnreadableDocument(token(files[name]), safe.name(str(read.fault)), 0, again=True)
    return known


def _with_details(shown: Row, judged: Judged, safe: Safe) -> Row:
    """``shown`` with all that was found, where a table has room for little."""
    reason = safe.name(judged.state.why, _REASON_LIMIT)
    state = replace(shown.state, reason=reason, action=safe.maybe(judged.action, _ACTION_LIMIT))
    fault = safe.maybe(judged.fault) if judged.record is None else None
    return replace(shown, state=state, fault=fault or shown.fault)


def run_watch(
    settings: Settings,
    run_id: str,
    *,
    at: Store | None = None,
    places: bool = False,
    limits: FleetLimits | None = None,
) -> RunWatch:
    """The view of one run of the fleet that ``settings`` name. ``at`` is the store of an earlier call, or one that
    counts requests; ``places`` as for :func:`log_settings`; ``limits`` are those of a fleet that is looked at, too.
    Raises :class:`InvalidRunIdError`."""
    return RunWatch(
        at or opening.store(settings),
        settings.policy,
        run_id,
        mask=settings.redactor,
        link=opening.console_link(settings, run_id),
        catalogue=log_settings(settings, places=places),
        limits=limits,
    )


_TAIL: Final = "the end of the newest log"


def _pieces(files: Mapping[str, Entry], newest: Entry | None, log_lines: int) -> dict[str, FilePiece]:
    pieces = documents(files)
    if newest is not None and log_lines > 0:
        room = max(excerpts.TAIL_BYTES, min(log_lines * _LINE_BYTES, _TAIL_MOST))
        pieces[_TAIL] = FilePiece(newest, room, from_end=True)
    return pieces


def _began(attempt: Attempt) -> datetime | None:
    began = attempt.began_at
    # Stores that stamp whole seconds stamp a file written right after the start as older than it.
    return None if began is None else began.replace(microsecond=0)


def _logs(files: Mapping[str, Entry], safe: Safe) -> tuple[tuple[str, datetime, int], ...]:
    logs = sorted((name for name in files if is_log(name)), key=lambda name: files[name].modified, reverse=True)
    return tuple((safe.name(name), files[name].modified, files[name].size_bytes) for name in logs[:_LOGS])


def _suspects(why: RecordedCause | None) -> str | None:
    """The ranks that keep the others waiting, if the cause names them."""
    if why is not None and why.stuck is not None:
        return why.stuck.places or why.stuck.sentence
    return why.missing.sentence if why is not None and why.missing is not None else None
