"""The logs of one run as a watch sees them. The code that reads and parses text is loaded only when there is text."""

import glob
import hashlib
import json
import logging
import re
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from lastbeat import explain, watch
from lastbeat.explain import signals
from lastbeat.model.cause import NOTHING, Explanation
from lastbeat.model.codec import codec
from lastbeat.model.data import dataclass
from lastbeat.model.log_report import LogReport
from lastbeat.model.observation import NeverSeen, Seen
from lastbeat.model.record import Attempt, Record
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import one_line
from lastbeat.model.version import __version__
from lastbeat.settings import Settings, catalogues, table
from lastbeat.stores.port import Entry, Store, StoreError
from lastbeat.watch.observe.log_files import of_logs
from lastbeat.watch.observe.ranks import rank_hosts

if TYPE_CHECKING:
    from lastbeat.model.signal import Catalogue
    from lastbeat.model.stuck_collective import StuckCollective
    from lastbeat.watch.observe.logs import RunLogs, RunLogsState

log = logging.getLogger(__name__)

CACHE_LIMIT_BYTES: Final = 256 * 1024
_UNPACKED_BYTES: Final = 16 << 20
_READERS_BYTES: Final = 192 * 1024
_VERSION: Final = 3
"""Version of the cache's layout."""


def default_catalogue() -> "Catalogue":
    """The catalogue that is used unless LASTBEAT_SIGNALS names another."""
    return signals.loading.load(signals.loading.DEFAULT)


@dataclass(frozen=True)
class LogSettings:
    """What to look for in logs, and where logs lie besides the run's folder."""

    catalogue: "Callable[[], Catalogue]" = default_catalogue
    """Called when there is text to read."""
    stamp: str = "default"
    """Identifies the catalogue: text that was read with another one is read again."""
    places: tuple[str, ...] = ()
    """Paths and patterns of logs on this machine."""
    dumps: tuple[str, ...] = ()
    """Patterns of the names of flight recorders' dumps. None: they are not looked for."""


def log_settings(
    settings: Settings, *, places: bool = False, dumps: bool = True, noticed: frozenset[str] = frozenset()
) -> LogSettings:
    """What to look for in logs; with ``places``, also in those on this machine; with ``dumps``, also in those of flight
    recorders. Every line that matches a signal in ``noticed`` is reported."""
    text = settings[table.SIGNALS]
    named = settings[table.LOGS] or ()
    stamp = " ".join((catalogues.stamp(text), *sorted(noticed)))
    patterns = settings[table.FLIGHT_RECORDER] if dumps else ()
    return LogSettings(lambda: catalogues.noticing(text, noticed), stamp, named if places else (), patterns)


@dataclass(eq=False, repr=False)
class LogCache:
    """How far one run's logs were read, kept in ``store`` between processes: ``--once`` too reads only new text.

    It is a cache, and the last of two watchers wins. If it is missing, or cannot be read here, the logs are read again
    from their beginning. ``url`` is the fleet's root. ``signals`` identifies the catalogues: text that was read with
    others is read again.
    """

    store: Store
    url: str
    run_id: str
    signals: str = ""

    @property
    def key(self) -> str:
        root = hashlib.sha256(self.url.encode()).hexdigest()[:16]
        return f"logs/{root}/{self.run_id}.json.z"

    def load(self, logs: "RunLogs") -> None:
        """Let ``logs`` continue where an earlier process stopped. Never raises."""
        try:
            blob = self.store.read(self.key, CACHE_LIMIT_BYTES)
            if blob is None:
                return
            unpacking = zlib.decompressobj()
            document = json.loads(unpacking.decompress(blob.body, _UNPACKED_BYTES))
            # Another version may have another layout.
            if document["stamp"] == self._stamp:
                logs.restore(document["logs"])
        except StoreError as error:
            log.debug("how far the logs of %s were read is unknown: %s", self.run_id, error)
        except (ValueError, TypeError, KeyError, RecursionError, zlib.error) as error:
            # The text of the fault may quote a log.
            log.info("%s/%s is damaged (%s); the logs are read again", self.store.url, self.key, type(error).__name__)

    def save(self, logs: "RunLogs") -> None:
        """Write the state if anything has changed. Never raises."""
        if not logs.changed:
            return
        state = logs.state()
        _shrink(state)
        document = {"stamp": self._stamp, "logs": codec(type(state)).document(state)}
        try:
            self.store.write(self.key, _compressed(document))
        except StoreError as error:
            log.debug("how far the logs of %s were read could not be saved: %s", self.run_id, error)

    @property
    def _stamp(self) -> str:
        return f"{_VERSION} {__version__} {self.signals}"


def _shrink(state: "RunLogsState") -> None:
    """If the state is too large, drop the content of the largest files. Reading continues at the same place."""
    documents = [file for file in state.files if file.reader_document is not None]
    sizes = {file.name: len(_compressed(file.reader_document)) for file in documents}
    left = _READERS_BYTES
    for file in sorted(documents, key=lambda each: sizes[each.name]):
        left -= sizes[file.name]
        if left < 0:
            file.reader_document, file.late = None, True


def _compressed(document: Any) -> bytes:
    return zlib.compress(json.dumps(document).encode(), 1)


class LogObserver:
    """Observes the logs of one run from look to look, if it has any.

    ``state`` keeps how far they were read between processes. ``poll_s`` is the shortest time between two reads, in s.
    """

    def __init__(
        self,
        store: Store,
        run_id: str,
        mask: Callable[[str], str],
        signals: LogSettings,
        state: Store | None = None,
        poll_s: float | None = None,
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._mask = mask
        self._signals = signals
        self._state = state
        self._poll_s = poll_s
        self._outputs: tuple[str, ...] = ()
        self._spent = frozenset[str]()
        self._logs: RunLogs | None = None
        self._last: LogReport | None = None
        self._read_at: datetime | None = None
        self._attempt: int | None = None
        self._begun = Attempt()
        # The attempt's start, by the store's clock.
        self._since: datetime | None = None
        # Text stored by then belongs to an earlier attempt.
        self._old_until: datetime | None = None

    @property
    def began(self) -> bool:
        """Whether there has been any text to read."""
        return self._logs is not None

    def follow(self, files: Sequence[str]) -> bool:
        """Read these local files, too, in place of those last named. Returns whether they differ from those."""
        places = tuple(map(glob.escape, files))
        if not places or places == self._outputs:
            return False
        self._outputs, self._read_at = places, None
        if self._logs is not None:
            self._logs.places = self._places
        return True

    def leave_out(self, files: frozenset[str]) -> None:
        """Read none of these local files, from now on."""
        self._spent = files
        if self._logs is not None:
            self._logs.left_out = files

    @property
    def _places(self) -> tuple[str, ...]:
        return (*self._signals.places, *self._outputs)

    def add_to(
        self,
        seen: Seen | NeverSeen,
        files: Mapping[str, Entry],
        record: Record | None,
        now: datetime,
        *,
        again: bool = False,
    ) -> Seen | NeverSeen:
        """``seen`` with a report of the logs. ``record`` names the last known attempt; ``now`` is the store's time.
        ``again``: this repeats the last look."""
        if record is not None:
            self.begin(record.attempt)
            if record.job is not None and record.status is not None and record.status.finished:
                # Whether its job may be ended depends on its latest output.
                self._read_at = None
        report = self.look(files, now, again=again)
        if report is None or (isinstance(seen, NeverSeen) and _is_empty(report)):
            return seen
        return replace(seen if isinstance(seen, Seen) else Seen(), logs=report)

    def look(self, files: Mapping[str, Entry], now: datetime, *, again: bool = False) -> LogReport | None:
        """A report of the logs, or None if there are none. ``again`` as in :meth:`add_to`. Never raises."""
        if not self._places and not any(map(of_logs, files)):
            return None
        if self._last is not None and self._read_at is not None and self._poll_s is not None:
            since_s = (now - self._read_at).total_seconds()
            if 0 <= since_s < self._poll_s:
                return self._last
        self._read_at = now
        try:
            self._last = self._reader().look(files, self._since, self._old_until, again=again)
        except Exception as error:
            # Whatever fails while parsing text, heartbeats are still watched.
            log.exception("the logs of %s could not be understood", self._run_id)
            # The last report is out of date: the next look reads again, whatever ``poll_s`` says.
            self._read_at = None
            note = f"The logs could not be understood ({type(error).__name__}); this look ignores them."
            # Only the logs themselves show whether logs on this machine were written.
            hidden = (note,) if self._places else ()
            return replace(self._last or LogReport(), notes=(note,), unread=("logs",), hidden=hidden)
        return self._last

    def explain(self, files: Mapping[str, Entry], error_text: str | None, world_size: int | None = None) -> Explanation:
        """Why the run failed, by a deep read of its logs and ``_error``, and by its ranks' flight recorders.
        ``world_size``: how many ranks it has, if known. Never raises."""
        found = NOTHING
        try:
            if error_text or self._places or any(map(of_logs, files)):
                found = self._reader().explain(
                    files,
                    error_text,
                    self._since,
                    old_until=self._old_until,
                    exit_code=exit_code(error_text or ""),
                    world_size=world_size,
                )
            if found.missing is not None:
                found = found.located(self._hosts([each.rank for each in found.missing.ranks]))
        except Exception:
            log.exception("the cause of %s could not be determined", self._run_id)
            return found
        return self.with_dumps(found, world_size)

    def with_dumps(self, found: Explanation, world_size: int | None = None) -> Explanation:
        """``found`` with what the dumps of flight recorders show, if they show more. Never raises."""
        if not self._signals.dumps or world_size == 1:
            return found
        try:
            stuck = self._stuck(world_size)
            return found if stuck is None else self._with_stuck(found, stuck)
        except Exception:
            log.exception("the dumps of flight recorders of %s could not be understood", self._run_id)
            return found

    def _hosts(self, ranks: Collection[int]) -> Mapping[int, str]:
        return rank_hosts(self._store, self._run_id, self._mask, ranks, self._begun)

    def _stuck(self, world_size: int | None) -> "StuckCollective | None":
        """What the dumps of this attempt's flight recorders show, those in the run's folder and beside its logs on this
        machine."""
        recorders, local = watch.observe.flight_recorders, watch.observe.local_dumps
        since = max((at for at in (self._since, self._old_until) if at is not None), default=None)
        found = []
        try:
            found = recorders.dumps_of_run(self._store, self._run_id, self._signals.dumps, since)
        except StoreError as error:
            log.info("the dumps of flight recorders of %s could not be looked for: %s", self._run_id, error)
        if self._places:
            logs = [each.path for each in watch.observe.local_logs.local_logs(self._places).logs]
            beside = local.beside(logs, self._signals.dumps)
            found += [each for each in beside if since is None or each.modified >= since]
        if not found:
            return None
        read = recorders.read_dumps(found, world_size=world_size, hosts=self._hosts, limits=recorders.OF_A_PASS)
        for note in read.notes:
            log.info("%s: %s", self._run_id, self._mask(note))
        return read.stuck

    def _with_stuck(self, found: Explanation, stuck: "StuckCollective") -> Explanation:
        shown = stuck.masked(lambda text: mask_tokens(self._mask(one_line(text))))
        return explain.flight_recorder.cause.with_stuck(found, shown, self._signals.catalogue().error_types)

    def lines(self, files: Mapping[str, Entry], name: str, around: str = "") -> tuple[tuple[str, ...], str | None]:
        """As :meth:`RunLogs.lines`, and the reason if they could not be read. Never raises: an alert without lines is
        better than none."""
        try:
            return self._reader().lines(files, name, around), None
        except StoreError as error:
            return (), f"{name} could not be read: {error}"

    def begin(self, attempt: Attempt) -> None:
        """Observe this attempt. If it is a new one, all text so far belongs to an earlier attempt."""
        self._begun = attempt
        least_s, _ = attempt.start_skew_s or (0.0, 0.0)
        self._since = None if attempt.start_time is None else attempt.start_time + timedelta(seconds=least_s)
        if attempt.number == self._attempt:
            return
        self._old_until = spent_until(attempt)
        known, self._attempt = self._attempt, attempt.number
        if self._logs is not None:
            self._logs.begin_attempt(attempt.number)
        if known is not None:
            self._last = None

    def save(self, *, over: bool) -> None:
        """Save how far the logs were read. ``over``: training itself reported its end."""
        cache = self._cache() if self._logs is not None else None
        if cache is None or self._logs is None:
            return
        if not over:
            cache.save(self._logs)
        elif self._logs.changed:
            self._logs.state()
            try:
                cache.store.delete(cache.key)
            except StoreError as error:
                log.debug("%s/%s stays: %s", cache.store.url, cache.key, error)

    def _cache(self) -> LogCache | None:
        if self._state is None:
            return None
        return LogCache(self._state, self._store.url, self._run_id, self._signals.stamp)

    def _reader(self) -> "RunLogs":
        if self._logs is None:
            self._logs = watch.observe.logs.RunLogs(
                self._store, self._run_id, self._signals.catalogue, self._mask, places=self._places
            )
            self._logs.left_out = self._spent
            cache = self._cache()
            if cache is not None:
                cache.load(self._logs)
            if self._attempt is not None:
                self._logs.begin_attempt(self._attempt)
        return self._logs


def _is_empty(report: LogReport) -> bool:
    """Whether the report is empty: it does not even show that a log exists."""
    return report.written_at is None and report.empty_at is None and not report.notes


def spent_until(attempt: Attempt) -> datetime | None:
    """When the newest log that predates ``attempt`` was stored, or None if there is none or that is unknown."""
    found = None
    for token in attempt.spent:
        name, at, rest = token.partition("@")
        if at and name == "log":
            with suppress(ValueError):
                when = datetime.fromisoformat(rest.rpartition(":")[0])
                found = when if found is None else max(found, when)
    return found


def exit_code(error_text: str) -> int | None:
    """The exit status in the first line of ``_error``, as ``lastbeat exec`` writes it. Negative for a signal."""
    first = error_text[:1000].partition("\n")[0]
    found = re.search(r"exit status (\d{1,3})\b|\bkilled by SIG[A-Z0-9]{1,12} \(signal (\d{1,2})\)", first)
    if found is None:
        return None
    return int(found[1]) if found[1] else -int(found[2])
