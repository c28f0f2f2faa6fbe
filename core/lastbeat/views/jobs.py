"""The supervised runs of a fleet, as ``lastbeat jobs`` shows them. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from lastbeat.model.record import Record
from lastbeat.model.status import Status
from lastbeat.model.times import format_time
from lastbeat.model.view import JobLine
from lastbeat.views.recorded import job
from lastbeat.views.run_document import job_line_document
from lastbeat.views.safe import Safe

SCHEMA = 1


@dataclass(frozen=True)
class JobRow:
    """One supervised run."""

    run_id: str
    status: Status
    """As it was last recorded."""
    attempt: int
    line: JobLine
    begun_by: str
    begun_at: datetime | None
    agent: str | None = None
    """``user@host`` whose agent serves its launcher, where it has no supervisor of its own."""

    @property
    def alone(self) -> bool:
        """Whether it needs a supervisor and has none."""
        return not self.line.over and self.line.supervised_by is None and self.agent is None

    @property
    def resume(self) -> str | None:
        """The command to type if it has no supervisor."""
        return f"lastbeat restart {self.run_id}" if self.alone else None


def job_row(record: Record, at: datetime, agents: "Callable[[str], str | None]", safe: Safe) -> JobRow | None:
    """The run of ``record`` as of ``at``; None: it is not supervised, or was taken out of the fleet. ``agents`` has who
    serves a launcher."""
    line = job(record, safe, at)
    if line is None or record.supervision is None or record.left_out is not None:
        return None
    served = None if line.over or line.supervised_by is not None else agents(record.supervision.launcher)
    return JobRow(
        record.run_id,
        record.status or Status.UNKNOWN,
        record.attempt.number,
        line,
        safe.name(record.supervision.by),
        record.supervision.begun_at,
        None if served is None else safe.name(served),
    )


def in_order(rows: Sequence[JobRow]) -> list[JobRow]:
    """Those without a supervisor first, then those that live, then the rest; by name."""
    return sorted(rows, key=lambda row: (not row.alone, row.line.over, row.run_id))


def jobs_document(
    rows: Sequence[JobRow], *, root: str, at: datetime, notes: Sequence[str] = (), hidden: int = 0
) -> dict[str, object]:
    """The promised keys, all of them always there; what is not known is null. ``hidden``: how many are over and not
    among ``rows``."""
    return {
        "schema": SCHEMA,
        "root": root,
        "at": format_time(at),
        "over": hidden,
        "notes": list(notes),
        "jobs": [
            {
                "run_id": row.run_id,
                "status": row.status.value,
                "attempt": row.attempt,
                "begun_by": row.begun_by,
                "begun_at": format_time(row.begun_at),
                "agent": row.agent,
                "alone": row.alone,
                "resume": row.resume,
                "job": job_line_document(row.line),
            }
            for row in rows
        ],
    }
