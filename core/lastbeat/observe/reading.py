"""A run's logs as a watch reads them: what reads and understands text is loaded when there is text."""

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
    from lastbeat.observe.log_memory import LogMemory
    from lastbeat.observe.logs import RunLogs

log = logging.getLogger(__name__)


def default_catalogue() -> "Catalogue":
    """What is looked for in logs where nobody says otherwise."""
    from lastbeat.signals import loading  # noqa: PLC0415 - only where there is text

    return loading.load(loading.DEFAULT)


@dataclass(frozen=True)
class Signals:
    """What is looked for in logs, and in which."""

    catalogue: "Callable[[], Catalogue]" = default_catalogue
    """Asked for when there is text to read."""
    stamp: str = "default"
    """Says which catalogue that is: what was read with another one in mind is read again."""
    places: tuple[str, ...] = ()
    """Logs of this machine beside those of the run's folder: paths and patterns of them."""


class Reading:
    """Reads the logs of one run, again and again, as far as there are any.

    ``state`` keeps between processes how far they were read; ``poll_s`` is how often that is done at most.
    """

    def __init__(
        self,
        store: Store,
        run_id: str,
        mask: Callable[[str], str],
        signals: Signals,
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
        # When that began, by the store's clock.
        self._since: datetime | None = None
        # What was stored by then is of an earlier one.
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
        """``seen`` with what the logs say; ``record`` tells which attempt the run was last known to be in, and ``now``
        is the store's time. ``again``: the last look has to be taken a second time."""
        if record is not None:
            self.begin(record.attempt)
        report = self.look(files, now, again=again)
        if report is None or (isinstance(seen, NeverSeen) and _is_empty(report)):
            return seen
        return replace(seen if isinstance(seen, Seen) else Seen(), logs=report)

    def look(self, files: Mapping[str, Entry], now: datetime, *, again: bool = False) -> LogReport | None:
        """What the logs say; None where there are none. Never raises. ``again`` as in :meth:`add_to`."""
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
            # Whatever is wrong with the reading of text, heartbeats are watched all the same.
            log.exception("the logs of %s could not be understood", self._run_id)
            # What was read before this says nothing of now: the next look reads again, poll or no poll.
            self._read_at = None
            note = f"The logs could not be understood ({type(error).__name__}); they count for nothing in this look."
            # Of those of this machine nothing else shows whether they were written.
            hidden = (note,) if self._signals.places else ()
            return replace(self._last or LogReport(), notes=(note,), unread=("logs",), hidden=hidden)
        return self._last

    def explain(self, files: Mapping[str, Entry], error_text: str | None) -> Explanation:
        """Why the run failed, from a closer reading of its logs and of ``_error``. Never raises."""
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
        """If this is another attempt than before, what was read so far belongs to an earlier one."""
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
        """Write down how far the logs were read; ``over``: training itself said that nothing more is to come."""
        memory = self._memory() if self._logs is not None else None
        if memory is None or self._logs is None:
            return
        if not over:
            memory.save(self._logs)
        elif self._logs.changed:
            self._logs.state()
            try:
                memory.store.delete(memory.key)
            except StoreError as error:
                log.debug("%s/%s stays: %s", memory.store.url, memory.key, error)

    def _memory(self) -> "LogMemory | None":
        if self._state is None:
            return None
        from lastbeat.observe.log_memory import LogMemory  # noqa: PLC0415 - as below

        return LogMemory(self._state, self._store.url, self._run_id, self._signals.stamp)

    def _reader(self) -> "RunLogs":
        if self._logs is None:
            from lastbeat.observe.logs import RunLogs  # noqa: PLC0415 - only where there is text

            self._logs = RunLogs(
                self._store, self._run_id, self._signals.catalogue, self._mask, places=self._signals.places
            )
            memory = self._memory()
            if memory is not None:
                memory.load(self._logs)
            if self._attempt is not None:
                self._logs.begin_attempt(self._attempt)
        return self._logs


def _is_empty(report: LogReport) -> bool:
    """Whether it says nothing at all, not even that there is a log."""
    return report.written_at is None and report.empty_at is None and not report.notes


def spent_until(attempt: Attempt) -> datetime | None:
    """When the newest log was stored that lay there before ``attempt`` began; None: there is none, or nobody knows."""
    found = None
    for token in attempt.spent:
        name, at, rest = token.partition("@")
        if at and name == "log":
            with suppress(ValueError):
                when = datetime.fromisoformat(rest.rpartition(":")[0])
                found = when if found is None else max(found, when)
    return found


def exit_code(error_text: str) -> int | None:
    """What the first line of ``_error`` says of the process's end, as ``lastbeat exec`` writes it: an exit status, or
    minus a signal's number."""
    first = error_text[:1000].partition("\n")[0]
    found = re.search(r"exit status (\d{1,3})\b|\bkilled by SIG[A-Z0-9]{1,12} \(signal (\d{1,2})\)", first)
    if found is None:
        return None
    return int(found[1]) if found[1] else -int(found[2])
