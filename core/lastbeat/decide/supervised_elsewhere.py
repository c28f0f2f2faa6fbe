"""Who decides about the restart of a supervised run, for watchers that do not supervise it. Pure.

Such a watcher cannot ask the launcher, so it decides about no restart. While a supervisor holds its lease, the end of
the run is left to that supervisor, whose one alert tells both. Otherwise the watcher records the end, and its alert
names who decides.
"""

from dataclasses import replace
from datetime import datetime

from lastbeat.decide.transition import Decision
from lastbeat.model.restart import RESTART_KIND, Supervision
from lastbeat.model.status import UNWELL


def left_to_supervisor(decision: Decision, now: datetime) -> datetime | None:
    """Until when the end that ``decision`` found is left to the run's supervisor, or None if no supervisor holds a
    lease."""
    seat, transition = decision.record.seat, decision.transition
    if seat is None or seat.until is None or seat.until <= now or transition is None:
        return None
    return seat.until if transition.after.finished else None


def undecided_restart(decision: Decision) -> Supervision | None:
    """The supervision of a run that ``decision`` finds failed, if its supervisor has yet to decide about a restart."""
    record, transition = decision.record, decision.transition
    supervision, job, ruling = record.supervision, record.job, record.ruling
    if transition is None or transition.after not in UNWELL or supervision is None or supervision.compiled is None:
        return None
    if any(each.kind == RESTART_KIND and not each.settled for each in record.actions):
        return None
    decided = ruling is not None and (job is None or ruling.number >= job.number)
    return None if decided else supervision


def with_decider(decision: Decision, supervision: Supervision, agent: str | None) -> Decision:
    """``decision``, whose alert names who decides about the restart. ``agent`` is the ``user@host`` of an agent that is
    at work for the run's launcher, or None if none was seen."""
    if agent is not None:
        return replace(decision, restart_note=f"the agent{_on_host(agent)} decides")
    seat = decision.record.seat
    by = _on_host(seat.by if seat is not None else supervision.by)
    resume = f"lastbeat supervise --resume {decision.record.run_id}"
    return replace(decision, restart_note=f"its supervisor{by} decides; if none runs: {resume}")


def _on_host(by: str) -> str:
    host = by.rpartition("@")[2] if "@" in by else ""
    return f" on {host}" if host else ""
