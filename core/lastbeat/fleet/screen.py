"""Does a run need a look? Decided from what a listing shows, so that a healthy fleet costs its listing alone.

A look reads, judges and records (``watchdog.Watch``); nothing here decides anything about a run. So what matters is
that no change which a look would act on is passed over; one look too many costs three requests.
"""

import zlib
from enum import Enum

from lastbeat.fleet.memory import Glimpse, RunMemory, beats_of
from lastbeat.model import runid
from lastbeat.model.policy import Policy
from lastbeat.model.status import Status

BEATING_S = 300.0
"""A run that is over, or hangs, and keeps writing is looked at this often."""


class Why(Enum):
    """What makes a run worth a look."""

    SENTINEL = "its sentinels are not those of the last look"
    STALE = "a heartbeat got too old, or came back"
    BEATS = "it was over and has written again"
    FILES = "a heartbeat is there that was not, or the other way round"
    RECORD = "another watcher has written its record"
    WAKE = "something falls due"
    READ = "its heartbeats have not been read for a while"
    NEW = "it is not known yet"


def screen(memory: RunMemory | None, glimpse: Glimpse, policy: Policy, read_s: float) -> Why | None:
    """Why the run needs a look now; None when everything is as a look would expect it. Pure."""
    if memory is None:
        return Why.NEW
    shown, known = glimpse.files, memory.files
    if any(shown[name] != known.get(name) for name in (runid.ERROR, runid.COMPLETE) if name in shown):
        return Why.SENTINEL
    beats = [name for name in beats_of(shown, by_log=memory.by_log) if name in shown]
    if any((shown[name] is None) != (known.get(name) is None) for name in beats):
        return Why.FILES
    moved = any(shown[name] != known.get(name) for name in beats)
    if memory.line.status is not Status.RUNNING:
        if moved and (not memory.beating or glimpse.at - memory.looked_at >= BEATING_S):
            return Why.BEATS
    elif any(_stale(shown[name], glimpse.at, policy) != _stale(known.get(name), memory.looked_at, policy)
             for name in beats):  # fmt: skip
        return Why.STALE
    if runid.RECORD in shown and _version(shown[runid.RECORD]) != _version(known.get(runid.RECORD)):
        return Why.RECORD
    if memory.wake is not None and glimpse.at >= memory.wake:
        return Why.WAKE
    stall_s = policy.inactivity_s if policy.stall_s is None else policy.stall_s
    limit_s = read_s if stall_s is None else min(read_s, stall_s / 4)
    # What was read in one pass is not read in one pass for ever.
    limit_s *= 0.9 + 0.1 * share(memory.line.run_id)
    if memory.line.status is Status.RUNNING and glimpse.at - memory.looked_at >= limit_s:
        return Why.READ
    return None


def share(run_id: str) -> float:
    """From 0 to 1, different for each run and always the same: spreads over time what need not be at once."""
    return zlib.crc32(run_id.encode()) / 2**32


def _version(file: tuple[float, str] | None) -> str | None:
    return file[1] if file else None


def _stale(file: tuple[float, str] | None, at: float, policy: Policy) -> bool:
    return file is not None and at - file[0] > policy.stale_s
