"""An error type: what it means to people, and how it behaves where runs are judged."""

from typing import NamedTuple

from lastbeat.model.status import FAILURE_IN_LOG


class ErrorTraits(NamedTuple):
    """How an error type behaves where causes are chosen and runs are judged. A user's own types have the defaults."""

    condition: str = FAILURE_IN_LOG
    """The condition that it raises beside RUNNING."""
    is_fatal: bool = True
    """A log that ends in it makes the run FAILED. A hang may resolve; heartbeats show if it does not."""
    says_nothing: bool = False
    """It only says that the cause is unknown."""
    printed_late: bool = False
    """The kernel or scheduler prints it long after processes noticed."""
    is_vague: bool = False
    """A warning just before it often explains it."""
    explains_vague: bool = False
    """Even a warning of it may explain a vague error."""
    shows_as: frozenset[str] = frozenset()
    """Error types that it shows up as before it is named itself."""
    spoils_values: bool = False
    """If it came first, it explains non-finite values."""
    about_values: bool = False
    """It is about values, which a single ordinary line may show."""
    between_peers: bool = False
    """A peer was missing, from which a run may recover."""
    is_imposed: bool = False
    """The run was stopped from outside, and a process that is stopped may raise anything."""
    ends_process: bool = False
    """It ends a process, even as a consequence of something else."""
    announced_calmly: bool = False
    """It counts at any log level."""
    when_circular: str | None = None
    """The error type that it is if threads or ranks wait for each other in a circle."""
    may_be_a_kill: bool = False
    """A SIGKILL from an unknown sender is taken for it."""
    blames_node: bool = False
    """The node is broken: a restart has to leave it out."""
    is_time_over: bool = False
    """The job's time was over, or it is gone without a word: restart policies call that a timeout."""
    only_waited: bool = False
    """It is the word of a process that waited, so what others did outranks it."""
    of_collective: bool = False
    """It is the time limit of a collective."""
    raised_where_needed: bool = False
    """Whether code that needs the missing thing raises an exception. Mere words about it, from a shell or a library
    that tries alternatives, give way to the error that ended the program."""


class ErrorType(NamedTuple):
    """A row of the table of causes."""

    name: str
    restartable: bool | None
    """None: it depends."""
    meaning: str
    hint: str
    """What to do if nothing more specific is known, with commands."""
    traits: ErrorTraits = ErrorTraits()
