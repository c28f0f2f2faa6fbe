"""What was seen of a run at one instant. "Could not see" is a type of its own, never an empty value."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One heartbeat document as it lay in the store."""

    modified: datetime
    """The store's ``LastModified``."""
    version: str
    """The store's token for this content (an ETag)."""
    own_time: datetime | None = None
    """The document's own timestamp, by the clock of the training instance."""
    fault: str | None = None
    """Why the document could not be understood; it still counts as a heartbeat at ``modified``."""

    run_status: str | None = None
    phase: str | None = None
    instance_id: str | None = None
    start_time: datetime | None = None
    attempt: int | None = None

    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    """May be NaN or infinite: the document said so."""
    learning_rate: float | None = None
    epoch: float | None = None


@dataclass(frozen=True, slots=True)
class Sentinel:
    """``_error`` or ``_complete``. ``text`` is bounded and may be empty; it is hostile text."""

    modified: datetime
    version: str
    size_bytes: int
    text: str = ""
    fault: str | None = None
    """Why ``text`` could not be fetched although the sentinel exists. Its existence alone still counts."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The run has at least one of its files."""

    metadata: Heartbeat | None = None
    progress: Heartbeat | None = None
    error: Sentinel | None = None
    complete: Sentinel | None = None
    log_size_bytes: int | None = None
    """Size of ``logs/training_log_latest.txt``; None when there is none."""
    stacks_modified: datetime | None = None
    """``LastModified`` of ``logs/stacks.txt``, which is there while training hangs; None when it is not."""


@dataclass(frozen=True, slots=True)
class NeverSeen:
    """The store answered, and none of the run's files is there."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The store could not be asked, or its answer could not be read. Nothing follows about the run."""

    reason: str
    """What went wrong and where, in one line without secrets."""
    advice: str = ""
    """What to do about it."""


Observation = Seen | NeverSeen | Unreadable
