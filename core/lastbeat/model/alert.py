"""An alert as data: a channel-neutral message, and what became of it on each channel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from lastbeat.model.cause import Evidence
from lastbeat.model.persisted import AnyFloat, Persisted
from lastbeat.model.status import Event, Status

NAMES_LIMIT = 50
"""The most runs that an alert about many names; it counts the rest."""


@dataclass(frozen=True)
class Message(Persisted):
    """The content of an alert before a channel formats it.

    Text from training is hostile: it is bounded here and escaped by each channel.
    """

    run_id: str
    event: Event
    status: Status
    reason: str
    at: datetime
    """When it was decided, by the store's clock."""
    attempt: int = 1
    cause: str | None = None
    confidence: float | None = None
    """Of the cause, from 0 to 1. None: unknown."""
    evidence: Evidence | None = None
    """The line that shows the cause."""
    also_seen: tuple[str, ...] = ()
    """Downstream errors and other candidates, a line each; few."""
    action: str | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)
    instance_id: str | None = None
    phase: str | None = None
    duration_s: float | None = None
    step: int | None = None
    total_steps: int | None = None
    loss: AnyFloat | None = None
    last_beat_at: datetime | None = None
    """Last proof of life, by the store's clock."""
    log_tail: tuple[str, ...] = ()
    """Last lines of the training log, oldest first."""
    stack: tuple[str, ...] = ()
    """Innermost frames of the main thread of a training process without progress, the innermost last."""
    notes: tuple[str, ...] = ()
    """Remarks on the alert itself: the log could not be read, earlier alerts were dropped."""
    where: str = ""
    """Path or ``s3://`` URL of the run's files."""
    link: str | None = None
    """A web address to look at, when there is one."""
    key: str = ""
    """Identifies this alert: the same on every delivery of it."""
    members: tuple[str, ...] = ()
    """Of an alert about many runs: their ids, at most :data:`NAMES_LIMIT`."""
    member_count: int = 0
    """The number of runs in an alert about many. 0: it is about ``run_id`` alone."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """What these runs have in common: ``Zone`` → ``us-east-1a (93 of 97)``."""

    def masked(self, mask: Callable[[str], str]) -> "Message":
        """A copy with ``mask`` applied to all text except run id, status and event."""

        def maybe(text: str | None) -> str | None:
            return None if text is None else mask(text)

        return replace(
            self,
            reason=mask(self.reason),
            cause=maybe(self.cause),
            evidence=self.evidence.masked(mask) if self.evidence is not None else None,
            also_seen=tuple(map(mask, self.also_seen)),
            action=maybe(self.action),
            conditions={name: mask(detail) for name, detail in self.conditions.items()},
            instance_id=maybe(self.instance_id),
            phase=maybe(self.phase),
            log_tail=tuple(map(mask, self.log_tail)),
            stack=tuple(map(mask, self.stack)),
            notes=tuple(map(mask, self.notes)),
            where=mask(self.where),
            link=maybe(self.link),
            shared={name: mask(value) for name, value in self.shared.items()},
        )

    @property
    def severity(self) -> str:
        """``critical``, ``warning`` or ``info``: what a pager filters on."""
        return "warning" if self.event is Event.SUCCEEDED and self.conditions else self.event.severity

    @property
    def subject(self) -> str:
        """What it is about, for people."""
        if self.member_count <= 0:
            return self.run_id
        if self.member_count == 1 and self.members:
            return self.members[0]
        # A larger number comes from a damaged document.
        return f"{min(self.member_count, 10**9)} runs"


@dataclass(frozen=True)
class Delivery(Persisted):
    """One alert on one channel. Until it is sent or failed it still has to go out."""

    tries: int = 0
    sent_at: datetime | None = None
    failed: str | None = None
    """Why it will never go out: a permanent error."""
    last_error: str | None = None
    not_before: datetime | None = None
    """Back-off: no further try before this. Without any try so far the alert is deferred until then, because a group
    may tell it; see ``effects.deferral``."""
    claimed_until: datetime | None = None
    claimed_by: str | None = None
    told_by: str | None = None
    """Key of the group's alert that told it instead, at ``sent_at``."""

    @property
    def settled(self) -> bool:
        return self.sent_at is not None or self.failed is not None


@dataclass(frozen=True)
class Alert(Persisted):
    """An entry of the outbox."""

    number: int
    event: Event
    created_at: datetime
    message: Message
    deliveries: Mapping[str, Delivery] = field(default_factory=dict)
    """Channel identity (``slack:1f2e3d4c``) → what became of it there."""
