"""What one log file says, bounded: everything that a search for the cause needs of it."""

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
    """How often training was seen to get further."""
    mentions: list[Mention] = field(default_factory=list)
    """In the order of the file. Of those that the run survived, few."""
    stacks: list[Stack] = field(default_factory=list)
    nan: Mention | None = None
    """The first of the latest lines in a row that say loss or gradients are not finite."""
    success: Mention | None = None
    """The line that says training is done."""
    progress: Progress = field(default_factory=Progress)
    progress_time: datetime | None = None
    """The time that the last line of a step names."""
    last_time: datetime | None = None
    """The newest time that any line names."""
    last_seen: dict[str, datetime] = field(default_factory=dict)
    """Signal → when a line that it matches was last new."""
    skipped_bytes: int = 0
