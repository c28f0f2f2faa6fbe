"""Observes one run: its heartbeats, sentinels and excerpts."""

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from lastbeat.model import runid
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, Heartbeat, read_heartbeat
from lastbeat.model.log_report import LogReport
from lastbeat.model.observation import (
    LogFile,
    NeverSeen,
    PreemptedSentinel,
    RaisedDocument,
    RankFiles,
    Seen,
    Sentinel,
    StopAsked,
)
from lastbeat.model.preemption import LIMIT_BYTES as PREEMPTED_LIMIT_BYTES
from lastbeat.model.preemption import read_preemption
from lastbeat.model.raised_alert import LIMIT_BYTES as ALERTS_LIMIT_BYTES
from lastbeat.model.raised_alert import read_alerts
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.stop_request import read_request
from lastbeat.model.text import clean
from lastbeat.stores.port import Blob, ConflictError, Entry, Store, StoreError
from lastbeat.watch.observe.listing import RANK_PAGES, Folder, run_files
from lastbeat.watch.observe.log_files import is_log, of_logs

ERROR_LIMIT_BYTES = 32 * 1024
LOG_TAIL_LIMIT_BYTES = 16 * 1024
LOG_TAIL_LINES = 20
STACKS_LIMIT_BYTES = 32 * 1024
STACK_FRAMES = 12
_LINE_LIMIT = 400
_SHORTEST_TOKEN = 20
File = TypeVar("File", Heartbeat, Sentinel, PreemptedSentinel, RaisedDocument)


@dataclass
class Observer:
    """Looks at one run repeatedly and reads only what has changed.

    ``mask`` hides this watcher's secrets in what training wrote; tokens recognized by their form are always hidden.
    """

    store: Store
    run_id: str
    mask: Callable[[str], str] = str
    files: Mapping[str, Entry] = field(default_factory=dict)
    """Files found by the last look, by their name below the run's folder."""
    ranks: RankFiles | None = None
    """The files of the run's ranks, as given to the last look."""
    here: str = field(default_factory=platform.node)
    """The name of this machine."""
    _read: dict[str, Any] = field(default_factory=dict)
    """Key of each file that was read → what it holds."""

    def look(
        self, listed: dict[str, Entry] | None = None, ranks: RankFiles | None = None
    ) -> tuple[Seen | NeverSeen, Entry | None]:
        """The observation, and the listing's entry of the watchdog's record.

        ``listed`` are the run's files by their name below its folder, if just listed, and ``ranks`` those of its ranks,
        if that listing showed them. Raises :class:`StoreError` if a file that a decision needs could not be read, for
        then nothing follows from the others. Raises :class:`ConflictError` if a file went away in between: look again.
        """
        if listed is None:
            folder = Folder(RANK_PAGES)
            files, ranks = run_files(self.store, self.run_id, folder), folder.ranks
        else:
            files = dict(listed)
        self.ranks = ranks
        record = files.pop(runid.RECORD, None)
        self.files = files
        if not files:
            return NeverSeen(), record
        complete = files.get(runid.COMPLETE)
        seen = Seen(
            metadata=self._read_once(files.get(runid.METADATA), self._heartbeat),
            progress=self._read_once(files.get(runid.PROGRESS), self._heartbeat),
            error=self._read_once(files.get(runid.ERROR), self._failure),
            raised=self._read_once(files.get(runid.ALERTS), self._raised),
            stop=self.stop_request() if {runid.ERROR, runid.PREEMPTED} & files.keys() else None,
            complete=Sentinel(complete.modified, complete.version, complete.size_bytes) if complete else None,
            preempted=self._read_once(files.get(runid.PREEMPTED), self._preemption),
            log=_log_file(newest_log(files)),
            stacks=_log_file(files.get(runid.STACKS)),
        )
        return seen, record

    def _read_once(self, entry: Entry | None, read: Callable[[Entry], File | None]) -> File | None:
        """What ``read`` makes of the file, or has made of it if it is unchanged; None without a file, or if it is to be
        ignored."""
        if entry is None:
            return None
        known: File | None = self._read.get(entry.key)
        if known is not None and (known.version, known.modified) == (entry.version, entry.modified):
            return known
        found = read(entry)
        # A sentinel whose text was refused is read again: permissions may change.
        if found is not None and not (isinstance(found, Sentinel) and found.fault is not None):
            self._read[entry.key] = found
        return found

    def _heartbeat(self, entry: Entry) -> Heartbeat:
        if entry.size_bytes == 0:
            return Heartbeat(entry.modified, entry.version, fault="it is empty")
        heartbeat = read_heartbeat(_still_there(self.store.read(entry.key, DOCUMENT_LIMIT_BYTES), entry), self._name)
        if heartbeat.fault is not None:
            # It may have been read while ``cat >`` wrote it: a second read finds it complete.
            again = self.store.read(entry.key, DOCUMENT_LIMIT_BYTES)
            heartbeat = read_heartbeat(again, self._name) if again is not None else heartbeat
        return self._by_its_clock(heartbeat)

    def know(self, key: str, heartbeat: Heartbeat) -> None:
        """Take ``heartbeat`` for the document at ``key``, for the looks until that is written again. The caller has
        read and decoded it."""
        self._read[key] = self._by_its_clock(heartbeat)

    def _by_its_clock(self, heartbeat: Heartbeat) -> Heartbeat:
        """``heartbeat`` with a clock offset of 0 if its writer used the clock that stamps the files. That is so if the
        store uses this machine's clock and the heartbeat names this machine, or none."""
        doubtful = heartbeat.own_time is None or not heartbeat.zoned or not self.store.traits.one_clock
        if doubtful or heartbeat.clock_offset_s is not None:
            return heartbeat
        names = {_short(name) for name in (heartbeat.host, heartbeat.instance_id) if name}
        return replace(heartbeat, clock_offset_s=0.0) if not names or _short(self.here) in names else heartbeat

    def _failure(self, entry: Entry) -> Sentinel:
        body, fault = self._sentinel(entry, ERROR_LIMIT_BYTES)
        text = self._shown(body.decode("utf-8", "replace"))
        return Sentinel(entry.modified, entry.version, entry.size_bytes, text, fault)

    def _preemption(self, entry: Entry) -> PreemptedSentinel:
        body, fault = self._sentinel(entry, PREEMPTED_LIMIT_BYTES)
        said = read_preemption(body)
        shown = self._shown(said.checkpoint), self._shown(said.why), self._shown(said.note)
        said = replace(said, checkpoint=shown[0], why=shown[1], note=shown[2])
        readable = said if fault is None else None
        return PreemptedSentinel(entry.modified, entry.version, entry.size_bytes, fault=fault, said=readable)

    def _sentinel(self, entry: Entry, limit_bytes: int) -> tuple[bytes, str | None]:
        """The content of a sentinel, and why it cannot be read: its existence proves the end all the same."""
        if not entry.size_bytes:
            return b"", None
        try:
            return _still_there(self.store.read(entry.key, limit_bytes), entry).body, None
        except ConflictError:
            raise
        except StoreError as error:
            if error.retryable:
                # The next pass will get the text, and with it the cause.
                raise
            return b"", str(error)

    def stop_request(self) -> StopAsked | None:
        """The stop request that the last look found. None if there is none or it is unreadable, because any user can
        leave such a file. Raises :class:`StoreError` as :meth:`look`."""
        entry = self.files.get(runid.STOP)
        blob = self._if_allowed(entry, runid.STOP_LIMIT_BYTES) if entry is not None else None
        request = read_request(blob.body) if blob is not None else None
        if entry is None or request is None:
            return None
        shown = replace(request, by=self._shown(request.by), why=self._shown(request.why))
        return StopAsked(entry.modified, shown)

    def _raised(self, entry: Entry) -> RaisedDocument | None:
        blob = self._if_allowed(entry, ALERTS_LIMIT_BYTES)
        if blob is None:
            return None
        alerts = tuple(
            replace(each, title=self._shown(each.title), text=self._shown(each.text)) for each in read_alerts(blob.body)
        )
        return RaisedDocument(entry.modified, entry.version, alerts)

    def _if_allowed(self, entry: Entry, limit_bytes: int) -> Blob | None:
        """The file, or None if it is gone or may not be read. Raises :class:`StoreError` while the store does not
        answer: a decision may depend on the file, and the next look may come much later."""
        try:
            return self.store.read(entry.key, limit_bytes)
        except StoreError as error:
            if error.retryable:
                raise
            return None

    def log_tail(self) -> tuple[tuple[str, ...], str | None]:
        """The last lines of the training log, oldest first, and the reason if they could not be read.

        Never raises: an alert without lines is better than none.
        """
        # The main log if there is one.
        newest = None if runid.LOG in self.files else newest_log(self.files)
        key = newest.key if newest is not None else f"{self.run_id}/{runid.LOG}"
        try:
            blob = self.store.read(key, LOG_TAIL_LIMIT_BYTES, from_end=True)
        except StoreError as error:
            return (), f"The training log could not be read: {error}"
        if blob is None:
            return (), None
        lines = last_lines(blob.body, cut_at_start=blob.size_bytes > len(blob.body))
        return tuple(self._shown(line) for line in lines), None

    def _shown(self, text: str) -> str:
        """``text`` without secrets and terminal control characters, before it is cut or judged."""
        return mask_tokens(self.mask(clean(text)))

    def _name(self, text: str) -> str:
        # Most names are shorter than any token and need no search.
        return self._shown(text) if len(text) >= _SHORTEST_TOKEN else self.mask(text)

    def stack(self) -> tuple[tuple[str, ...], str | None]:
        """The innermost frames of training's main thread, the innermost last, and the reason if they could not be read.
        Never raises, like :meth:`log_tail`."""
        try:
            blob = self.store.read(f"{self.run_id}/{runid.STACKS}", STACKS_LIMIT_BYTES)
        except StoreError as error:
            return (), f"The stacks could not be read: {error}"
        return (innermost(self._shown(blob.body.decode("utf-8", "replace"))) if blob is not None else ()), None


def glance(files: Mapping[str, Entry], beats: Mapping[str, Heartbeat], error_text: str) -> Seen:
    """The observation without a read: ``files`` are as listed, ``beats`` are the run's heartbeats by name, and
    ``error_text`` is the beginning of its ``_error``."""
    error, complete, early = (files.get(name) for name in runid.SENTINELS)
    raised, log = files.get(runid.ALERTS), newest_log(files)
    hidden = tuple(f"{name}: {entry.fault}." for name, entry in files.items() if entry.fault and of_logs(name))
    return Seen(
        raised=RaisedDocument(raised.modified, raised.version) if raised is not None else None,
        metadata=beats.get(runid.METADATA),
        progress=beats.get(runid.PROGRESS),
        error=Sentinel(error.modified, error.version, error.size_bytes, error_text) if error is not None else None,
        complete=Sentinel(complete.modified, complete.version, complete.size_bytes) if complete is not None else None,
        preempted=PreemptedSentinel(early.modified, early.version, early.size_bytes) if early is not None else None,
        log=_log_file(log),
        # That there is some text is life enough.
        logs=LogReport(written_at=log.modified if log is not None else None, hidden=hidden) if log or hidden else None,
    )


def _still_there(blob: Blob | None, entry: Entry) -> Blob:
    """``blob``, the content of a listed file. Raises :class:`ConflictError` if that is gone: it may be rewritten in two
    steps, which proves nothing."""
    if blob is None:
        raise ConflictError(f"{entry.key} went away while it was looked at")
    return blob


def _log_file(entry: Entry | None) -> LogFile | None:
    return None if entry is None or entry.fault else LogFile(entry.modified, entry.version, entry.size_bytes)


def newest_log(files: Mapping[str, Entry]) -> Entry | None:
    """The log written last, of those that could be read; or None."""
    logs = (entry for name, entry in files.items() if is_log(name) and entry.fault is None)
    return max(logs, key=lambda entry: entry.modified, default=None)


def innermost(stacks: str, most: int = STACK_FRAMES) -> tuple[str, ...]:
    """The innermost frames, the innermost last, of the first thread in a ``stacks.txt``: the main thread."""
    block: list[str] = []
    for line in stacks.split("\n"):
        if line.startswith("Thread "):
            if block:
                break
        elif line.startswith("  ") and line.strip():
            block.append(line.strip()[:_LINE_LIMIT])
    return tuple(block[-most:])


def last_lines(tail: bytes, *, cut_at_start: bool, most: int = LOG_TAIL_LINES) -> tuple[str, ...]:
    """The last non-empty lines of a log's tail. A progress bar that redraws itself with ``\\r`` is one line."""
    # Not splitlines(): it also splits at characters that log lines may contain.
    lines = tail.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    # The first line is cut. Drop it unless it is the only one (a progress bar without a newline).
    if cut_at_start and any(line.strip() for line in lines[1:]):
        lines = lines[1:]
    drawn = (line.rstrip("\r").rsplit("\r", 1)[-1].rstrip() for line in lines)
    return tuple(line[:_LINE_LIMIT] for line in drawn if line)[-most:]


def _short(host: str) -> str:
    return host.partition(".")[0].lower()
