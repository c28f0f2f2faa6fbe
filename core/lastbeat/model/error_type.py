"""What a cause may be: an error type, what it means to people, and how it behaves where runs are judged."""

from typing import NamedTuple

from lastbeat.model.status import FAILURE_IN_LOG


class ErrorTraits(NamedTuple):
    """How an error type behaves where causes are weighed and runs are judged. A user's own type has no special ones."""

    condition: str = FAILURE_IN_LOG
    """The condition beside RUNNING while logs show it."""
    is_fatal: bool = True
    """Logs that end in it end the run. A hang may come loose, and heartbeats tell if it does not."""
    says_nothing: bool = False
    """It only says that the cause is not known."""
    printed_late: bool = False
    """The kernel or the scheduler prints it long after others have noticed."""
    is_vague: bool = False
    """A warning just before it often explains it."""
    explains_vague: bool = False
    """A mere warning of it may explain a vague error."""
    shows_as: frozenset[str] = frozenset()
    """Error types that it is mistaken for, until it is named itself."""
    spoils_values: bool = False
    """If it came first, it explains values that are not finite."""
    about_values: bool = False
    """It is about values, which one line in passing may tell."""
    between_peers: bool = False
    """A peer was missed, which may be got over."""
    is_imposed: bool = False
    """Somebody or something outside stopped the run, and whoever is stopped may raise anything."""
    ends_process: bool = False
    """Even as a consequence of something else it is the end of a process."""
    announced_calmly: bool = False
    """It is news at any log level."""
    when_circular: str | None = None
    """The error type that it is if threads or ranks wait for each other in a circle."""
    may_be_a_kill: bool = False
    """It is also what an end by SIGKILL is taken for, whoever sent that."""


class ErrorType(NamedTuple):
    """A row of the table of causes."""

    name: str
    restartable: bool | None
    """None: it depends on what is behind it."""
    meaning: str
    hint: str
    """What to do about it when nothing more specific is known, with the commands."""
    traits: ErrorTraits = ErrorTraits()
