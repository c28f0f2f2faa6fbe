"""Which conditions people were told of, remembered apart from the conditions themselves. Pure.

A watcher of an older version beside this one drops the conditions that it does not know when it writes the record. They
hold none the less, and nobody wants to be told of them again at every pass.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from lastbeat.decide.health import seen_well
from lastbeat.model import status as names
from lastbeat.model.health import HEALTH_CONDITIONS
from lastbeat.model.job import JobState
from lastbeat.model.record import Record
from lastbeat.model.status import Status

if TYPE_CHECKING:
    from lastbeat.decide.verdict import AttemptEvidence

_DROPPED: Final = (names.RANK_SILENT, names.EFA_FALLBACK, names.STRAGGLER, names.SLOW, *HEALTH_CONDITIONS)
"""Those that some older version does not know."""


def known_told(before: Record) -> Mapping[str, datetime]:
    """Condition → when people were told of it, as far as that is of the run's present status: an older version carries
    it along through changes of status and attempts."""
    return {name: at for name, at in before.conditions_told.items() if before.since is None or at >= before.since}


def told_after(
    before: Record, evidence: "AttemptEvidence", status: Status, raised: Mapping[str, str], now: datetime, *, new: bool
) -> dict[str, datetime]:
    """The same after a look that found ``status`` and ``raised``. What this watcher could not look at, it does not
    forget. ``new``: the look changed the status or the attempt."""
    if status is not Status.RUNNING:
        return {}
    known = {} if new else known_told(before)
    told = {name: known.get(name, now) for name in _DROPPED if name in raised}
    return {**{name: at for name, at in known.items() if not _is_over(name, evidence)}, **told}


def _is_over(name: str, evidence: "AttemptEvidence") -> bool:
    """Whether this look showed that ``name``, which it did not raise, holds no more."""
    seen = evidence.seen
    if name == names.RANK_SILENT:
        return seen.ranks is not None and not (seen.ranks.unread or seen.ranks.denied)
    if name in {names.STRAGGLER, names.SLOW}:
        return seen.metadata is not None and seen.metadata.fault is None
    if name == names.EFA_FALLBACK:
        return seen.logs is not None and seen.logs.efa.active is not None
    if name in HEALTH_CONDITIONS and name not in seen_well(evidence):
        return False
    if name == names.GPU_IDLE:
        if seen.job is None and evidence.known_job is None:
            return True
        report = seen.job.report if seen.job is not None else None
        if report is None or report.state is JobState.UNKNOWN:
            return False
        # Where an older version lost since when they idle, that is found out anew.
        return report.state is not JobState.RUNNING or (report.gpus is not None and not report.gpus.idle)
    return name in HEALTH_CONDITIONS
