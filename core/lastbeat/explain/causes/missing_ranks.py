"""Finds missing ranks: those that all others waited for in a collective. They do not report its timeout."""

from collections.abc import Sequence
from typing import Final

from lastbeat.explain.causes import error_file
from lastbeat.explain.causes.candidates import Candidate, Tier
from lastbeat.explain.causes.log_summary import LogSummary
from lastbeat.model.cause import MISSING_LIMIT, MissingRank, MissingRanks
from lastbeat.model.pattern import Pattern

_TIMEOUTS: Final = frozenset({"nccl_timeout", "distributed_timeout"})
"""Error types of a wait for other ranks that timed out."""
_ON_REQUEST: Final = Pattern(r"Received a (?:dump|timeout) signal")
"""A rank prints this when another one has timed out."""


def missing_ranks(
    best: Candidate, candidates: Sequence[Candidate], logs: Sequence[LogSummary], world_size: int | None
) -> MissingRanks | None:
    """The ranks that do not report the timeout ``best``, given that ``logs`` were read to their end. None if unknown,
    which is unless both conditions hold:

    1. Each rank from 0 on has a log, or reports the timeout in a common one. Without ``world_size``, the logs' numbers
       give the number of ranks.
    2. At least one rank does not report the timeout, and at least as many do. A timeout of a few ranks concerns only
       their own group.
    """
    if best.tier != Tier.SYMPTOM or best.error_type not in _TIMEOUTS:
        return None
    reporting = {
        each.rank
        for each in candidates
        if each.error_type == best.error_type and each.rank is not None and not _ON_REQUEST.search(each.mention.text)
    }
    own = {log.rank: log for log in logs if log.rank is not None and not error_file.is_error(log.file)}
    known = reporting | own.keys()
    missing = sorted(known - reporting)
    whole = max(known, default=0) + 1 == len(known) and world_size in {None, len(known)}
    if not whole or not missing or len(missing) > len(reporting):
        return None
    named = tuple(_missing(rank, logs) for rank in missing[:MISSING_LIMIT])
    return MissingRanks(named, len(missing), len(known))


def _missing(rank: int, logs: Sequence[LogSummary]) -> MissingRank:
    """A missing rank's last state, by the longest of its logs; another log may hold only its standard error."""
    log = max((log for log in logs if log.rank == rank), key=lambda each: each.lines)
    times = [time for time in (log.last_time, log.progress_time) if time is not None]
    frame = next((stack.frame for stack in log.stacks if stack.frame), "")
    return MissingRank(rank, log.file, None, max(times, default=None), log.progress.step, frame)
