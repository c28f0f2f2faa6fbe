"""The world size of a run and the hosts of its ranks, read from its folder."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from lastbeat.model import runid
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, read_heartbeat
from lastbeat.model.record import Attempt
from lastbeat.stores.directory import DirectoryStore
from lastbeat.stores.port import Store, StoreError
from lastbeat.watch.observe.ranks import rank_hosts


@dataclass(frozen=True, slots=True)
class RankFacts:
    """Reads world size and hosts of the run ``run_id`` in ``store``."""

    store: Store
    run_id: str
    mask: Callable[[str], str]

    @classmethod
    def of_folder(cls, folder: Path, mask: Callable[[str], str]) -> "RankFacts":
        """The facts of the run in ``folder``; unknown if the folder holds no run."""
        place = folder.resolve()
        return cls(DirectoryStore(place.parent), place.name, mask)

    def world_size(self) -> int | None:
        """The number of ranks in metadata.json, or None if unknown."""
        try:
            blob = self.store.read(f"{self.run_id}/{runid.METADATA}", DOCUMENT_LIMIT_BYTES)
        except StoreError:
            return None
        return None if blob is None else read_heartbeat(blob).world_size

    def hosts(self, ranks: Collection[int]) -> Mapping[int, str]:
        """Rank → host, for those of ``ranks`` whose host is known."""
        return rank_hosts(self.store, self.run_id, self.mask, ranks, Attempt())
