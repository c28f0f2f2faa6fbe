"""What rank 0 writes of a run: it begins the attempt, writes metadata.json and progress.json, and ends it.

    metadata.json, without its own time ──► the store's stamp teaches the clock offset ──► metadata.json with its time
      ──► the last attempt's sentinels are deleted ──► each beat: metadata.json, progress.json, tasks ──► the sentinel

Other ranks write less, see :class:`lastbeat.training.sdk.ranks.FollowingRank`.
"""

import logging
import os
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from lastbeat.model import runid
from lastbeat.model.json_values import encode
from lastbeat.model.runid import rank_error_key
from lastbeat.stores.port import ConflictError, DeniedError, Expect
from lastbeat.training.sdk.beat_tasks import Beat, BeatStep, BeatTasks, RunStart
from lastbeat.training.sdk.documents import (
    AttemptIdentity,
    ClockOffset,
    ProgressHistory,
    attempt_of,
    delete_if_allowed,
    iso_time,
    metadata_document,
    next_attempt,
    read_if_allowed,
    start_time_of,
)
from lastbeat.training.sdk.first_error import is_leftover, leftovers, write_if_first
from lastbeat.training.sdk.ranks import rank_zero_fields, with_rank
from lastbeat.training.sdk.safe_log import WarnOnce, safe_log
from lastbeat.training.sdk.sections import reports_late
from lastbeat.training.sdk.values import ValueReader, as_bool

_METADATA_LIMIT_BYTES = 64 * 1024


class RankZero:
    """Writes the documents of one attempt. For the beat thread."""

    def __init__(self, start: RunStart, tasks: BeatTasks) -> None:
        self.begun = False
        """Whether this attempt's first metadata.json is written, and the last attempt's sentinels are gone."""
        self._start, self._environment, self._tasks = start, start.environment, tasks
        self._store, self._sharing, self._folder = start.environment.store, start.environment.sharing, start.folder
        self._attempt: AttemptIdentity | None = None
        self._version = ""
        """The version of metadata.json that this process wrote last; empty unless training writes the file too."""
        self._undeleted: set[str] = set()
        """Sentinels of an earlier attempt that could not be deleted."""
        self._warnings = WarnOnce()
        self._reader = ValueReader(warnings=self._warnings)
        # Its reader is another one: the phase must not wait for a tensor that hangs there.
        self._history = ProgressHistory(reader=ValueReader(warnings=self._warnings))
        self._written_steps = 0
        self._written_step: object = None
        self._offset = ClockOffset()
        self._late = False
        """Whether the last metadata.json reports an overrun section."""
        self._beaten: float | None = None
        """When the last heartbeat was written, by the monotonic clock."""
        self._longest_gap_s = 0.0

    def pause_s(self, spent_s: float) -> float:
        """Time in s to the next beat after one that took ``spent_s``."""
        return self._environment.identity.beat_s - spent_s

    def first_steps(self, ending: tuple[str, str] | None) -> Iterator[BeatStep]:
        """The steps of a beat, without the sentinel.

        1. The first beat begins the attempt, which includes metadata.json.
        2. Any later beat and the last one write metadata.json. In distributed training the first one does too, to show
           the other ranks that the attempt has begun.
        3. Write progress.json, if the step advanced.
        4. Let the tasks write.
        """
        first, last, now = not self.begun, ending is not None, time.time()
        if first:
            yield BeatStep(self._begin, probes_store=True)
        if self.begun and (not first or last or self._start.rank.world > 1):
            yield BeatStep(partial(self._write_metadata, now, quick=first or last), probes_store=True)
        if not self._sharing.yields():
            yield BeatStep(partial(self._write_progress, last=last))
        yield from self._tasks.steps(self._beat(now, ending))

    def end_steps(self, ending: tuple[str, str]) -> Iterator[BeatStep]:
        """The steps right before the sentinel."""
        if not self.begun and self._start.rank.world == 1:
            # The last attempt's other sentinels may still be there, and would contradict this one.
            for name in runid.SENTINELS:
                if name != ending[0]:
                    yield BeatStep(partial(self._store.delete, self._folder + name))

    def write_end(self, ending: tuple[str, str]) -> None:
        """Write the sentinel. Raises :class:`StoreError`.

        1. In distributed training, an error is the run's ``_error`` only if no other rank of this attempt was first;
           otherwise it goes to ``ranks/0.error``.
        2. Otherwise the sentinel is created only if none exists, because the first of several errors is the cause.
        3. In both cases a sentinel of an earlier attempt, which could not be deleted, is overwritten.
        """
        sentinel, said = ending
        key, own_key = self._folder + sentinel, self._folder + rank_error_key(0)
        if self._sharing.wraps and self._was_preempted():
            # The wrapped training has reported this itself; the exit of its process adds nothing.
            return
        number = self._attempt.number if self._attempt is not None else None
        # _preempted is a document, so its lines have to stay where they are.
        text = said if sentinel == runid.PREEMPTED else with_rank(said, self._start.rank, number)
        body = text.encode("utf-8", "replace")
        if sentinel == runid.ERROR and self._sharing.defers():
            self._store.write(own_key, body)
            return
        maybe_leftover = key in self._undeleted or not self.begun
        if sentinel == runid.ERROR and self._start.rank.world > 1:
            if not write_if_first(self._store, key, body, self._start.started if maybe_leftover else None):
                self._store.write(own_key, body)
            return
        try:
            self._store.write(key, body, Expect.ANYTHING if maybe_leftover else Expect.NOTHING)
        except ConflictError:
            safe_log(logging.DEBUG, "%s is already there", key)

    def last_steps(self, ending: tuple[str, str] | None) -> Iterator[list[BeatStep]]:  # noqa: ARG002 - as of other ranks
        """Nothing follows the sentinel."""
        return iter(())

    def close(self) -> None:
        self._reader.close()
        self._history.reader.close()

    # The beginning.

    def _begin(self, tries: int = 2) -> None:
        """Begin a new attempt.

        1. Choose its number, which follows the last attempt's.
        2. Write metadata.json without its own time, and learn the clock offset from the store's stamp. From here on the
           old sentinels are older than the attempt, whether they can be deleted or not.
        3. Write it again with its own time, which readers can now correct by the offset.
        4. Delete the last attempt's sentinels. In distributed training some may already belong to this attempt, so only
           those older than this process are deleted.

        ``exec --max-restarts`` overwrites only the version that it has read, because training may begin the attempt
        first.
        """
        number, start_time, there = self._choose_attempt()
        self._attempt = attempt = AttemptIdentity(self._environment.identity, number, start_time, os.getpid())
        if there is not None:
            try:
                self._write_first(attempt, there)
            except ConflictError:
                if tries == 1:
                    raise
                return self._begin(tries - 1)
            self._delete_leftovers()
        self.begun = True
        return None

    def _choose_attempt(self) -> tuple[int, float, Expect | str | None]:
        """This attempt's number, its start as Unix time, and the version that its metadata.json may overwrite.

        The last is None if training has begun the attempt itself. Training continues an attempt that ``exec`` has begun
        for it. Every try to begin calls this again.
        """
        expected: Expect | str = Expect.ANYTHING
        try:
            blob = self._store.read(self._folder + runid.METADATA, _METADATA_LIMIT_BYTES)
        except DeniedError as error:
            # Some policies let training write but not read, and S3 then does not say that a key is missing.
            safe_log(logging.DEBUG, "the last attempt cannot be read: %s", error)
            blob = None
        else:
            if not self._sharing.has_precedence:
                expected = Expect.NOTHING if blob is None else blob.version
        start_time = self._start.unix
        if blob is not None and self._attempt is not None and start_time_of(blob.body) == iso_time(start_time):
            # This process wrote it, and the answer was lost.
            return self._attempt.number, start_time, expected
        begun = self._sharing.begun(blob.body) if blob is not None else None
        if begun is not None:
            return *begun, expected if self._sharing.has_precedence else None
        before = attempt_of(blob.body) if blob is not None else None
        if blob is not None:
            self._tasks.take_over(blob.body)
        resume, *_ = self._reader.read([("resume", self._environment.resume, as_bool)])
        return next_attempt(before, self._environment.restarts, resume=bool(resume)), start_time, expected

    def _write_first(self, attempt: AttemptIdentity, there: Expect | str) -> None:
        """Write the attempt's first metadata.json, twice, over the version ``there``. Raises :class:`ConflictError` if
        that has changed."""
        run, key, fields = self._start.run, self._folder + runid.METADATA, self._fields(begun=False, quick=True)
        document = metadata_document(run, attempt, None, self._reader)
        version = self._offset.write(self._store, key, encode(document | fields), there)
        document = metadata_document(run, attempt, time.time(), self._reader, self._offset.seconds)
        # Without permission to read there is no version to make the write conditional on.
        guarded = there is not Expect.ANYTHING
        version = self._store.write(key, encode(document | fields), version if guarded else Expect.ANYTHING)
        self._version = version if guarded else ""

    def _delete_leftovers(self) -> None:
        if self._start.rank.world > 1:
            keys = leftovers(self._store, self._start.run.run_id, self._start.started)
        else:
            keys = [self._folder + name for name in runid.SENTINELS]
        # What stays is older than this attempt, so no reader counts it, and this attempt's sentinel will overwrite it.
        self._undeleted.update(key for key in keys if not delete_if_allowed(self._store, key))

    # The heartbeats.

    def _fields(self, *, begun: bool, quick: bool) -> dict[str, Any]:
        """The fields that metadata.json has besides those of every run."""
        fields = rank_zero_fields(self._start.rank, begun=begun, beat_s=self._environment.rank_beat_s)
        return {**fields, **self._sharing.fields(), **self._tasks.fields(self._start.run, quick=quick)}

    def _write_metadata(self, now: float, *, quick: bool) -> None:
        assert self._attempt is not None  # noqa: S101 - it has begun
        run, key = self._start.run, self._folder + runid.METADATA
        if run.ending is None and self._sharing.yields():
            return
        document = metadata_document(run, self._attempt, now, self._reader, self._offset.seconds)
        fields = self._fields(begun=True, quick=quick)
        self._late = reports_late(document)
        fields["longest_gap_s"] = round(self._longest_gap_s, 1) or None
        body = encode(document | fields)
        if not self._version or run.ending is not None:
            self._offset.write(self._store, key, body)
        else:
            try:
                self._version = self._offset.write(self._store, key, body, self._version)
            except ConflictError:
                if self._sharing.yields():
                    # Training has begun to report itself since the first check.
                    return
                self._version = self._offset.write(self._store, key, body)
        beaten, self._beaten = self._beaten, time.monotonic()
        if beaten is not None:
            self._longest_gap_s = max(self._longest_gap_s, self._beaten - beaten)

    def _write_progress(self, *, last: bool) -> None:
        """Write progress.json, if the step advanced."""
        run = self._start.run
        steps = run.steps
        if run.unread_tokens is not None:
            what = (
                "lastbeat leaves tokens out: a value of type %s cannot be counted without waiting for it; give an int"
            )
            self._warnings.warn("tokens", what, run.unread_tokens)
        if steps == self._written_steps:
            return
        document = self._history.document(run, time.time())
        if document is not None and (last or document["step"] != self._written_step):
            self._store.write(self._folder + runid.PROGRESS, encode(document))
            self._written_step = document["step"]
        self._written_steps = steps

    def _beat(self, now: float, ending: tuple[str, str] | None) -> Beat:
        attempt = self._attempt if self.begun else None
        start_time, number = (iso_time(attempt.start_time), attempt.number) if attempt is not None else (None, None)
        return Beat(self._start.run, self._store, self._folder, now, ending, start_time, number, self._late)

    # The end.

    def _was_preempted(self) -> bool:
        """Whether another process has written ``_preempted`` since this attempt began."""
        there = read_if_allowed(self._store, self._folder + runid.PREEMPTED, 0)
        return there is not None and not is_leftover(there.modified, self._start.started)
