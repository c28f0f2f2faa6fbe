"""What came of a policy's ``on:``, as the record keeps it."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Final

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Persisted

CHECKPOINT_SAVED: Final = "checkpoint_saved"
"""The change a policy's ``on:`` names that is neither a signal nor a change of status."""
COMMAND_KIND: Final = "command"
"""The kind of action that runs a command of a policy."""
STOP_KIND: Final = "stop"
"""The kind of action that ends a job because a policy says so."""


@dataclass(frozen=True)
class PolicyNote(Persisted):
    """A note of a policy, or a word on what its reactions did not do."""

    at: datetime
    on: str
    """What it answers: ``failed``, ``cuda_hang``, ``checkpoint_saved``."""
    text: str


@dataclass(frozen=True)
class CommandRun(Persisted):
    """A command of a policy that was started, or never will be."""

    name: str
    """Identifies its action: ``command-checkpoint-1500``."""
    on: str
    at: datetime
    """When it was started, or refused."""
    limit_s: float
    place: str = ""
    """The machine that it runs on."""
    ended_at: datetime | None = None
    how: str = ""
    """How it ended: ``exit status 3``."""
    failed: bool = False
    output: str = ""
    """Where its output is kept: a name below the run's folder, else a file of its machine."""


@dataclass(frozen=True)
class ReactionMemory(Persisted):
    """What reactions have answered already, and what came of them."""

    transitions: int = 0
    """Number of the last transition that was answered."""
    job: str = ""
    """The life of a job that was last seen to run."""
    attempt: int = 0
    signals: tuple[str, ...] = ()
    """What ``on:`` names and was seen in the logs of that attempt."""
    saved: Mapping[str, datetime] = field(default_factory=dict)
    """The latest checkpoints that were seen to be complete: name → when they were saved."""
    saved_after: datetime | None = None
    """What was saved by then is not newly saved."""
    notes: tuple[PolicyNote, ...] = ()
    """The latest ones."""
    commands: tuple[CommandRun, ...] = ()
    """The latest ones, and all that have not ended."""

    @property
    def running(self) -> tuple[CommandRun, ...]:
        """The commands that have not ended."""
        return tuple(each for each in self.commands if each.ended_at is None)
