"""Why a run failed, as its logs, its ``_error`` and its exit codes show: the data that all layers share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from lastbeat.model.persisted import Persisted

TEXT_LIMIT = 500
CERTAIN = 0.85
"""From this confidence on, a cause is shown without a qualifier such as "likely"."""


@dataclass(frozen=True)
class Evidence(Persisted):
    """One line of a log as evidence. Its text is hostile: cleaned, bounded, never interpreted."""

    file: str
    """The file's name as people know it. ``_error`` and ``-`` (standard input) count as files."""
    line: int
    """From 1, as an editor counts. 0: unknown, or the line is no longer in the file."""
    text: str
    """The line, at most :data:`TEXT_LIMIT` characters of it."""
    rank: int | None = None
    host: str | None = None
    time: datetime | None = None
    """The time in the line itself, UTC if it names no zone. None: it has none."""

    def masked(self, mask: Callable[[str], str]) -> "Evidence":
        """A copy with ``mask`` applied to text, file and host."""
        host = None if self.host is None else mask(self.host)
        return replace(self, file=mask(self.file), text=mask(self.text), host=host)


@dataclass(frozen=True)
class Cause(Persisted):
    """A root cause, or a candidate for one."""

    error_type: str
    """A name of ``signals.error_types``."""
    evidence: Evidence
    confidence: float
    """From 0 to 1. It makes guesses comparable; it is no measured probability."""
    subsystem: str | None = None
    restartable: bool | None = None
    """Whether a restart from the last checkpoint may well get past this. None: it depends."""
    hint: str = ""
    """What to do, with sizes, ranks and hosts from the evidence filled in."""
    signal: str = ""
    """Name of the signal that the evidence matched."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What logs show. ``cause`` None: nothing in them ended the run."""

    cause: Cause | None = None
    alternatives: tuple[Cause, ...] = ()
    """Other candidates, the likeliest first; few, and none if the cause is certain."""
    downstream: tuple[Evidence, ...] = ()
    """Errors that followed from the cause, in order of time; bounded."""
    ended: bool = False
    """The text also *ends* in that failure: nothing after it shows that training goes on. Only then may a log make a
    run FAILED."""
    success: Evidence | None = None
    """The line that says training is done, if there is one and nothing failed after it."""

    @property
    def hint(self) -> str | None:
        return self.cause.hint or None if self.cause is not None else None


NOTHING = Explanation()
