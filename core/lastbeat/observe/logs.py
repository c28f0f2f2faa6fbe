"""What a run's logs say: read as they grow, and further back when something has happened."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from lastbeat.model.cause import NOTHING, Explanation
from lastbeat.model.log_report import LogReport
from lastbeat.model.text import one_line
from lastbeat.observe.file_log import FileLog, Readers
from lastbeat.observe.log_care import Care
from lastbeat.observe.log_files import MOST, is_of_now
from lastbeat.observe.log_finding import find
from lastbeat.observe.log_shown import shown
from lastbeat.observe.log_source import LogSource
from lastbeat.observe.log_states import report_state, restored_report
from lastbeat.observe.log_summary import summary
from lastbeat.stores.port import Entry, Store, StoreError

if TYPE_CHECKING:
    from lastbeat.causes.mentions import Account
    from lastbeat.causes.reading import LogReader
    from lastbeat.model.signal import Catalogue

ERROR = "_error"
_KNOWN_FILES = 2 * MOST
_NOTES = 10


class Limits(NamedTuple):
    """How much is read."""

    file_bytes: int = 4 << 20
    """Of one file in a look; of more that is new the end is read."""
    look_bytes: int = 16 << 20
    """Of all files in a look; those that get nothing of it come first in the next."""
    look_s: float = 10.0
    """After so long a look asks for no other file."""
    deep_file_bytes: int = 8 << 20
    deep_bytes: int = 32 << 20
    deep_s: float = 30.0


DEFAULT = Limits()


class RunLogs:
    """The logs of one run, those in its folder and those of this machine that ``places`` name: paths and patterns as in
    :mod:`lastbeat.observe.local_logs`.

    Knows between two looks how far each file was read and what that said; :meth:`state` gives it to a later process.
    ``catalogue`` is asked for when there is text to read. ``mask`` hides this watcher's secrets in what leaves here;
    tokens known by their shape are hidden always.

    The times that an attempt began (``since``) are the store's.
    """

    def __init__(
        self,
        store: Store,
        run_id: str,
        catalogue: "Callable[[], Catalogue]",
        mask: Callable[[str], str] = str,
        *,
        places: Sequence[str] = (),
        limits: Limits = DEFAULT,
    ) -> None:
        self.changed = False
        """Whether :meth:`state` is another than it was when it was last asked for, or restored."""
        self.attempt: int | None = None
        """The attempt that is being read, where somebody has said which."""
        self._store = store
        self._run_id = run_id
        self._catalogue = catalogue
        self._mask = mask
        self._places = tuple(places)
        self._limits = limits
        self._readers = Readers(self._fresh, self._restored)
        self._care = Care(run_id, self._readers)
        self._files: dict[str, FileLog] = {}
        self._turn = 0
        self._appeared: set[str] = set()
        """Files that the last look was the first to find."""
        self._report = LogReport()
        self._cold = False
        """Nothing was known before the last look."""

    def look(
        self,
        files: Mapping[str, Entry],
        since: datetime | None = None,
        old_until: datetime | None = None,
        *,
        again: bool = False,
    ) -> LogReport:
        """What the logs say now. ``files`` are the run's files by their name below its folder, as they were just
        listed; one that is not among them need not be gone. What was stored by ``old_until`` is an earlier attempt's.
        Never raises. A file that has not changed costs nothing, one that grew a single read of what is new.

        ``again``: the last look is taken a second time, so nothing stood still in between."""
        sources, notes, hidden = find(self._store, files, self._places, self._files)
        again = again and self._turn > 0
        if not again:
            self._cold, self._appeared = self._turn == 0, set()
            self._turn += 1
        if self._turn > 1:
            self._appeared |= {each.name for each in sources}.difference(self._files)
        self._care.begin()
        began, left = time.monotonic(), self._limits.look_bytes
        fresh = False
        unread: list[str] = []
        waiting = 0
        # Those first that were read longest ago: who had to wait goes before who was read.
        for source in sorted(sources, key=lambda each: self._known(each).turn):
            file = self._known(source)
            if file.is_read(source):
                if not again:
                    # Then its last line counts, though it may not have ended.
                    fresh = fresh or (bool(file.half) and not file.still)
                    file.still, file.notes, file.anew = True, [], False
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
                self._care.trip(file, error)
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
            self._report = self._said()
        unread += [*self._care.tripped, *hidden]
        times = [source.modified for source in sources if source.name in unread]
        return replace(
            self._report,
            notes=self._cleaned([*hidden, *notes, *self._care.tripped.values()]),
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
    ) -> Explanation:
        """Why the run failed or fell silent, from as much of its logs as may be read and from the text of ``_error``.

        Never raises; what cannot be read says nothing.
        """
        from lastbeat.observe.log_deep import Told, shares  # noqa: PLC0415 - only at an event

        # Of one look with that before: what it tells is told of the same instant.
        self.look(files, since, old_until, again=True)
        began = time.monotonic()
        told: list[Told | None] = []
        sources, *_ = find(self._store, files, self._places, self._files)
        newest = max((source.modified for source in sources), default=None)
        found: list[tuple[LogSource, FileLog]] = [
            (source, self._known(source)) for source in sources if is_of_now(source.modified, newest)
        ]
        for share in shares(found, self._limits.deep_file_bytes, self._limits.deep_bytes):
            late = time.monotonic() - began >= self._limits.deep_s
            told.append(self._care.known(share.file) if late else self._care.read_back(share, since))
        listed = {source.name for source in sources}
        told += [
            self._care.known(file)
            for name, file in self._files.items()
            if name not in listed and is_of_now(file.written_at, newest or file.written_at)
        ]
        if error_text:
            reader = self._fresh(ERROR, None, 1)
            reader.feed(error_text.encode("utf-8", "replace"))
            reader.finish()
            told.append(Told(reader.account(), 0))
        accounts = [each.account for each in told if each is not None]
        shifts = {each.account.file: each.shift for each in told if each is not None}
        return self._explained(accounts, shifts, exit_code)

    def begin_attempt(self, number: int | None = None) -> None:
        """Text that was read so far belongs to an earlier attempt, but for that of files which the last look found to
        be others than before, or there for the first time: that is why there is a new attempt. Nothing happens where
        ``number`` is known to be the attempt that is being read, or is the first that anybody speaks of."""
        known, self.attempt = self.attempt, number
        if number is not None and known in {None, number}:
            return
        for file in self._files.values():
            if not file.anew:
                file.begin_attempt()
        self._report, self.changed = self._said(), True

    def state(self) -> dict[str, Any]:
        """All of it as JSON, for :meth:`restore`; from now on nothing has changed."""
        self.changed = False
        return {
            "attempt": self.attempt,
            "turn": self._turn,
            "report": report_state(self._report),
            "files": [file.state() for file in self._files.values()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where another process was. Raises ``ValueError``, ``TypeError``, ``KeyError`` or ``AttributeError`` for
        what :meth:`state` did not give, and then nothing has changed."""
        files = [FileLog.restore(each) for each in state["files"][:_KNOWN_FILES]]
        turn, report = int(state["turn"]), restored_report(state["report"])
        self.attempt = int(state["attempt"]) if state["attempt"] is not None else None
        self._files, self._turn, self._report = {file.name: file for file in files}, turn, report
        self.changed = False

    def _follow(self, file: FileLog, source: LogSource, room: int, since: datetime | None, *, again: bool) -> int:
        from lastbeat.observe.log_following import follow  # noqa: PLC0415 - only where there is something new

        notes, anew = (file.notes, file.anew) if again else ([], False)
        taken = follow(file, source, room, since, self._readers)
        file.notes = [*notes, *file.notes]
        file.turn, file.anew = self._turn, file.anew or anew or source.name in self._appeared
        return taken

    def _known(self, source: LogSource) -> FileLog:
        file = self._files.get(source.name)
        if file is None:
            file = self._files[source.name] = FileLog(source.name, source.rank)
        return file

    def _forget(self, sources: Sequence[LogSource]) -> None:
        """A file that was not listed may come back, but not every file that ever was is remembered."""
        listed = {source.name for source in sources}
        gone = sorted((file for name, file in self._files.items() if name not in listed), key=lambda file: file.turn)
        for file in gone[: max(0, len(self._files) - _KNOWN_FILES)]:
            del self._files[file.name]

    def _said(self) -> LogReport:
        newest = max((file.written_at for file in self._files.values() if file.written_at is not None), default=None)
        files = [file for _, file in sorted(self._files.items()) if is_of_now(file.written_at, newest)]
        told = [(file, account) for file in files if (account := self._care.account(file)) is not None]
        if not told:
            return LogReport()
        # A number that was counted from where reading began would be another one for whoever begins elsewhere.
        counted = {file.name: 0 if file.shift is not None else None for file, _ in told}
        return summary(told, self._explained([account for _, account in told], counted))

    def _explained(
        self,
        accounts: "Sequence[Account]",
        shifts: Mapping[str, int | None] | None = None,
        exit_code: int | None = None,
    ) -> Explanation:
        if not accounts and exit_code is None:
            return NOTHING
        from lastbeat.causes.explaining import explain  # noqa: PLC0415 - only where there is text

        found = explain(accounts, self._catalogue(), exit_code=exit_code)
        return shown(found, self._mask, shifts)

    def _cleaned(self, texts: Sequence[str], most: int | None = _NOTES) -> tuple[str, ...]:
        clean = tuple(self._mask(one_line(text)) for text in texts[:most])
        return clean if most is None or len(texts) <= most else (*clean, f"… and {len(texts) - most} notes more.")

    def _fresh(self, name: str, rank: int | None, line: int) -> "LogReader":
        from lastbeat.causes.reading import LogReader  # noqa: PLC0415 - as above

        reader = LogReader(self._catalogue(), name, rank=rank)
        if line == 1:
            return reader
        state = reader.state()
        state["splitter"]["number"] = line
        return LogReader.restore(self._catalogue(), state)

    def _restored(self, state: Mapping[str, Any]) -> "LogReader":
        from lastbeat.causes.reading import LogReader  # noqa: PLC0415 - as above

        return LogReader.restore(self._catalogue(), state)
