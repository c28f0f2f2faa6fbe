"""Envelopes: errors that say only that something failed, and tell what it was in the lines right below.

So do ``DistBackendError: NCCL error …, unhandled cuda error`` with its ``Last error:``, Ray's RayTaskError with the
exception of the remote task, and its ActorDiedError with how the worker ended.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Final

from lastbeat.causes.contexts import level_of
from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import Form

_LINES: Final = 6
"""So many lines that are neither empty nor indented may belong to an envelope."""
_MOST_LINES: Final = 80
_OPEN_LIMIT: Final = 64
# What begins like this is the word of somebody else.
_OTHERS: Final = Pattern(
    r"(?:srun|sbatch|salloc|slurmstepd|slurmd|mpirun|mpiexec|prterun|orterun|torchrun|kubelet|systemd|wandb)\b[:\[ ]|"
    r"\W{0,3}(?:ERROR|CRITICAL|FATAL)\b|\[?[EF]\d{3,4} |Traceback |Exception raised from|terminate called|[-=*#]{5,}|"
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) |"
    r"\[?\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d"
)


@dataclass(slots=True)
class OpenEnvelope:
    """An envelope whose details may still come."""

    FORM: ClassVar = Form.SPARSE

    order: int
    """Of its mention."""
    left: int = _LINES
    """Lines that may still belong to it, but for empty and indented ones."""
    read: int = 0
    """All lines since."""

    def renew(self) -> None:
        """As many lines may follow as at its beginning."""
        self.left = _LINES


@dataclass(eq=False, repr=False)
class OpenEnvelopes:
    """The envelope that each rank printed last, as long as lines may belong to it."""

    FORM: ClassVar = Form.SPARSE

    open: dict[str, OpenEnvelope] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open = dict(islice(self.open.items(), _OPEN_LIMIT))

    def begin(self, rank: int | None, order: int) -> None:
        """The mention ``order`` of ``rank`` is an envelope."""
        self.open.pop(str(rank), None)
        if len(self.open) >= _OPEN_LIMIT:
            del self.open[next(iter(self.open))]
        self.open[str(rank)] = OpenEnvelope(order)

    def close(self, rank: int | None) -> None:
        self.open.pop(str(rank), None)

    def around(self, rank: int | None, text: str) -> OpenEnvelope | None:
        """The envelope that the next line of ``rank`` belongs to, if it does: no logger, no launcher and no scheduler
        has spoken since, and it was not long ago."""
        if not self.open:
            return None
        found = self.open.get(str(rank))
        if found is None:
            return None
        stripped = text.strip()
        if stripped and not stripped.strip("^~ "):
            # Marks under code that was left out.
            return found
        found.read += 1
        if stripped and not text[0].isspace():
            found.left -= 1
        too_far = found.left < 0 or found.read > _MOST_LINES
        if too_far or _OTHERS.match(stripped) or level_of(text) in {"info", "warning"}:
            self.close(rank)
            return None
        return found
