"""The logs of a run, as a watch reads them. What reads and understands text is loaded when there is text."""

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lastbeat.model.cause import NOTHING, Explanation
from lastbeat.model.log_report import LogReport
from lastbeat.model.observation import NeverSeen, Seen
from lastbeat.model.record import Attempt, Record
from lastbeat.observe.log_files import of_logs
from lastbeat.stores.port import Entry, Store, StoreError

if TYPE_CHECKING:
    from lastbeat.model.signal import Catalogue
    from lastbeat.observe.log_cache import LogCache
    from lastbeat.observe.logs import RunLogs

log = logging.getLogger(__name__)


def default_catalogue() -> "Catalogue":
    """The catalogue that is used unless somebody names another."""
    from lastbeat.signals import loading  # noqa: PLC0415 - only where there is text

    return loading.load(loading.DEFAULT)


@dataclass(frozen=True)
class LogSettings:
    """What to look for in logs, and in which."""

    catalogue: "Callable[[], Catalogue]" = default_catalogue
    """Called when there is text to read."""
    stamp: str = "default"
    """Names the catalogue: what was read with another one is read again."""
    places: tuple[str, ...] = ()
    """Paths and patterns of logs on this machine, besides those in the run's folder."""


class Reading:
    """Reads the logs of one run, again and again, if it has any.

    ``state`` keeps how far they were read between processes. ``poll_s`` is the shortest time between two readings.
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
        self._logs: RunLogs | None = None
        self._last: LogReport | None = None
        self._read_at: datetime | None = None
        self._attempt: int | None = None
        # When the attempt began, by the store's clock.
        self._since: datetime | None = None
        # What was stored by then is an earlier attempt's.
        self._old_until: datetime | None = None

    @property
    def began(self) -> bool:
        """Whether there was anything to read yet."""
        return self._logs is not None

    def add_to(
        self,
        seen: Seen | NeverSeen,
        files: Mapping[str, Entry],
        record: Record | None,
        now: datetime,
        *,
        again: bool = False,
    ) -> Seen | NeverSeen:
        """``seen`` with what the logs say. ``record`` tells the last known attempt, ``now`` is in the store's time.
        ``again``: the last look is taken a second time."""
        if record is not None:
            self.begin(record.attempt)
        report = self.look(files, now, again=again)
        if report is None or (isinstance(seen, NeverSeen) and _is_empty(report)):
            return seen
        return replace(seen if isinstance(seen, Seen) else Seen(), logs=report)

    def look(self, files: Mapping[str, Entry], now: datetime, *, again: bool = False) -> LogReport | None:
        """What the logs say; None if there are none. ``again`` as in :meth:`add_to`. Never raises."""
        if not self._signals.places and not any(map(of_logs, files)):
            return None
        if self._last is not None and self._read_at is not None and self._poll_s is not None:
            since_s = (now - self._read_at).total_seconds()
            if 0 <= since_s < self._poll_s:
                return self._last
        self._read_at = now
        try:
            self._last = self._reader().look(files, self._since, self._old_until, again=again)
        except Exception as error:
            # Whatever goes wrong with reading text, heartbeats are still watched.
            log.exception("the logs of %s could not be understood", self._run_id)
            # What was read before says nothing of now: the next look reads again, whatever ``poll_s`` says.
            self._read_at = None
            note = f"The logs could not be understood ({type(error).__name__}); they count for nothing in this look."
            # Nothing else shows whether logs of this machine were written.
            hidden = (note,) if self._signals.places else ()
            return replace(self._last or LogReport(), notes=(note,), unread=("logs",), hidden=hidden)
        return self._last

    def explain(self, files: Mapping[str, Entry], error_text: str | None) -> Explanation:
        """Why the run failed, by a closer reading of its logs and ``_error``. Never raises."""
        if not error_text and not self._signals.places and not any(map(of_logs, files)):
            return NOTHING
        try:
            return self._reader().explain(
                files, error_text, self._since, old_until=self._old_until, exit_code=exit_code(error_text or "")
            )
        except Exception:
            log.exception("why %s is as it is could not be found out", self._run_id)
            return NOTHING

    def begin(self, attempt: Attempt) -> None:
        """If this attempt is another than before, what was read so far belongs to an earlier one."""
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
        """Keep how far the logs were read. ``over``: training itself said that nothing more will come."""
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

    def _cache(self) -> "LogCache | None":
        if self._state is None:
            return None
        from lastbeat.observe.log_cache import LogCache  # noqa: PLC0415 - as below

        return LogCache(self._state, self._store.url, self._run_id, self._signals.stamp)

    def _reader(self) -> "RunLogs":
        if self._logs is None:
            from lastbeat.observe.logs import RunLogs  # noqa: PLC0415 - only where there is text

            self._logs = RunLogs(
                self._store, self._run_id, self._signals.catalogue, self._mask, places=self._signals.places
            )
            cache = self._cache()
            if cache is not None:
                cache.load(self._logs)
            if self._attempt is not None:
                self._logs.begin_attempt(self._attempt)
        return self._logs


def _is_empty(report: LogReport) -> bool:
    """Whether it says nothing, not even that there is a log."""
    return report.written_at is None and report.empty_at is None and not report.notes


def spent_until(attempt: Attempt) -> datetime | None:
    """When the newest log that predates ``attempt`` was stored; None if there is none, or it is not known."""
    found = None
    for token in attempt.spent:
        name, at, rest = token.partition("@")
        if at and name == "log":
            with suppress(ValueError):
                when = datetime.fromisoformat(rest.rpartition(":")[0])
                found = when if found is None else max(found, when)
    return found


def exit_code(error_text: str) -> int | None:
    """The exit status in the first line of ``_error``, as ``lastbeat exec`` writes it; negative for a signal."""
    first = error_text[:1000].partition("\n")[0]
    found = re.search(r"exit status (\d{1,3})\b|\bkilled by SIG[A-Z0-9]{1,12} \(signal (\d{1,2})\)", first)
    if found is None:
        return None
    return int(found[1]) if found[1] else -int(found[2])
