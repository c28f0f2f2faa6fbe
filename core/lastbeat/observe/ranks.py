"""The heartbeats of a distributed training's ranks, for an alert: all are listed, and only a few of them read."""

import json
import re
from collections.abc import Callable, Mapping
from heapq import nsmallest
from typing import Final

from lastbeat.model.observation import RankBeat, RanksSeen
from lastbeat.model.record import Attempt
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import clean
from lastbeat.observe.documents import read_heartbeat
from lastbeat.stores.port import Blob, Entry, Store, StoreError

MOST_READ: Final = 32
MOST_PAGES: Final = 8
"""So many pages of a listing are asked for: the times of 8,000 ranks in a bucket."""
_LIMIT_BYTES: Final = 16 * 1024
_KEY: Final = re.compile(r"(0|[1-9]\d{0,6})\.json")
_ERROR_RANK: Final = re.compile(r"rank (?P<rank>\d{1,7}) of \d{1,7}\b")


def look_at_ranks(
    store: Store,
    run_id: str,
    mask: Callable[[str], str],
    attempt: Attempt,
    named: int | None = None,
    world_size: int | None = None,
) -> RanksSeen:
    """The ranks of ``attempt``: what was written before it began, or names another one, is of an earlier one. Of very
    many only the ``named`` one, those silent for longest and the first few are read.

    Never raises for the store: what cannot be listed or read is not known.
    """
    listed = _listed(store, run_id)
    began = attempt.began_at
    # Stores that stamp whole seconds stamp a file written right after the start as older than it.
    start = None if began is None else began.replace(microsecond=0)
    ours = {rank: entry for rank, entry in listed.items() if start is None or entry.modified >= start}
    found: list[RankBeat] = []
    for rank in _chosen(ours, named):
        try:
            blob = store.read(ours[rank].key, _LIMIT_BYTES)
        except StoreError:
            # A store that does not answer costs an alert no more than one of its time limits.
            break
        beat, of_attempt = _understood(rank, blob, mask) if blob is not None else (None, None)
        if beat is not None and (attempt.declared is None or of_attempt in {None, attempt.declared}):
            found.append(beat)
    return RanksSeen(tuple(found), max(0, len(ours) - len(found)), world_size, began)


def rank_in_error(text: str) -> int | None:
    """The rank that ``_error`` names in its second line, as the SDK and its guardian write it."""
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


def _understood(rank: int, blob: Blob, mask: Callable[[str], str]) -> tuple[RankBeat, int | None]:
    def shown(text: str) -> str:
        return mask_tokens(mask(clean(text)))

    beat = read_heartbeat(blob, shown)
    status = None if beat.fault else json.loads(blob.body.decode("utf-8-sig")).get("status")
    told = status if isinstance(status, str) else None
    return RankBeat(rank, blob.modified, beat.step, beat.host, told, beat.beat_s), beat.attempt
