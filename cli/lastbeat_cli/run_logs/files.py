"""Lists the logs of a run, and selects the wanted ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from lastbeat.model import runid
from lastbeat.settings import Settings, table
from lastbeat.stores.port import Entry, Store
from lastbeat.watch.observe import log_files
from lastbeat.watch.observe.local_logs import local_logs
from lastbeat.watch.observe.log_files import FOLDER, MOST, choose, is_log, is_of_now
from lastbeat.watch.observe.log_source import LogSource, StoredLog

EXTRA: Final = (runid.ERROR, runid.STACKS)
"""Texts of a run besides its logs; shown only by name."""


@dataclass(frozen=True, slots=True)
class LogSelection:
    """The files and ranks given on the command line. Empty selects the run's main log."""

    files: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()

    @property
    def anything(self) -> bool:
        return bool(self.files or self.ranks)

    def wants(self, source: LogSource) -> bool:
        """Whether ``source`` is selected by its name or rank."""
        name = source.name
        short = name.removeprefix(FOLDER)
        if any(fnmatchcase(name, each) or fnmatchcase(short, each) for each in self.files):
            return True
        return source.rank is not None and source.rank in self.ranks and name not in EXTRA


def stored(store: Store, files: Mapping[str, Entry]) -> list[LogSource]:
    """The logs and other texts (:data:`EXTRA`) among a run's files, newest first."""
    names = [name for name, entry in files.items() if entry.fault is None and (is_log(name) or name in EXTRA)]
    names.sort(key=lambda name: (files[name].modified, name), reverse=True)
    return [StoredLog(store, name, files[name]) for name in names]


def local(settings: Settings) -> tuple[list[LogSource], list[str]]:
    """The logs on this machine that LASTBEAT_LOGS names, for programs without the SDK; and notes on them."""
    patterns = settings[table.LOGS]
    if not patterns:
        return [], []
    found, notes, hidden = local_logs(patterns)
    return list(found), [*notes, *hidden]


def chosen(sources: Sequence[LogSource], choice: LogSelection) -> list[LogSource]:
    """The selected logs by name; without a selection the run's main log, or else the most useful one.

    Logs of the current job come first, then logs without a rank, then lower ranks.
    """
    if choice.anything:
        found = [source for source in sources if choice.wants(source)]
        return sorted(found, key=_order)[:MOST]
    named = {source.name: source for source in sources if source.name not in EXTRA}
    newest = max((source.modified for source in named.values()), default=None)
    now = {
        name: Entry(name, source.size_bytes, source.modified, source.version)
        for name, source in named.items()
        if is_of_now(source.modified, newest)
    }
    return [named[name] for name in choose(now, 1)]


def _order(source: LogSource) -> tuple[bool, int, str]:
    return source.rank is not None, source.rank or 0, source.name


def rank_of(source: LogSource) -> int | None:
    """The rank that wrote the log, or None."""
    return None if source.name in EXTRA else log_files.rank_of(source.name)
