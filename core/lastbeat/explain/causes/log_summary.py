"""The bounded summary of one log file, as input of the search for the cause."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final

from lastbeat.explain.causes.mentions import Mention
from lastbeat.explain.causes.stack_dumps import Stack
from lastbeat.model.cause import Evidence
from lastbeat.model.efa_use import UNTOLD, EfaUse
from lastbeat.model.persisted import Form
from lastbeat.model.progress_lines import Progress

MOST_NAMED: Final = 8
SHORT: Final = 60
"""Most lines of a text whose last words count if it has nothing else."""


@dataclass(frozen=True, slots=True)
class Named:
    """A process that a launcher or a peer names."""

    FORM: ClassVar = Form.SPARSE

    rank: int | None = None
    host: str | None = None


@dataclass(slots=True)
class LogSummary:
    """The summary of one file, of a few kilobytes for a file of any length."""

    FORM: ClassVar = Form.SPARSE

    file: str
    rank: int | None = None
    lines: int = 0
    """Number of the last line read."""
    alive_line: int = 0
    """Last line after a report that only a live program would print."""
    steps: int = 0
    """How often training progressed."""
    attempts: int = 1
    """Number of attempts that wrote the file, one after the other. Only the last one counts."""
    attempt_line: int = 0
    """First line of the last of several attempts."""
    mentions: list[Mention] = field(default_factory=list)
    """Mentions in the order of the file, including only a few that the run survived."""
    cut: Mention | None = None
    """The traceback in which the text ends, before its exception."""
    stated: list[Mention] = field(default_factory=list)
    """Lines at the end of a short text that state a failure in words of no signal."""
    restarted: list[Mention] = field(default_factory=list)
    """The first mentions of workers that a launcher was going to restart, as long as nothing of the next ones came."""
    stacks: list[Stack] = field(default_factory=list)
    nan: Mention | None = None
    """The first of the latest series of lines with a non-finite loss or gradient."""
    success: Mention | None = None
    """The line that reports the end of training."""
    progress: Progress = field(default_factory=Progress)
    progress_time: datetime | None = None
    """Time in the last line with a step."""
    last_time: datetime | None = None
    """Newest time in any line."""
    last_seen: dict[str, datetime] = field(default_factory=dict)
    """Signal → when the store last had a new matching line."""
    named: list[Named] = field(default_factory=list)
    """The latest few processes that a launcher names as failed."""
    warned: dict[str, Mention] = field(default_factory=dict)
    """Signal of kind ``warning`` → the latest such line."""
    efa: EfaUse = UNTOLD
    """The network of NCCL's traffic."""
    efa_line: Evidence | None = None
    """The last line that showed the network."""
    skipped_bytes: int = 0
    no_oom_kill: bool = False
    """Whether it is an ``_error`` by lastbeat which states that no OOM kill was counted."""
