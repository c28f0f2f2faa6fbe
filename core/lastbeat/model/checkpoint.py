"""What is known of a training's checkpoints: which are complete, and which one a restart takes."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum


class Completeness(str, Enum):
    """Whether training can be resumed from a checkpoint."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    """Half written, or damaged."""
    QUARANTINED = "quarantined"
    """It looks complete, but attempts that began from it died before their first step."""
    UNREADABLE = "unreadable"
    """It could not be looked at, which says nothing about it."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A checkpoint is not taken any more, unless it is saved again."""

    why: str
    at: datetime
    """When the last attempt died on it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint: a folder or a single file."""

    name: str
    """Below the place of the checkpoints."""
    url: str
    """What training is given to resume from: a path, or ``s3://…``."""
    layout: str
    """Who writes such ones: ``megatron``, ``deepspeed``, ``huggingface``, ``dcp``, ``orbax``, ``lightning``, ``file``
    or ``folder``."""
    step: int | None
    """None: nothing says it."""
    saved_at: datetime
    """When its newest file was written, by the store's clock."""
    size_bytes: int
    files: int
    completeness: Completeness
    why: str
    """What shows that, in words."""

    @property
    def usable(self) -> bool:
        return self.completeness is Completeness.COMPLETE


@dataclass(frozen=True, slots=True)
class CheckpointSurvey:
    """What lies in a place of checkpoints, the newest first."""

    url: str
    checkpoints: tuple[Checkpoint, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be looked at, and what was left out."""
    complete_listing: bool = True
    """False: there are more files than are looked at, or some could not be; there may be other checkpoints."""
    chosen: Checkpoint | None = field(default=None)
    """The checkpoint that a restart would take; None if there is none and training starts over."""

    @property
    def newest_step(self) -> int | None:
        """For budgets: the step of the one that would be taken, -1 where there is none, None where that is not
        known."""
        if self.chosen is not None:
            return self.chosen.step
        unsure = any(each.completeness is Completeness.UNREADABLE for each in self.checkpoints)
        return None if unsure or not self.complete_listing else -1
