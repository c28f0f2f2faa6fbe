"""One start of a command that is restarted within its job, and the states that it goes through."""

import os
import time
from dataclasses import dataclass, field
from typing import TypeAlias

from lastbeat.model.in_place import InPlace
from lastbeat.model.starts_in_place import StartsInPlace
from lastbeat.training.exec.child.output_summary import OutputSummary
from lastbeat.training.exec.child.process import ChildProcess
from lastbeat.training.exec.in_place.ends import HowItEnded
from lastbeat.training.exec.in_place.following import InPlaceTerms
from lastbeat.training.exec.in_place.looking import StoreLook, StoreWatch
from lastbeat.training.exec.in_place.output_tail import OutputTail
from lastbeat.training.node.resources import ResourceMeter
from lastbeat.training.sdk.capture import Capture
from lastbeat.training.sdk.documents import process_mark
from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run


@dataclass
class CommandStart:
    """One start of the command, from its begin to its end."""

    starts: StartsInPlace
    """The starts of this job, of which this is the present one."""
    identity: InPlace
    """How training and ``exec`` recognize this start."""
    run: Run
    reporter: Reporter
    meter: ResourceMeter
    summary: OutputSummary
    tail: OutputTail
    printed: Capture
    store: StoreWatch
    began: float = field(default_factory=time.monotonic)
    """By the monotonic clock."""
    stacks: bytes = b""
    last_words: str | None = None
    """Output tail captured before a hung command was killed."""
    over: bool = False
    """Whether the command has exited, so that only ``exec`` reports this start."""

    @property
    def step(self) -> int | None:
        """The last step in its output, else in the store."""
        printed, said = self.summary.progress.step, self.store.said
        return printed if printed is not None else said.step if said is not None else None

    def reports_itself(self) -> bool:
        """Whether the command reports itself. Reads the store until it does. Raises :class:`StoreError`."""
        look = self.store.look
        return not self.over and look is not None and look.sees_report()


def identity_of(terms: InPlaceTerms, starts: StartsInPlace) -> InPlace:
    """The identity of the start of ``starts``, which names this process as its starter."""
    left = max(0, terms.most - starts.number)
    token, own = f"{terms.launch}-{starts.number}", os.getpid()
    return InPlace(token, starts.number, left, terms.takes_s, own, process_mark(own))


# The states, in the order in which a start goes through them.


@dataclass(frozen=True, slots=True)
class Starting:
    """The command is to be started."""

    starts: StartsInPlace
    before: StoreLook | None = None
    """Reads the store for the previous start; None before the first."""


@dataclass(frozen=True, slots=True)
class Running:
    """The command runs."""

    start: CommandStart
    child: ChildProcess


@dataclass(frozen=True, slots=True)
class Ended:
    """The command has exited, or was ended."""

    start: CommandStart
    child: ChildProcess
    how: HowItEnded
    called: StartsInPlace | None
    """The start that the other nodes make, if they make one."""


@dataclass(frozen=True, slots=True)
class Restarting:
    """Another start was decided. It begins once this machine, and all nodes, are ready."""

    start: CommandStart
    child: ChildProcess
    how: HowItEnded
    starts: StartsInPlace | None
    """The next start; None if the store did not say what the nodes agreed on."""
    pause_s: float | None = None
    """Time in s before the start; None if all nodes pause alike."""


@dataclass(frozen=True, slots=True)
class Over:
    """There is no further start."""

    status: int
    """The exit status; negative for the signal by which ``exec`` ends."""


State: TypeAlias = Starting | Running | Ended | Restarting | Over
