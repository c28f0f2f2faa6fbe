"""The command that ``lastbeat exec`` runs, and the run that it is reported as."""

import os
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WrappedCommand:
    """A command and its run."""

    command: Sequence[str]
    streams: Sequence[int]
    """Its standard input, output and error, as descriptors of this process."""
    name: str
    """The run's id."""
    phase: str
    steps: int | None
    """How many steps it will take; None if unknown."""
    dumps: str | None = None
    """The folder for the dumps of its flight recorders; None if lastbeat has nothing to do with them."""

    @property
    def program(self) -> str:
        """The name of its program, for display."""
        return os.path.basename(self.command[0])  # noqa: PTH119 - a name as typed, which need be no path
