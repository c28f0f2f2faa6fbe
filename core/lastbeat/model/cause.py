"""Why a run failed, as far as its logs, its ``_error`` and its exit codes tell: data that every layer may speak of."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from lastbeat.model.persisted import Persisted

TEXT_LIMIT = 500
CERTAIN = 0.85
"""From this confidence on, a cause is told without a word of doubt."""


@dataclass(frozen=True)
class Evidence(Persisted):
    """One line that shows something. Its text is hostile: cleaned and bounded, never interpreted."""

    file: str
    """Name of the file as people know it; ``_error`` and ``-`` (standard input) are files, too."""
    line: int
    """From 1, counted by newlines: what an editor shows. 0: not known, or the line is not in the file any more."""
    text: str
    """The line, at most :data:`TEXT_LIMIT` characters of it."""
    rank: int | None = None
    host: str | None = None
    time: datetime | None = None
    """The line's own time; UTC where it names no zone. None where it has none."""

    def masked(self, mask: Callable[[str], str]) -> "Evidence":
        """The same with ``mask`` applied to what the line says and where it comes from."""
        host = None if self.host is None else mask(self.host)
        return replace(self, file=mask(self.file), text=mask(self.text), host=host)


@dataclass(frozen=True)
class Cause(Persisted):
    """A root cause, or what may be one."""

    error_type: str
    """A name of ``signals.error_types``."""
    evidence: Evidence
    confidence: float
    """From 0 to 1: how sure. An ordering of guesses made comparable, not a measured probability."""
    subsystem: str | None = None
    restartable: bool | None = None
    """Whether the same run, begun again from its last checkpoint, may well get past this. None: it depends."""
    hint: str = ""
    """What to do, with what the evidence says (sizes, ranks, hosts) filled in."""
    signal: str = ""
    """Name of the signal that the evidence matched."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What logs show: ``cause`` None means that nothing in them ended the run."""

    cause: Cause | None = None
    alternatives: tuple[Cause, ...] = ()
    """Other readings, the likelier first; few, and none where the cause is certain."""
    downstream: tuple[Evidence, ...] = ()
    """What followed from the cause and was printed as an error as well, in order of time; bounded."""
    ended: bool = False
    """Whether the text also *ends* in that failure: nothing after it shows that training goes on. Only then may a
    run be called FAILED for what its log says."""
    success: Evidence | None = None
    """The line that says that training is done, where one does and nothing failed after it."""

    @property
    def hint(self) -> str | None:
        return self.cause.hint or None if self.cause is not None else None


NOTHING = Explanation()
