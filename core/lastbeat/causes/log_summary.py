"""What one log file says, bounded: all that the search for the cause needs."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from lastbeat.causes.mentions import Mention
from lastbeat.causes.stack_dumps import Stack
from lastbeat.model.persisted import Form
from lastbeat.model.progress_lines import Progress


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
    skipped_bytes: int = 0
