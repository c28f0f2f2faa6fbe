"""``ranks/{rank}.late``: a rank says in its heartbeat that it has been in a section for too long.

Listings show names and times but no text, so without this file whoever watches a fleet would have to read the heartbeat
of every rank to find that out.
"""

import logging
from typing import Final

from lastbeat.sdk.beat_tasks import Beat
from lastbeat.sdk.run import Run
from lastbeat.sdk.safe_log import safe_log
from lastbeat.stores.port import DeniedError, Store

_LEAST_S: Final = 1.0
"""Training is not looked at more often for what it may do next."""


def is_late(run: Run) -> bool:
    """Whether training is in a section for longer than it may, and has not ended."""
    return not run.ended and any(span.is_late for span in run.sections.spans())


def late_in_s(run: Run) -> float | None:
    """Seconds until it is at the earliest: should it stay where it is now, or be somewhere else from now on, which may
    have a shorter limit. None: it is, or may stay for ever."""
    spans, limits = run.sections.spans(), run.sections.limits
    if run.ended or any(span.is_late for span in spans):
        return None
    known = (*limits.sections.values(), limits.outside_s)
    soonest = [max(_LEAST_S, each) for each in known if each is not None]
    return min([*soonest, *(span.left_s for span in spans if span.left_s is not None)], default=None)


class LateMark:
    """The mark of one rank: there only while it is late. What an earlier attempt left is older than this one, and
    counts for nobody."""

    purpose = "say that a section takes too long"

    def __init__(self, rank: int) -> None:
        self._name = f"ranks/{rank}.late"
        self.there = False

    def write(self, beat: Beat) -> None:
        """As a task of rank 0's beats, whose metadata.json is what is read of it."""
        self.set(beat.store, beat.folder, late=beat.ending is None and beat.late)

    def set(self, store: Store, folder: str, *, late: bool) -> None:
        """Leave it, or take it away, if that is news. Its heartbeat is written by then. Raises :class:`StoreError`."""
        if late is self.there:
            return
        if late:
            store.write(folder + self._name, b"")
        else:
            try:
                store.delete(folder + self._name)
            except DeniedError as error:
                # Some policies let training write but not delete. Its heartbeat says that it is over.
                safe_log(logging.DEBUG, "%s stays: %s", self._name, error)
        self.there = late

    def close(self) -> None:
        """Nothing is held."""
