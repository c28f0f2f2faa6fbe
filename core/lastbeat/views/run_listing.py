"""All files of one run that people are shown, from one listing: its own, its logs, and what its ranks wrote."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lastbeat.observe.listing import BEHIND, Folder, run_files
from lastbeat.stores.port import Entry, Store, StoreError

RANK_PAGES: Final = 16
"""So many pages of a listing may be asked for within ``ranks/``: as many as 16,000 files."""
_RANKS: Final = "ranks/"
_CLOSED: Final = 10
_RANK = re.compile(r"ranks/(0|[1-9]\d{0,6})\.json")


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
    """A run's folder, ``ranks/`` included, which comes after all else that is wanted of it."""

    def __init__(self) -> None:
        super().__init__()
        self.ranks: dict[int, Entry] = {}
        self.closed: dict[str, StoreError] = {}
        self.cut = False
        self._pages = RANK_PAGES

    def see(self, name: str, entry: Entry) -> None:
        if entry.fault is not None and name.startswith(_RANKS[:-1]):
            if len(self.closed) < _CLOSED and (_RANK.fullmatch(name) or name.rstrip("/") == _RANKS[:-1]):
                self.closed[name] = entry.fault
            return
        found = _RANK.fullmatch(name) if name.startswith(_RANKS) else None
        if found is not None:
            self.ranks[int(found[1])] = entry
        else:
            super().see(name, entry)

    def onward(self, last: str) -> str | None:
        ahead = super().onward(last)
        if ahead is not None:
            return ahead
        if last.encode() < _RANKS.encode():
            # Behind all that begins with ``ranks`` and is no folder of that name.
            return f"{_RANKS[:-1]}.{BEHIND}"
        if not last.startswith(_RANKS):
            return None
        self._pages -= 1
        self.cut = self._pages <= 0
        return None if self.cut else last


def list_run(store: Store, run_id: str) -> Listed:
    """One listing: a page holds nearly every run whole. Raises :class:`StoreError`."""
    folder = _WithRanks()
    files = run_files(store, run_id, folder)
    closed = {name: entry.fault for name, entry in files.items() if entry.fault is not None}
    return Listed(files, folder.ranks, folder.cut, {**closed, **folder.closed})
