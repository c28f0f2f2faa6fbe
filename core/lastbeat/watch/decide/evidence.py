"""The evidence of one attempt: what this check saw of the run, joined with what its record holds."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from lastbeat.model.data import dataclass
from lastbeat.model.job import JobMemory
from lastbeat.model.observation import Seen
from lastbeat.model.record import Attempt, Finding, HeartbeatMemory, Record, ToldWarning
from lastbeat.watch.decide.numbers import Numbers

METADATA, PROGRESS = "metadata.json", "progress.json"
LOG, LOG_STEP = "log", "step in the log"


@dataclass(frozen=True, slots=True)
class AttemptEvidence:
    """The evidence of the current attempt: the observation, and what is known of each heartbeat."""

    seen: Seen
    before: Record
    """The record, as it was before this check."""
    metadata: HeartbeatMemory | None
    progress: HeartbeatMemory | None
    first_looked_at: datetime
    earlier_step_limit_s: float | None = None
    """Seconds that the run may take for its next step, as earlier attempts showed."""
    log: HeartbeatMemory | None = None
    finding: Finding | None = None
    log_lines: Mapping[str, datetime] = field(default_factory=dict)
    """For absence rules: signal name → when such a line last appeared."""
    warned: Mapping[str, ToldWarning] = field(default_factory=dict)
    """Lines that warned: see :func:`lastbeat.watch.decide.logs.noted`."""
    started: datetime | None = None
    """When waiting for those lines began, or None if the logs could not be read this time."""
    is_new: bool = False
    """This check is the first of its attempt, so the record is about an earlier one."""
    job: JobMemory | None = None
    """The run's job as this check saw it, or as the record has it if the launcher was not asked."""
    starting: str | None = None
    """The job that is about to start, or that was started and not seen since."""
    never_started: str | None = None
    """Why the run has no job, if its launcher refused it."""
    attempt: Attempt = field(default_factory=Attempt)
    numbers: Numbers = field(default_factory=Numbers)
    """Its pace, and the levels of its loss and gradients."""

    @property
    def stood(self) -> Mapping[str, str]:
        """The conditions that the record holds of this attempt: name → text."""
        return {} if self.is_new else self.before.conditions

    @property
    def hidden(self) -> tuple[str, ...]:
        """Logs that could not be reached."""
        return self.seen.logs.hidden if self.seen.logs is not None else ()

    @property
    def logs_unread(self) -> bool:
        """Whether no log text, or only a part of it, could be read this time."""
        return self.seen.logs is None or bool(self.seen.logs.unread)

    @property
    def liveness_log(self) -> HeartbeatMemory | None:
        """The logs, if they replace a metadata.json that was never written."""
        return self.log if self.metadata is None else None

    @property
    def step_source(self) -> HeartbeatMemory | None:
        """Where steps come from: progress.json, or the logs if that was never written."""
        return self.progress or (self.log if self.log is not None and self.log.step_at is not None else None)

    @property
    def beats(self) -> dict[str, datetime]:
        """Heartbeat, as people know it → its last proof of life."""
        found = {}
        if self.metadata is not None:
            found[METADATA] = last_alive(self.metadata)
        elif self.liveness_log is not None:
            found[LOG] = last_alive(self.liveness_log)
        if self.progress is not None:
            found[PROGRESS] = last_alive(self.progress)
        elif self.log is not None and self.log.step_at is not None:
            # Text that could not be read may hold a later step.
            beaten = max(self.log.step_at, last_alive(self.log)) if self.logs_unread else self.log.step_at
            if not self.hidden or not found:
                found[LOG_STEP] = beaten
        return found


def last_alive(memory: HeartbeatMemory) -> datetime:
    """The last proof of life. A file that is gone counts from when it was missed, not from its last beat."""
    alive_at = memory.alive_at or memory.modified
    return max(alive_at, memory.missing_since) if memory.missing_since else alive_at
