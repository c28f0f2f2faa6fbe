"""Missing ranks: those that all others waited for in a collective, known by their silence about its timeout."""

from collections.abc import Sequence
from typing import Final

from lastbeat.causes import error_file
from lastbeat.causes.candidates import Candidate, Tier
from lastbeat.causes.log_summary import LogSummary
from lastbeat.model.cause import MISSING_LIMIT, MissingRank, MissingRanks
from lastbeat.model.pattern import Pattern

_TIMEOUTS: Final = frozenset({"nccl_timeout", "distributed_timeout"})
"""Error types of a wait for other ranks that ran out of time."""
_ON_REQUEST: Final = Pattern(r"Received a (?:dump|timeout) signal")
"""A rank prints this when another one has timed out."""


def missing_ranks(
    best: Candidate, candidates: Sequence[Candidate], logs: Sequence[LogSummary], world_size: int | None
) -> MissingRanks | None:
    """The ranks that do not report the timeout ``best``, given that ``logs`` were read to their end. None: unknown.

    1. Each rank from 0 on has a log, or reports it in a common one. Without ``world_size``, the logs' numbers tell how
       many ranks there are.
    2. Some rank does not report it, and at least as many do: a timeout of a few ranks is a matter of their own group.
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
    """By the longest of its logs: another one may hold its standard error."""
    log = max((log for log in logs if log.rank == rank), key=lambda each: each.lines)
    times = [time for time in (log.last_time, log.progress_time) if time is not None]
    site = next((stack.site.split(":", 2) for stack in log.stacks if stack.site), [])
    stack = f"{site[0]}:{site[1]} in {site[2]}" if len(site) == 3 else ""
    return MissingRank(rank, log.file, None, max(times, default=None), log.progress.step, stack)
