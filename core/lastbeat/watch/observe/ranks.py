"""The heartbeats of a distributed run's ranks: all are listed, and only a few of them are read.

A look gets the times of all files from the listing that it makes anyway. It reads the files that seem silent or report
that they are late (:class:`SilentRankReader`). An alert needs more (:func:`look_at_ranks`).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from heapq import nlargest, nsmallest
from typing import Final

from lastbeat.model.document_field import Reading
from lastbeat.model.health import read_conditions
from lastbeat.model.heartbeat import Heartbeat, parsed, read_heartbeat
from lastbeat.model.json_values import whole
from lastbeat.model.observation import IllNode, NeverSeen, RankFiles, RanksLookedAt, RanksSeen, Seen
from lastbeat.model.pattern import Pattern
from lastbeat.model.record import Attempt
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import clean, fit, one_line
from lastbeat.stores.port import Blob, Entry, Store, StoreError
from lastbeat.watch.decide.silent_ranks import is_of_attempt, limit_of, seeming_silent

MOST_READ: Final = 32
MOST_PAGES: Final = 8
"""At most this many pages are listed: the times of 8,000 ranks in a bucket."""
MOST_IN_A_LOOK: Final = 8
"""At most this many ranks that seem silent, or report that they are late, are read in a look."""
_LIMIT_BYTES: Final = 16 * 1024
_HOST_RAW, _HOST_LIMIT = 1024, 80
_KEY: Final = Pattern(r"(0|[1-9]\d{0,6})\.json")
_ERROR_RANK: Final = Pattern(r"rank (?P<rank>\d{1,7}) of \d{1,7}\b")


class SilentRankReader:
    """Reads the ranks of one run that seem silent or late, each once while its file does not change."""

    def __init__(self, store: Store, run_id: str, mask: Callable[[str], str]) -> None:
        self._store, self._run_id, self._mask = store, run_id, mask
        self._known: dict[int, tuple[datetime, Heartbeat]] = {}
        """Rank → when its file was stored, by the listing, and its heartbeat."""
        self._ill: dict[int, tuple[datetime, IllNode | None]] = {}
        """Rank → when its file was stored, and its report; None if that cannot be understood."""
        self._limit_s: float | None = None

    def add_to(
        self,
        observed: Seen | NeverSeen,
        files: RankFiles | None,
        attempt: Attempt | None,
        stale_s: float,
        now: datetime,
    ) -> Seen | NeverSeen:
        """``observed`` with the state of its ranks, whose files the listing showed at ``now``. ``stale_s`` is the limit
        of ranks whose beat interval is unknown.

        Ranks that have been late for longest are read first. Of many that seem silent, those with the latest beat are
        read: files that an earlier attempt left are older.
        Never raises because of the store: what it does not return is unknown.
        """
        if files is None or not isinstance(observed, Seen):
            return observed
        metadata = observed.metadata
        # While metadata.json cannot be read, its last content applies.
        if self._limit_s is None or (metadata is not None and metadata.fault is None):
            self._limit_s = limit_of(metadata, stale_s)
        silent = {rank: files.beats[rank] for rank in seeming_silent(files, now, self._limit_s)}
        # Rank 0 reports it in metadata.json, too.
        late = {rank: at for rank, at in files.late.items() if rank in files.beats and (rank or metadata is None)}
        if metadata is not None and metadata.world_size is not None:
            silent, late = (
                {rank: at for rank, at in each.items() if rank < metadata.world_size} for each in (silent, late)
            )
        if attempt is not None and metadata is not None and metadata.start_time == attempt.start_time:
            silent, late = (
                {rank: at for rank, at in each.items() if is_of_attempt(at, attempt)} for each in (silent, late)
            )
        first = nsmallest(MOST_IN_A_LOOK, late, key=lambda rank: (late[rank], rank))
        latest = nlargest(MOST_IN_A_LOOK, silent.keys() - set(first), key=lambda rank: (silent[rank], -rank))
        read, unread, denied = dict[int, tuple[datetime, Heartbeat]](), False, False
        for rank in [*first, *latest][:MOST_IN_A_LOOK]:
            known = self._known.get(rank)
            if known is None or known[0] != files.beats[rank]:
                try:
                    beat = None if unread else _read_rank(self._store, self._run_id, rank, self._mask)
                except StoreError as error:
                    # Some policies allow no watcher to read them; that does not change from look to look.
                    beat, unread, denied = None, error.retryable, denied or not error.retryable
                known = None if beat is None else (files.beats[rank], beat)
            if known is not None:
                read[rank] = known
        self._known = read
        beats = {rank: beat for rank, (_, beat) in read.items()}
        left = False
        if not unread:
            left, unread, closed = self._read_ill_nodes(files, attempt, metadata)
            denied = denied or closed
        nodes = tuple(node for _, node in self._ill.values() if node is not None)
        return replace(observed, ranks=RanksLookedAt(files, self._limit_s, beats, nodes, left, unread, denied))

    def _read_ill_nodes(
        self, files: RankFiles, attempt: Attempt | None, metadata: Heartbeat | None
    ) -> tuple[bool, bool, bool]:
        """Read the reports of other ranks' nodes that have a problem, a few in a look: first those never read, then
        those whose text is oldest. A report stands while its file exists. Returns whether some were never read, whether
        the store failed to return one, and whether reading is forbidden. Files older than the attempt do not count;
        metadata.json reports rank 0's node."""
        world = metadata.world_size if metadata is not None else None
        marks = {
            rank: at
            for rank, at in files.health.items()
            if (rank or metadata is None) and (world is None or rank < world)
        }
        if attempt is not None:
            marks = {rank: at for rank, at in marks.items() if is_of_attempt(at, attempt)}
        found = {rank: self._ill[rank] for rank in sorted(marks) if rank in self._ill}
        new = nsmallest(MOST_IN_A_LOOK, marks.keys() - found.keys(), key=lambda rank: (marks[rank], rank))
        changed = [rank for rank, (at, _) in found.items() if at != marks[rank]]
        again = nsmallest(MOST_IN_A_LOOK, changed, key=lambda rank: (found[rank][0], rank))
        unread, denied = False, False
        for rank in [*new, *again][:MOST_IN_A_LOOK]:
            try:
                found[rank] = marks[rank], self._read_node(rank)
            except StoreError as error:
                denied = denied or not error.retryable
                unread = error.retryable
            if unread:
                break
        self._ill = found
        return len(found) < len(marks), unread, denied

    def _read_node(self, rank: int) -> IllNode | None:
        blob = self._store.read(f"{self._run_id}/ranks/{rank}.health", _LIMIT_BYTES)
        return None if blob is None else _node_of(rank, blob, self._mask)


def look_at_ranks(
    store: Store,
    run_id: str,
    mask: Callable[[str], str],
    attempt: Attempt,
    named: int | None = None,
    world_size: int | None = None,
) -> RanksSeen:
    """The ranks of ``attempt``. A file written before it began, or that names another attempt, does not count. Of very
    many ranks only the ``named`` one, those silent for longest and the first few are read.

    Never raises because of the store: what cannot be listed or read is unknown.
    """
    listed = _listed(store, run_id)
    ours = {rank: entry for rank, entry in listed.items() if is_of_attempt(entry.modified, attempt)}
    found: dict[int, Heartbeat] = {}
    for rank in _chosen(ours, named):
        try:
            beat = _read_rank(store, run_id, rank, mask)
        except StoreError:
            # A store that does not answer delays an alert by at most one of its time limits.
            break
        if beat is not None and is_of_attempt(beat.modified, attempt, beat.attempt):
            found[rank] = beat
    return RanksSeen(found, max(0, len(ours) - len(found)), world_size, attempt.began_at)


def rank_hosts(
    store: Store, run_id: str, mask: Callable[[str], str], ranks: Collection[int], attempt: Attempt
) -> dict[int, str]:
    """The hosts of a few ranks of ``attempt``, as their heartbeats name them. Never raises because of the store."""
    found: dict[int, str] = {}
    for rank in list(ranks)[:MOST_IN_A_LOOK]:
        try:
            beat = _read_rank(store, run_id, rank, mask)
        except StoreError:
            break
        if beat is not None and beat.host and is_of_attempt(beat.modified, attempt, beat.attempt):
            found[rank] = fit(one_line(beat.host), _HOST_LIMIT)
    return found


def rank_in_error(text: str) -> int | None:
    """The rank in the second line of ``_error``, as the SDK and its guardian write it; or None."""
    second = text.partition("\n")[2].partition("\n")[0]
    found = _ERROR_RANK.match(second.strip())
    return int(found["rank"]) if found is not None else None


def _listed(store: Store, run_id: str) -> Mapping[int, Entry]:
    prefix, found, after = f"{run_id}/ranks/", dict[int, Entry](), ""
    for _ in range(MOST_PAGES):
        try:
            page = store.list(prefix, after)
        except StoreError:
            break
        for entry in page.entries:
            name = _KEY.fullmatch(entry.key[len(prefix) :])
            if name is not None and entry.fault is None:
                found[int(name[1])] = entry
        if not page.more or not page.entries:
            break
        after = page.entries[-1].key
    return found


def _chosen(ours: Mapping[int, Entry], named: int | None) -> list[int]:
    first = [named] if named in ours and named is not None else []
    silent = nsmallest(MOST_READ // 2, ours.keys() - set(first), key=lambda rank: (ours[rank].modified, rank))
    others = nsmallest(MOST_READ - len(silent) - len(first), ours.keys() - set(first) - set(silent))
    return [*first, *silent, *others]


def _node_of(rank: int, blob: Blob, mask: Callable[[str], str]) -> IllNode | None:
    """The report of a rank's node, or None if its text cannot be understood."""
    document, shown = parsed(blob), _shown(mask)
    if isinstance(document, str):
        return None
    host = document.get("host")
    return IllNode(
        rank,
        blob.modified,
        shown(host[:_HOST_RAW])[:_HOST_LIMIT] if isinstance(host, str) else None,
        whole(document.get("attempt")),
        read_conditions(document.get("conditions"), Reading(blob.modified, shown)),
    )


def _read_rank(store: Store, run_id: str, rank: int, mask: Callable[[str], str]) -> Heartbeat | None:
    """The rank's heartbeat, or None if it has none. Raises :class:`StoreError`."""
    blob = store.read(f"{run_id}/ranks/{rank}.json", _LIMIT_BYTES)
    return None if blob is None else read_heartbeat(blob, _shown(mask))


def _shown(mask: Callable[[str], str]) -> Callable[[str], str]:
    """A function that hides secrets in text, and what a terminal would interpret."""
    return lambda text: mask_tokens(mask(clean(text)))
