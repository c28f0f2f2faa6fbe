"""``ranks/{rank}.late``: marks a rank whose heartbeat reports an overrun section.

Listings show names and times but no text. Without this file a watcher would have to read the heartbeat of every rank.
"""

import logging
from typing import Final

from lastbeat.stores.port import DeniedError, Store
from lastbeat.training.sdk.beat_tasks import Beat
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import safe_log

_LEAST_S: Final = 1.0
"""Shortest time in s until the next check of a section's limit."""


def is_late(run: Run) -> bool:
    """Whether training is still running and has overrun the limit of a section."""
    return not run.ended and any(span.is_late for span in run.sections.spans())


def late_in_s(run: Run) -> float | None:
    """Seconds until training can be late at the earliest, whether it stays in its section or enters one with a shorter
    limit. None if it is late already, or no limit applies."""
    spans, limits = run.sections.spans(), run.sections.limits
    if run.ended or any(span.is_late for span in spans):
        return None
    known = (*limits.sections.values(), limits.outside_s)
    soonest = [max(_LEAST_S, each) for each in known if each is not None]
    return min([*soonest, *(span.left_s for span in spans if span.left_s is not None)], default=None)


class LateMark:
    """The mark of one rank, which exists only while the rank is late. Readers ignore a mark of an earlier attempt,
    because it is older than this one."""

    purpose = "say that a section takes too long"

    def __init__(self, rank: int) -> None:
        self._name = f"ranks/{rank}.late"
        self.there = False

    def write(self, beat: Beat) -> None:
        """Set rank 0's mark, as a task of its beats. Readers take its sections from metadata.json."""
        self.set(beat.store, beat.folder, late=beat.ending is None and beat.late)

    def set(self, store: Store, folder: str, *, late: bool) -> None:
        """Write or delete the mark if it has changed, after the rank's heartbeat. Raises :class:`StoreError`."""
        if late is self.there:
            return
        if late:
            store.write(folder + self._name, b"")
        else:
            try:
                store.delete(folder + self._name)
            except DeniedError as error:
                # Some policies let training write but not delete. The heartbeat shows that the rank is not late.
                safe_log(logging.DEBUG, "%s stays: %s", self._name, error)
        self.there = late

    def close(self) -> None:
        """Do nothing: this task holds no resources."""
