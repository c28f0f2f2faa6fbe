"""Lists, prints and follows a run's logs."""

import signal
from collections.abc import Callable, Mapping, Sequence

from lastbeat.model import runid
from lastbeat.model.amounts import size
from lastbeat.model.times import format_duration, format_time
from lastbeat.settings import Settings
from lastbeat.stores import run_names
from lastbeat.stores.port import Entry, Store, StoreError
from lastbeat.views.one_run import run_watch
from lastbeat.watch.observe.listing import run_files
from lastbeat.watch.observe.log_source import LogSource
from lastbeat_cli import logs
from lastbeat_cli.document import tell
from lastbeat_cli.loop import Stop
from lastbeat_cli.run_logs import files, reading
from lastbeat_cli.run_logs.files import LogSelection
from lastbeat_cli.run_logs.following import Following, until_over
from lastbeat_cli.run_logs.printing import Printer, note, short_name

_NAMES = 10


class Asked:
    """A run and the selection of its logs."""

    def __init__(self, settings: Settings, store: Store, run_id: str, choice: LogSelection) -> None:
        self.settings, self.store, self.run_id, self.choice = settings, store, run_id, choice
        self.files: Mapping[str, Entry] = {}
        """The run's files as last listed."""
        self._said: set[str] = set()

    def sources(self) -> list[LogSource]:
        """All texts of the run, newest first. Raises :class:`StoreError`, also if there is no such run."""
        self.files = run_files(self.store, self.run_id)
        if not self.files:
            raise run_names.unknown(self.store, self.run_id)
        found = files.stored(self.store, self.files)
        if any(source.name not in files.EXTRA for source in found):
            for name, entry in self.files.items():
                if entry.fault is not None:
                    self.say_once(f"{name} could not be looked at: {entry.fault}")
            return found
        # A program without the SDK leaves its log on its machine, which may be this one.
        here, notes = files.local(self.settings)
        for each in notes:
            self.say_once(each)
        return [*found, *here]

    def meant(self, *, wait: bool = False) -> list[LogSource]:
        """The selected logs. Raises :class:`StoreError` if there are none, unless ``wait``: they may come later."""
        there = self.sources()
        found = files.chosen(there, self.choice)
        if not found and not wait:
            raise self._none(there)
        return found

    def say_once(self, text: str) -> None:
        """Print ``text`` as a note, unless that was done before."""
        if text not in self._said:
            self._said.add(text)
            note(text)

    def _none(self, there: Sequence[LogSource]) -> StoreError:
        closed = next((entry.fault for entry in self.files.values() if entry.fault is not None), None)
        if closed is not None:
            # The log may exist but be unreadable.
            return closed
        names = [short_name(source.name) for source in there]
        if self.choice.anything:
            listed = ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
            advice = f"It has: {listed}." if names else "It has none at all."
            return StoreError(f"the run {self.run_id} has no log that was asked for", advice)
        advice = (
            "Training may ship its log: lastbeat.run(..., log_file=...), lastbeat exec, or aws s3 cp; LASTBEAT_LOGS "
            "names those of this machine."
        )
        if runid.ERROR in self.files:
            advice = f"'lastbeat logs {self.run_id} --file _error' shows what it said when it failed. {advice}"
        return StoreError(f"the run {self.run_id} has no log", advice)


def show(sources: Sequence[LogSource], printer: Printer, most: int | None) -> None:
    """Print the last ``most`` lines of each log, or all.

    Raises :class:`StoreError` for the first log that cannot be read, after all others were printed.
    """
    printer.named = len(sources) > 1
    unread = [fault for source in sources if (fault := _show_one(source, printer, most)) is not None]
    if unread:
        printer.flush()
        raise unread[0]


def _show_one(source: LogSource, printer: Printer, most: int | None) -> StoreError | None:
    try:
        if most is None or printer.grep:
            _show_all(source, printer, most)
            return None
        end = _show_end(source, printer, most)
        if end is None:
            note(f"{source.name} went away while it was read")
        elif end.half and (text := printer.text(end.half)) is not None:
            printer.show(source.name, text)
    except StoreError as fault:
        if printer.named:
            note(f"{source.name} could not be read: {fault}")
        return fault
    return None


def _show_end(source: LogSource, printer: Printer, most: int) -> reading.End | None:
    """Print the last complete lines, and return the end of the log, or None if it is gone."""
    end = reading.end_of(source, most)
    if end is None:
        return None
    if end.short:
        note(f"{source.name}: its lines are so long that only the last {len(end.lines)} were read; -n all reads all")
    for line in end.lines:
        if (text := printer.text(line)) is not None:
            printer.show(source.name, text)
    return end


def _show_all(source: LogSource, printer: Printer, most: int | None, until: int | None = None) -> None:
    found = reading.all_of(source, printer, until)
    if most is not None:
        last = reading.Last(most)
        for text in found:
            last.add(text)
        if last.short:
            note(f"{source.name}: so much was found that only the last {len(last.lines)} are kept; -n all shows all")
        found = iter(last.lines)
    for text in found:
        printer.show(source.name, text)


def follow(asked: Asked, printer: Printer, most: int | None, interval_s: float, *, ends: bool) -> None:
    """Print the last ``most`` lines of each log, or all, and then new lines; with ``ends`` until the run is over."""
    following = Following(printer)
    began = asked.meant(wait=True)
    one = not asked.choice.ranks and not any(set(name) & set("*?[") for name in asked.choice.files)
    printer.named = len(began) > 1 or not one
    if not began:
        note("there is no such log yet; it is waited for")
    for source in began:
        if most is None or printer.grep:
            end = reading.end_of(source, 0)
            if end is not None:
                _show_all(source, printer, most, end.cursor.offset)
        else:
            end = _show_end(source, printer, most)
        if end is not None:
            following.begin(source, end.cursor)
    printer.flush()
    names = [source.name for source in began]

    def sources() -> list[LogSource]:
        there = asked.meant(wait=True)
        for source in there:
            if source.name not in names:
                names.append(source.name)
                if len(names) > 1:
                    note(f"{short_name(source.name)} is followed, too")
        return there

    with Stop((signal.SIGINT,)) as stop:
        until_over(following, sources, _over(asked) if ends else lambda: None, interval_s, stop)


def _over(asked: Asked) -> Callable[[], str | None]:
    """A function that returns how the run ended, or None. It reads again only after record or sentinels changed."""
    watch = run_watch(asked.settings, asked.run_id, at=asked.store, places=True)
    seen: list[tuple[object, str | None]] = []

    def over() -> str | None:
        key = [asked.files.get(name) for name in (runid.RECORD, runid.ERROR, runid.COMPLETE)]
        if not seen or seen[-1][0] != key:
            view = watch.look(log_lines=0)
            told = None
            if view is not None and watch.ended is not None:
                why = f", {view.row.reason}" if view.row.status is watch.ended and view.row.reason else ""
                told = f"the run is over: {watch.ended}{why}"
            seen[:] = [(key, told)]
        return seen[-1][1]

    return over


def list_files(asked: Asked, *, as_json: bool) -> None:
    """Print name, size and age of each log, newest first."""
    at = asked.store.clock()
    found = [source for source in asked.sources() if not asked.choice.anything or asked.choice.wants(source)]
    if as_json:
        told = [
            {
                "file": logs.redact(source.name),
                "bytes": source.size_bytes,
                "modified": format_time(source.modified),
                "rank": files.rank_of(source),
            }
            for source in found
        ]
        tell({"run_id": asked.run_id, "logs": told}, (), as_json=True)
        return
    for source in found:
        age = f"{format_duration(at - source.modified)} ago"
        print(f"{size(source.size_bytes):>12}  {age:<14} {logs.redact(short_name(source.name))}")
    if not found:
        note("there is none")
