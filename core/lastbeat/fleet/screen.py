"""Decides from a listing whether a run needs a look, so that a healthy fleet costs only its listing. Pure.

A look reads, decides and records (``watchdog.Watch``); this module decides no status. A screen must not
miss a change that a look would act on. An unnecessary look costs three requests.
"""

import zlib
from collections.abc import Sequence
from enum import Enum

from lastbeat.fleet.index import Files, FileSnapshot, IndexedRun, beats_of
from lastbeat.model import runid
from lastbeat.model.learned_limits import IDLE_FLOOR_S
from lastbeat.model.policy import Policy
from lastbeat.model.status import Status

BEATING_S = 300.0
"""Time in s between two looks at a run that ended or hangs, and still writes."""


class LookReason(Enum):
    """Why a run needs a look."""

    SENTINEL = "its sentinels are not those of the last look"
    STALE = "a heartbeat went stale, or came back"
    BEATS = "it ended, and has written since"
    FILES = "a heartbeat appeared or vanished"
    RECORD = "another watcher has written its record"
    RANKS = "other ranks seem silent, late or not well than at the last look"
    WAKE = "something falls due"
    LIMITS = "the fleet's limits for it have changed"
    READ = "its heartbeats have not been read for a while"
    RAISED = "training raised an alert"
    NEW = "it is not known yet"


def screen(known: IndexedRun | None, files: FileSnapshot, policy: Policy, read_s: float) -> LookReason | None:
    """Why the run needs a look; None if a look would find nothing new. ``policy`` has the fleet's limits for it;
    ``read_s`` is the time between two readings of its heartbeats.

    The first reason that applies:

    1. The run has no entry yet.
    2. A sentinel came, changed or went.
    3. A heartbeat appeared or vanished, or training raised an alert.
    4. It does not run, but writes: at once the first time, then every five minutes. Or it runs, and a heartbeat became
       stale, or fresh again; or the run began or ceased to miss its own beats.
       It runs or is timed out, and the set of its ranks that seem silent, late or unhealthy has changed.
    5. Another watcher wrote its record.
    6. Something falls due (:func:`lastbeat.fleet.index.wake_of`).
    7. It has not ended, and the fleet's limits for it have changed since the last look.
    8. It runs, and its heartbeats were not read for ``read_s``, or for a quarter of the stall limit.

    Files that were not checked give no reason.
    """
    if known is None:
        return LookReason.NEW
    policy = policy.of_run(known.stale_s, known.stall_s)
    shown, before = files.files, known.files
    before_end = {**before, runid.PREEMPTED: known.preempted}
    if any(shown[name] != before_end.get(name) for name in runid.SENTINELS if name in shown):
        return LookReason.SENTINEL
    beats = [name for name in beats_of(shown, by_log=known.by_log) if name in shown]
    if any((shown[name] is None) != (before.get(name) is None) for name in beats):
        return LookReason.FILES
    if _stored_since(shown.get(runid.ALERTS), known.looked_at):
        return LookReason.RAISED
    moved = any(shown[name] != before.get(name) for name in beats)
    if known.line.status is not Status.RUNNING:
        if moved and (not known.beating or files.at - known.looked_at >= BEATING_S):
            return LookReason.BEATS
    elif _changed_age(files, known, beats, policy):
        return LookReason.STALE
    if _changed_ranks(files, known):
        return LookReason.RANKS
    if runid.RECORD in shown and _version(shown[runid.RECORD]) != _version(before.get(runid.RECORD)):
        return LookReason.RECORD
    if known.wake is not None and files.at >= known.wake:
        return LookReason.WAKE
    if not known.line.status.ended and policy.unread is None and policy.fleet_token != known.limited_by:
        return LookReason.LIMITS
    stall_s = policy.inactivity_s if policy.stall_s is None else policy.stall_s
    stall_s = IDLE_FLOOR_S if policy.learns_steps else stall_s
    limit_s = read_s if stall_s is None else min(read_s, stall_s / 4)
    # Spread over time the runs that were once read in the same pass.
    limit_s *= 0.9 + 0.1 * share(known.line.run_id)
    if known.line.status is Status.RUNNING and files.at - known.looked_at >= limit_s:
        return LookReason.READ
    return None


def share(run_id: str) -> float:
    """A number from 0 to 1, fixed for each run, to spread work over time that need not happen at once."""
    return zlib.crc32(run_id.encode()) / 2**32


def _stored_since(file: tuple[float, str] | None, at: float) -> bool:
    # Some stores stamp whole seconds.
    return file is not None and file[0] >= at - 1


def _version(file: tuple[float, str] | None) -> str | None:
    return file[1] if file else None


def _changed_age(files: FileSnapshot, known: IndexedRun, beats: Sequence[str], policy: Policy) -> bool:
    shown, before = files.files, known.files
    limits_s = [known.silence_limit_s, known.outlier_s if policy.learned else None]
    if any(_is_silent({**before, **shown}, files.at, known, s) != _is_silent(before, known.looked_at, known, s)
           for s in limits_s if s is not None):  # fmt: skip
        return True
    return any(
        _stale(shown[name], files.at, policy) != _stale(before.get(name), known.looked_at, policy) for name in beats
    )


def _changed_ranks(files: FileSnapshot, known: IndexedRun) -> bool:
    return known.lives and files.troubled is not None and files.troubled != known.troubled


def _is_silent(files: Files, at: float, known: IndexedRun, limit_s: float) -> bool:
    beats = [file[0] for file in (files.get(runid.METADATA), files.get(runid.PROGRESS)) if file is not None]
    return bool(beats) and at - max(*beats, known.progressed) > limit_s


def _stale(file: tuple[float, str] | None, at: float, policy: Policy) -> bool:
    return file is not None and at - file[0] > policy.stale_s
