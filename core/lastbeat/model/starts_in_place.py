"""``in_place.json`` beside a run: how often its command was started again within its job, why, and which start is the
present one."""

from typing import Final

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Persisted
from lastbeat.model.restart import RestartEntry

KEY: Final = "in_place.json"
FOLDER: Final = "in_place/"
"""What each start that ended left behind."""
KEPT: Final = 100


@dataclass(frozen=True)
class StartsInPlace(Persisted):
    """The starts within one job. The next job begins with none."""

    launch: str
    """Identifies the job's launch: the same word on all of its nodes."""
    number: int = 0
    """Number of the present start, from 0."""
    restarts: tuple[RestartEntry, ...] = ()
    """The latest :data:`KEPT`, oldest first."""
    why: str = ""
    """Why the present start was necessary."""
    by: str = ""
    """The node that saw the reason."""
    resume_from: str | None = None
    """The checkpoint that the present start was given."""
    resume_step: int | None = None
    over: str = ""
    """Why there is no further start. Empty: there may be one."""
