"""All files of one run that people are shown, from one listing: its own, its logs, and what its ranks wrote."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lastbeat.observe.listing import RANK_PAGES, RANKS, Folder, rank_of, run_files
from lastbeat.stores.port import Entry, Store, StoreError

_CLOSED: Final = 10


@dataclass(frozen=True, slots=True)
class Listed:
    """One run as a listing shows it."""

    files: dict[str, Entry]
    """Its own files and logs, by their name below the run's folder, as :class:`Folder` has them."""
    ranks: dict[int, Entry]
    """Its ranks' heartbeats, by rank."""
    more_ranks: bool = False
    """Whether there were more files in ``ranks/`` than are listed."""
    closed: Mapping[str, StoreError] = field(default_factory=dict)
    """What people would be shown and nobody could look at, by name, and why; few."""


class _WithRanks(Folder):
    """A run's folder with the whole entries of its ranks' heartbeats."""

    def __init__(self) -> None:
        super().__init__(RANK_PAGES)
        self.beats: dict[int, Entry] = {}
        self.closed: dict[str, StoreError] = {}

    def see(self, name: str, entry: Entry) -> None:
        rank = rank_of(name)
        if entry.fault is not None and name.startswith(RANKS[:-1]):
            if len(self.closed) < _CLOSED and (rank is not None or name.rstrip("/") == RANKS[:-1]):
                self.closed[name] = entry.fault
        elif rank is not None:
            self.beats[rank] = entry
        else:
            super().see(name, entry)


def list_run(store: Store, run_id: str) -> Listed:
    """One listing: a page holds nearly every run whole. Raises :class:`StoreError`."""
    folder = _WithRanks()
    files = run_files(store, run_id, folder)
    closed = {name: entry.fault for name, entry in files.items() if entry.fault is not None}
    return Listed(files, folder.beats, folder.ranks_cut, {**closed, **folder.closed})
