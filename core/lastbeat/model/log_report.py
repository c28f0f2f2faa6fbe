"""What a look learned from a run's logs, in the form that the decision needs."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import ClassVar

from lastbeat.model.cause import NOTHING, Evidence, Explanation
from lastbeat.model.data import dataclass
from lastbeat.model.efa_use import UNTOLD, EfaUse
from lastbeat.model.persisted import AnyFloat, Form


@dataclass(frozen=True, slots=True)
class LogReport:
    """All times are the store's: a line was printed, at the latest, when its file was stored with it."""

    FORM: ClassVar = Form.SPARSE

    written_at: datetime | None = None
    """When any log file was last stored with new text."""
    progress_at: datetime | None = None
    """When the latest step first appeared."""
    step: int | None = None
    total_steps: int | None = None
    loss: AnyFloat | None = None
    not_finite_since: int | None = None
    """The step at which the loss became NaN or infinite."""
    learning_rate: AnyFloat | None = None
    throughput: AnyFloat | None = None
    throughput_unit: str = ""
    explanation: Explanation = NOTHING
    shown_at: datetime | None = None
    """When the file with the cause was last stored with new text."""
    last_seen: Mapping[str, datetime] = field(default_factory=dict)
    """For the signals of absence rules, and for warnings: signal name → when a matching line was last new."""
    efa: EfaUse = UNTOLD
    """Over which network NCCL's traffic goes, by the file that told last."""
    efa_line: Evidence | None = None
    """The line that told it."""
    notes: tuple[str, ...] = ()
    """For people: what was skipped or could not be read."""
    mark: str = ""
    """Digest of what was read: the same if the same text is stored again."""
    cold: bool = field(default=False, compare=False)
    """The reader knew of no earlier look, so all text seemed new."""
    unread: tuple[str, ...] = ()
    """Files whose newest text could not be read in this look, because of the store or for lack of time. While there are
    any, a missing step or line proves nothing: unreadable is not empty."""
    unread_at: datetime | None = None
    """When the newest of those was stored, if known: its text may be new."""
    hidden: tuple[str, ...] = ()
    """Logs that could not even be looked at, and why: they may have been written to."""
    empty_at: datetime | None = None
    """When the newest empty log was stored."""
