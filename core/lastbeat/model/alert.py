"""An alert as data: a channel-neutral message, and what became of it on each channel."""

import re
from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from lastbeat.model.cause import FRAMES_LIMIT, Evidence
from lastbeat.model.data import dataclass
from lastbeat.model.figures import Figures, HasFigures
from lastbeat.model.persisted import FLAT, Persisted
from lastbeat.model.status import Event, Status

NAMES_LIMIT = 50
"""The most runs that an alert about many names to people; it counts the rest."""
MEMBERS_LIMIT_BYTES = 250_000
"""The most that their ids take together: no channel takes a larger alert."""


ALSO_SEEN_LIMIT = 3

# A character takes at most 4 bytes in UTF-8. With these numbers the worst document has 211,000 bytes without members.
_LONG, _MEDIUM, _SHORT, _FRAME, _NAME = 2500, 1000, 300, 160, 200


class Bound(NamedTuple):
    """How much of a field the document of an alert has, see :mod:`lastbeat.alerts.document`."""

    chars: int
    """Most characters of a text in it."""
    lines: bool = False
    """It keeps its line breaks."""
    items: int = 20
    """Most texts in it."""


BOUND: Final = "bound"


def _text(chars: int, *, lines: bool = True) -> Any:
    return field(default=None, metadata={BOUND: Bound(chars, lines)})


def _texts(chars: int, items: int, **default: Any) -> Any:
    return field(metadata={BOUND: Bound(chars, items=items)}, **default or {"default": ()})


@dataclass(frozen=True)
class MentionedPerson(Persisted):
    """Somebody to be mentioned in an alert. Trusted: from the routes that people wrote, never from training."""

    name: str
    slack: str | None = None
    """``<@U0123ABCD>``, as Slack takes it."""
    email: str | None = None
    pagerduty: str | None = None


@dataclass(frozen=True)
class Message(HasFigures, Persisted):
    """The content of an alert before a channel formats it.

    Text from training is hostile: it is bounded here and escaped by each channel.
    """

    run_id: str = field(metadata={BOUND: Bound(_SHORT)})
    event: Event
    status: Status
    reason: str = field(metadata={BOUND: Bound(_LONG, lines=True)})
    at: datetime
    """When it was decided, by the store's clock."""
    since: datetime | None = None
    """Since when the run is what it is, as far as the evidence shows. None: unknown, or it goes on as before."""
    attempt: int = 1
    cause: str | None = _text(_SHORT)
    confidence: float | None = None
    """Confidence in the cause, from 0 to 1; None if unknown."""
    second_cause: str | None = _text(_SHORT)
    """What it may be as well, where it is undecided which of the two."""
    evidence: Evidence | None = None
    """The line that shows the cause."""
    frames: tuple[str, ...] = _texts(_FRAME, FRAMES_LIMIT)
    """Where its exception was raised, see ``Cause.frames``."""
    ranks: str | None = _text(_SHORT, lines=False)
    """In distributed training: the ranks that stand out, in one line."""
    also_seen: tuple[str, ...] = _texts(_SHORT, ALSO_SEEN_LIMIT)
    """Downstream errors and other candidates, a line each; few."""
    similar: str | None = _text(_SHORT, lines=False)
    """The last failure of the same cause and what became of it, in one line."""
    action: str | None = _text(_LONG)
    conditions: Mapping[str, str] = _texts(_SHORT, 20, default_factory=dict)
    instance_id: str | None = _text(_SHORT)
    phase: str | None = _text(_SHORT)
    duration_s: float | None = None
    figures: Figures = field(default_factory=Figures, metadata=FLAT)
    step_age_s: float | None = None
    """For how long the run had been at ``step``, in s, from some minutes on. None: less, or unknown."""
    last_beat_at: datetime | None = None
    """Last proof of life, by the store's clock."""
    log_tail: tuple[str, ...] = ()
    """Last lines of the training log, oldest first."""
    log_name: str = ""
    """Which log they are of: that of a missing rank, say. Empty: the run's main log."""
    stack: tuple[str, ...] = ()
    """Innermost frames of the main thread of a training process without progress, the innermost last."""
    notes: tuple[str, ...] = _texts(_SHORT, 10)
    """Remarks on the alert itself: the log could not be read, earlier alerts were dropped."""
    where: str = field(default="", metadata={BOUND: Bound(_MEDIUM)})
    """Path or ``s3://`` URL of the run's files."""
    link: str | None = _text(_LONG)
    """A web address to look at, when there is one."""
    restart: str | None = _text(_LONG)
    """What happens to its job: ``restarting, attempt 2/3, from step 1500``, or why it is not restarted."""
    checkpoint: str | None = _text(_SHORT)
    """The last complete checkpoint, ``step 1500, saved 12m before``. None: unknown."""
    key: str = field(default="", metadata={BOUND: Bound(_MEDIUM)})
    """Identifies this alert: the same on every delivery of it."""
    members: tuple[str, ...] = ()
    """In an alert about many runs: their ids, within :data:`MEMBERS_LIMIT_BYTES`."""
    member_notes: tuple[str, ...] = ()
    """How and when the first of ``members`` ended, in their order: ``oom, 2h before``; at most :data:`NAMES_LIMIT`."""
    member_links: tuple[str, ...] = ()
    """A web address of each of the first of ``members``, in their order; at most :data:`NAMES_LIMIT`. Empty: none."""
    member_count: int = 0
    """The number of runs in an alert about many. 0: it is about ``run_id`` alone."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """What these runs have in common: ``Zone`` → ``us-east-1a (93 of 97)``."""
    level: str | None = _text(_NAME)
    """Level of an alert raised by training: info, warning or error."""
    owner: str | None = None
    """Whose run it is, as training says."""
    team: str | None = None
    group: int = 0
    """The number of the group that it is about. 0: it is about no group."""
    still_out: int = 0
    """How many runs of the group are timed out."""
    mentions: tuple[MentionedPerson, ...] = ()
    """Whom routes have mentioned."""

    def masked(self, mask: Callable[[str], str]) -> "Message":
        """A copy with ``mask`` applied to all text, except ids and words of lastbeat's own."""
        texts = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _UNMASKED}
        return replace(self, **{name: _masked(value, mask) for name, value in texts.items()})

    @property
    def severity(self) -> str:
        """``critical``, ``warning`` or ``info``: what a pager filters on."""
        if self.event is Event.ALERT:
            return {"error": "critical", "warning": "warning"}.get(self.level or "", "info")
        if self.event is Event.FIRST_LOOK and self.status is Status.SUCCEEDED:
            return "info"
        return "warning" if self.event is Event.SUCCEEDED and self.conditions else self.event.severity

    @property
    def order(self) -> tuple[datetime, int]:
        """Orders the alerts of one record as they were decided, whenever they come. One look decides several."""
        number = self.key.rpartition("/")[2]
        return self.at, int(number) if re.fullmatch(r"\d{1,9}", number, re.ASCII) else 0

    @property
    def topic(self) -> str:
        """What joins it to other alerts of its record: those on one topic go into one thread, or end one incident."""
        return f"group-{self.group}" if self.group else ""

    @property
    def subject(self) -> str:
        """What it is about, for people."""
        if self.member_count <= 0:
            return self.run_id
        if self.member_count == 1 and self.members:
            return self.members[0]
        # A larger number comes from a damaged document.
        return f"{min(self.member_count, 10**9)} runs"


_UNMASKED: Final = frozenset({"run_id", "event", "status", "level", "key", "members", "mentions", "unknown"})
"""Ids, and words of lastbeat's own or of trusted people."""


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, tuple):
        return tuple(map(mask, value))
    if isinstance(value, Mapping):
        return {name: mask(text) for name, text in value.items()}
    return value.masked(mask) if isinstance(value, Evidence) else value


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
    found_ended: bool = False
    """Whether the run had ended before the first look at the fleet: one notice may cover all such runs."""
    routed_to: tuple[str, ...] | None = None
    """Destinations by name: channels that were not there when it was decided take it on only if they are among them.
    None: no route said so, and every channel takes it. Empty: it is dropped."""
    routed_by: tuple[str, ...] = ()
    """Names of the routes that took it."""
