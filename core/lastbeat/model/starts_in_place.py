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
    """Of one job: the next one begins with none."""

    launch: str
    """Of the job: the same word on all of its nodes."""
    number: int = 0
    """Of the present start, from 0."""
    restarts: tuple[RestartEntry, ...] = ()
    """The latest :data:`KEPT`, oldest first."""
    why: str = ""
    """What the present start follows."""
    by: str = ""
    """The node that saw it."""
    resume_from: str | None = None
    """The checkpoint that the present start was given."""
    resume_step: int | None = None
    over: str = ""
    """Why there is no further start. Empty: there may be one."""
