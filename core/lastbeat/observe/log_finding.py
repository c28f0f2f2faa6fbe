"""Which logs a run has: those of its folder, and those of this machine that somebody named."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from lastbeat.observe.log_files import LISTED, MOST, choose, is_log, of_logs
from lastbeat.observe.log_source import LogSource, StoredLog
from lastbeat.stores.port import Entry, Store


class Sources(NamedTuple):
    """What is to be read, and what has to be said of the rest."""

    logs: list[LogSource]
    notes: list[str]
    hidden: list[str]
    """What could not be looked at, and why."""


def find(store: Store, files: Mapping[str, Entry], places: Sequence[str], known: Collection[str]) -> Sources:
    """The logs among ``files``, the run's files by their name below its folder, and those that ``places`` lead to.
    ``known`` are the names of logs that were read before. Never raises."""
    logs = {name: entry for name, entry in files.items() if is_log(name) and entry.fault is None}
    chosen = choose(logs, MOST)
    notes = list[str]()
    closed = [f"{name}: {entry.fault}." for name, entry in files.items() if entry.fault and of_logs(name)]
    hidden: list[str] = []
    if len(logs) > len(chosen):
        more = f"{len(logs) - len(chosen)}{' or more' if len(logs) >= LISTED else ''}"
        notes.append(f"logs/ holds more than {MOST} log files: {more} of them are not read.")
    found: list[LogSource] = [StoredLog(store, name, entry) for name, entry in chosen.items()]
    if places:
        from lastbeat.observe.local_logs import local_logs  # noqa: PLC0415 - few watch any

        # The names of logs in the store are no paths of this machine.
        local, said, hidden = local_logs(places, MOST, [name for name in known if not is_log(name)])
        found += local
        notes += said
    return Sources(found, notes, [*closed, *hidden])
