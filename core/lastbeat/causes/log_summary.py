"""What one log file says, bounded: all that the search for the cause needs."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final

from lastbeat.causes.mentions import Mention
from lastbeat.causes.stack_dumps import Stack
from lastbeat.model.cause import Evidence
from lastbeat.model.efa_use import UNTOLD, EfaUse
from lastbeat.model.persisted import Form
from lastbeat.model.progress_lines import Progress

MOST_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class Named:
    """A process as a launcher, or a peer, names it."""

    FORM: ClassVar = Form.SPARSE

    rank: int | None = None
    host: str | None = None


@dataclass(slots=True)
class LogSummary:
    """A few kilobytes, however long the file is."""

    FORM: ClassVar = Form.SPARSE

    file: str
    rank: int | None = None
    lines: int = 0
    """The last line read."""
    alive_line: int = 0
    """Last line after a report that only a live program would print."""
    steps: int = 0
    """How often training got further."""
    attempts: int = 1
    """How many attempts wrote it, one after the other. Only the last one counts."""
    attempt_line: int = 0
    """Where the last of several begins."""
    mentions: list[Mention] = field(default_factory=list)
    """In the order of the file; only a few that the run survived."""
    stacks: list[Stack] = field(default_factory=list)
    nan: Mention | None = None
    """The first of the latest series of lines with a non-finite loss or gradient."""
    success: Mention | None = None
    """The line that says training is done."""
    progress: Progress = field(default_factory=Progress)
    progress_time: datetime | None = None
    """The time in the last line with a step."""
    last_time: datetime | None = None
    """The newest time in any line."""
    last_seen: dict[str, datetime] = field(default_factory=dict)
    """Signal → when a matching line was last new."""
    named: list[Named] = field(default_factory=list)
    """Processes that a launcher names as failed, the latest few."""
    warned: dict[str, Mention] = field(default_factory=dict)
    """Signal of kind ``warning`` → the latest such line."""
    efa: EfaUse = UNTOLD
    """Over which network NCCL's traffic goes."""
    efa_line: Evidence | None = None
    """The line that told it last."""
    skipped_bytes: int = 0
    no_oom_kill: bool = False
    """It is an ``_error`` of lastbeat's which says that no OOM kill was counted."""
