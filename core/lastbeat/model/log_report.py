"""What a look learned from a run's logs, as the decision needs it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from lastbeat.model.cause import NOTHING, Explanation
from lastbeat.model.persisted import AnyFloat, Form


@dataclass(frozen=True, slots=True)
class LogReport:
    """All times are the store's: a line counts as printed when its file was stored with it, at the latest."""

    FORM: ClassVar = Form.SPARSE

    written_at: datetime | None = None
    """When the newest of the log files was stored with text that is new."""
    progress_at: datetime | None = None
    """When the newest line that tells a later step was first there."""
    step: int | None = None
    total_steps: int | None = None
    loss: AnyFloat | None = None
    learning_rate: AnyFloat | None = None
    throughput: AnyFloat | None = None
    throughput_unit: str = ""
    explanation: Explanation = NOTHING
    shown_at: datetime | None = None
    """When the file that shows the cause was last stored with text that is new."""
    last_seen: Mapping[str, datetime] = field(default_factory=dict)
    """Signal name → when a line that matches it was last new; for the signals that absence rules name."""
    notes: tuple[str, ...] = ()
    """What was skipped or could not be read, for people."""
    mark: str = ""
    """Names what stood in the files as it was read: text that is stored again unchanged has the same."""
    cold: bool = field(default=False, compare=False)
    """Whoever read it knew of no earlier look, so all of it seemed new."""
    unread: tuple[str, ...] = ()
    """Files whose newest text could not be read in this look, be it for the store or for want of time. While there are
    any, that no later step and no other line is known means nothing: unreadable is not empty."""
    unread_at: datetime | None = None
    """When the newest of those was stored, as far as that could be seen: its text may be new."""
    hidden: tuple[str, ...] = ()
    """What could not even be looked at, and why: nobody knows whether something was written there."""
    empty_at: datetime | None = None
    """When the newest log was stored that holds nothing so far."""
