"""Follows logs: prints new lines as they come, also from files that are rotated or rewritten."""

import select
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from lastbeat.explain.causes.log_summary import LogSummary
from lastbeat.stores.port import Blob, StoreError
from lastbeat.watch.observe.log_cursor import Cursor
from lastbeat.watch.observe.log_following import follow
from lastbeat.watch.observe.log_source import LogSource
from lastbeat.watch.observe.tailed_log import PARTIAL_KEPT_BYTES, Readers, TailedLog, TextReader
from lastbeat_cli.loop import Stop
from lastbeat_cli.run_logs.printing import LINE_BYTES, Lines, Printer, note

ROOM_BYTES: Final = 16 * 1024 * 1024
"""Most new bytes of one file that are read at once."""
_STILL: Final = 2
"""After the run is over, following ends once this many reads in a row found nothing new."""


class _LinePrinter:
    """A text reader that prints each line."""

    step = None

    def __init__(self, name: str, printer: Printer) -> None:
        self._name, self._printer = name, printer
        self._lines = Lines()
        self.next_line = 1

    def feed(self, data: bytes, at: object = None) -> None:  # noqa: ARG002 - printing needs no time
        for line in self._lines.feed(data):
            self.next_line += 1
            if (text := self._printer.text(line)) is not None:
                self._printer.show(self._name, text)

    def finish(self, half: bytes = b"") -> None:
        """Print the unfinished line, followed by ``half``."""
        rest = self._lines.end() + half
        if rest.strip() and (text := self._printer.text(rest)) is not None:
            self._printer.show(self._name, text)

    def skipped(self, bytes_count: int) -> None:  # noqa: ARG002 - the line before a gap ends there
        self.finish()

    def summary(self) -> LogSummary:
        raise NotImplementedError  # pragma: no cover - a printed log is not summarized

    def document(self) -> Any:
        raise NotImplementedError  # pragma: no cover - the position in a printed log is not stored


class Following:
    """The logs that are followed, with the position in each."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._files: dict[str, TailedLog] = {}
        self._printing: dict[str, _LinePrinter] = {}
        self._refused: dict[str, str] = {}
        self._sources: dict[str, LogSource] = {}

    def begin(self, source: LogSource, cursor: Cursor) -> None:
        """Follow ``source`` from ``cursor``; the lines before it have been printed."""
        self._files[source.name] = TailedLog(source.name, cursor)

    def look(self, sources: Sequence[LogSource]) -> bool:
        """Print new lines of ``sources``. Returns whether there were any.

        A log that cannot be read is noted once and tried again the next time; so is its return.
        """
        fresh = False
        readers = Readers(self._fresh, self._restored)
        for source in sources:
            self._sources[source.name] = source
            file = self._files.get(source.name)
            if file is None:
                # It appeared while others were followed, so all of it is new.
                cursor = Cursor(0, "", source.modified)
                cursor.move(Blob(b"", 0, source.modified, ""), 0, 0)
                file = self._files[source.name] = TailedLog(source.name, cursor)
            if file.is_read(source):
                continue
            try:
                follow(file, source, ROOM_BYTES, None, readers)
            except StoreError as fault:
                self._refuse(source.name, str(fault))
                continue
            if self._refused.pop(source.name, None) is not None:
                note(f"{source.name} can be read again")
            for each in file.notes:
                note(each)
            fresh = True
        self._printer.flush()
        return fresh

    def end(self) -> None:
        """Print the last lines that have no newline."""
        for name, file in self._files.items():
            if name in self._printing or file.partial:
                (self._printing.get(name) or _LinePrinter(name, self._printer)).finish(self._partial(file))
        self._printer.flush()

    def _partial(self, file: TailedLog) -> bytes:
        """The text after the last newline, read again if only the beginning of a long line was kept."""
        source = self._sources.get(file.name)
        if len(file.partial) < PARTIAL_KEPT_BYTES or file.cursor is None or source is None:
            return file.partial
        try:
            blob = source.read(file.cursor.offset, LINE_BYTES)
        except StoreError:
            return file.partial
        return blob.body if blob is not None and blob.body.startswith(file.partial) else file.partial

    def _refuse(self, name: str, why: str) -> None:
        if self._refused.get(name) != why:
            note(f"{name} cannot be read now ({why}); it is tried again")
        self._refused[name] = why

    def _fresh(self, name: str, rank: int | None, line: int) -> TextReader:  # noqa: ARG002 - the interface of Readers
        known = self._printing.get(name)
        if known is not None:
            known.finish()
        printing = self._printing[name] = _LinePrinter(name, self._printer)
        return printing

    def _restored(self, document: Any) -> TextReader:
        raise NotImplementedError  # pragma: no cover - the position in a printed log is not stored


def until_over(
    following: Following,
    sources: Callable[[], Sequence[LogSource]],
    over: Callable[[], str | None],
    interval_s: float,
    stop: Stop,
) -> None:
    """Read every ``interval_s`` until the run is over and :data:`_STILL` reads in a row found nothing new.

    ``sources`` lists the followed logs, and ``over`` returns how the run ended, or None. Both may raise
    :class:`StoreError`, which is noted once and retried. Raises :class:`BrokenPipeError` when the reader of stdout has
    closed it, and KeyboardInterrupt when ``stop`` was asked.
    """
    still, fault = 0, ""
    while True:
        try:
            fresh = following.look(sources())
            ended = over()
        except StoreError as error:
            if str(error) != fault:
                note(f"{error}; it is tried again")
            fault, fresh, ended = str(error), False, None
        else:
            if fault:
                note("the run can be read again")
            fault = ""
        still = 0 if fresh else still + 1
        if ended is not None and still >= _STILL:
            following.end()
            note(ended)
            return
        if not _wait(interval_s, stop):
            raise BrokenPipeError
        if stop.asked:
            raise KeyboardInterrupt


def _wait(seconds: float, stop: Stop) -> bool:
    """Sleep until the time is over or ``stop`` is asked. Returns False at once when the reader of stdout closes it."""
    if sys.stdout is None or not hasattr(select, "poll"):
        stop.wait(seconds)
        return True
    try:
        poll = select.poll()
        # With an empty mask poll reports only that the other side has closed.
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        stop.wait(seconds)
        return True
    poll.register(stop.fileno(), select.POLLIN)
    until = time.monotonic() + seconds
    while not stop.asked and (left := until - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left * 1000):
            if descriptor != stop.fileno():
                return False
            stop.hear()
    return True
