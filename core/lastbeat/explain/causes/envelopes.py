"""Envelopes: errors that only report a failure, and name it in the lines right below.

Examples are ``DistBackendError: NCCL error …, unhandled cuda error`` with its ``Last error:``, Ray's RayTaskError with
the exception of the remote task, and its ActorDiedError with the end of the worker.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Final

from lastbeat.explain.causes.contexts import level_of
from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import Form

_LINES: Final = 6
"""Most lines of an envelope that are neither empty nor indented."""
_MOST_LINES: Final = 80
"""Most lines of an envelope in all."""
_OPEN_LIMIT: Final = 64
"""Most ranks with an open envelope."""
# A line that begins like this comes from another program or logger.
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
    """Order of its mention."""
    left: int = _LINES
    """Number of lines that may still belong to it, without empty and indented ones."""
    read: int = 0
    """Number of all lines since its beginning."""

    def renew(self) -> None:
        """Allow as many lines as at its beginning."""
        self.left = _LINES


@dataclass(eq=False, repr=False)
class OpenEnvelopes:
    """The last envelope of each rank, as long as further lines may belong to it."""

    FORM: ClassVar = Form.SPARSE

    open: dict[str, OpenEnvelope] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open = dict(islice(self.open.items(), _OPEN_LIMIT))

    def begin(self, rank: int | None, order: int) -> None:
        """Open an envelope, the mention ``order`` of ``rank``."""
        self.open.pop(str(rank), None)
        if len(self.open) >= _OPEN_LIMIT:
            del self.open[next(iter(self.open))]
        self.open[str(rank)] = OpenEnvelope(order)

    def close(self, rank: int | None) -> None:
        self.open.pop(str(rank), None)

    def around(self, rank: int | None, text: str) -> OpenEnvelope | None:
        """The envelope that the next line ``text`` of ``rank`` belongs to, or None. It ends with a line of a logger,
        launcher or scheduler, or after too many lines."""
        if not self.open:
            return None
        found = self.open.get(str(rank))
        if found is None:
            return None
        stripped = text.strip()
        if stripped and not stripped.strip("^~ "):
            # Markers under code that was left out.
            return found
        found.read += 1
        if stripped and not text[0].isspace():
            found.left -= 1
        too_far = found.left < 0 or found.read > _MOST_LINES
        if too_far or _OTHERS.match(stripped) or level_of(text) in {"info", "warning"}:
            self.close(rank)
            return None
        return found
