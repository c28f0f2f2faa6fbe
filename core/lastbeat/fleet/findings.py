"""What a pass finds, from many threads, and the report of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from lastbeat.fleet.memory import FleetMemory, RunMemory
from lastbeat.fleet.pacing import PacedChannel
from lastbeat.model.fleet import FIGURES_LIMIT, LINES_LIMIT, PassReport, RunFigures, RunLine
from lastbeat.model.group import DeferredAlert
from lastbeat.model.record import Transition
from lastbeat.model.status import Status

_NEED = (Status.FAILED, Status.TIMED_OUT, Status.UNKNOWN)


@dataclass
class Findings:
    """Filled while a pass goes on; whoever writes holds the lock of the fleet's memory."""

    closed: bool = False
    """The pass is over: what is found now is for the next one."""
    looked: int = 0
    answered: int = 0
    """Runs that could be observed, or asked how they are."""
    complete: bool = True
    notes: list[str] = field(default_factory=list)
    ignored: tuple[str, ...] = ()
    transitions: list[tuple[str, Transition]] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    held: list[DeferredAlert] = field(default_factory=list)
    unrecorded: int = 0
    seen_again: list[str] = field(default_factory=list)
    """Runs that earlier passes could not observe."""


@dataclass(frozen=True)
class Sendings:
    """What the channels had done when the pass began."""

    channels: Sequence[PacedChannel]
    before: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, channels: Sequence[PacedChannel]) -> "Sendings":
        """As of now."""
        return cls(channels, tuple((channel.sent, channel.failed) for channel in channels))

    @property
    def sent(self) -> int:
        return sum(now.sent - sent for now, (sent, _) in zip(self.channels, self.before, strict=True))

    @property
    def failed(self) -> int:
        return sum(now.failed - failed for now, (_, failed) in zip(self.channels, self.before, strict=True))


def take_over(late: Findings, found: Findings) -> None:
    """Give the next pass what looks found that outlasted the last one, or what a pass found that turned blind."""
    found.transitions.extend(late.transitions)
    found.held.extend(late.held)
    found.seen_again.extend(late.seen_again)
    found.unrecorded += late.unrecorded
    late.transitions, late.held, late.seen_again, late.unrecorded = [], [], [], 0
    late.unreadable, late.notes, late.looked = {}, [], 0


def report(
    found: Findings, memory: FleetMemory, sendings: Sendings, waiting: int, now: datetime, plan: str
) -> PassReport:
    """``waiting`` deliveries of groups come on top of those of the runs."""
    runs = memory.runs.values()
    lines = sorted((_line(run, found) for run in runs), key=_need)
    figures = tuple(_figures(line, memory.runs[line.run_id]) for line in lines[:FIGURES_LIMIT])
    seen_at = min((run.seen_at for run in runs), default=now.timestamp())
    return PassReport(
        at=now,
        complete=found.complete,
        plan=plan,
        statuses=dict(Counter(_shown(line) for line in lines)),
        finished=len(memory.finished),
        looked=found.looked,
        transitions=tuple(found.transitions),
        lines=tuple(lines[:LINES_LIMIT]),
        figures=figures,
        unreadable=dict(list(found.unreadable.items())[:LINES_LIMIT]),
        unreadable_count=len(found.unreadable),
        ignored=found.ignored,
        unrecorded=found.unrecorded,
        sent=sendings.sent,
        failed=sendings.failed,
        pending=sum(run.pending for run in runs) + waiting,
        oldest_observation_s=max(0.0, now.timestamp() - seen_at),
        notes=tuple(found.notes),
    )


def _line(run: RunMemory, found: Findings) -> RunLine:
    why = found.unreadable.get(run.line.run_id)
    return run.line if why is None else replace(run.line, status=Status.UNKNOWN, reason=why[:200])


def _figures(line: RunLine, run: RunMemory) -> RunFigures:
    source, beat_at = run.step_source, run.beat_at
    if line.status is Status.UNKNOWN:
        # Perhaps it has beaten since.
        beat_at = None
    return RunFigures(
        line,
        beat_age_s=None if beat_at is None else max(0.0, run.seen_at - beat_at),
        step=source.step if source is not None else None,
        total_steps=source.total_steps if source is not None else None,
        loss=source.loss if source is not None else None,
        step_at=source.modified if source is not None else None,
        pending=run.pending,
    )


def _shown(line: RunLine) -> str:
    warned = line.conditions and line.status is Status.RUNNING
    return f"{line.status.value} (WARNING)" if warned else line.status.value


def _need(line: RunLine) -> tuple[int, str]:
    if line.status in _NEED:
        return _NEED.index(line.status), line.run_id
    return (3 if line.conditions else 4 if line.status is Status.RUNNING else 5), line.run_id
