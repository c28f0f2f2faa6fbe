"""Restarts as data: what people want to be restarted, how a job ended, what was decided."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import Enum
from typing import Annotated, Final, Literal, TypeAlias

from lastbeat.model.action import Action
from lastbeat.model.cause import UNDECIDED
from lastbeat.model.data import dataclass
from lastbeat.model.job import JobSpec
from lastbeat.model.persisted import OMITTED, TRANSIENT, KeyedBy, Persisted

DEFAULT_LEAST_CONFIDENCE = UNDECIDED
RESTART_KIND = "restart"
"""The kind of action that starts a job, for the first time or again."""
BEGUN = "begun"
"""In an action's details: when the supervision was begun whose first job it is."""
RESUME_FROM: Final = "resume_from"
"""In such an action's details: the checkpoint that the job gets."""
RESUME_STEP: Final = "resume_step"
"""In such an action's details: the step of that checkpoint."""
OnPermanent: TypeAlias = Literal["end", "leave"]


def called(action: Action) -> str:
    """What people call it: its kind, but the first job of a supervision is started, not started again."""
    return "start" if action.kind == RESTART_KIND and BEGUN in action.details else action.kind


class Mode(str, Enum):
    """How a job ended, as restart policies tell it apart."""

    CRASH = "crash"
    """It failed, was cancelled, or lost its node."""
    STALL = "stall"
    """It lived and did nothing any more."""
    TIMEOUT = "timeout"
    """It reached its time limit, or it is gone and how it ended is unknown."""
    SUCCESS = "success"
    PREEMPTED = "preempted"
    """It ended early on request, and saved a checkpoint first."""


@dataclass(frozen=True)
class RestartRule(Persisted):
    """What one mode leads to. ``excluded`` wins over everything; then what is named; then ``otherwise``."""

    kind: Literal["never", "always", "selective"] = "never"
    max_retries: int | None = 0
    """Restarts in a row; None: no limit of its own."""
    otherwise: Literal["restart", "stop"] = "stop"
    """In a selective rule: what a failure that the rule does not name leads to."""
    error_types: frozenset[str] = frozenset()
    subsystems: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """As the user named it → the subsystems of catalogues that it stands for."""
    signals: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The same for signals."""
    excluded: frozenset[str] = frozenset()
    """Error types that are never restarted, however uncertain it is that it was one."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """What to do when a signal, a transition or a checkpoint is seen. Exactly one of these."""

    note: str = ""
    """Text for record, alert and ``show``."""
    action: Literal["", "stop", "restart"] = ""
    """``stop``: cancel the job. ``restart``: ask the policy, which decides."""
    command: tuple[str, ...] = ()
    """To run once each, without a shell; ``{name}`` stands for a value, inside one argument."""
    limit_s: float = 600.0
    """How long the command may take."""


@dataclass(frozen=True)
class RestartPolicy(Persisted):
    """When a job is started again, and how often. Without one nothing is ever restarted. The record keeps all of it but
    the reactions, which the supervisor carries out from the file."""

    name: str
    rules: Annotated[Mapping[Mode, RestartRule], KeyedBy("mode")] = field(default_factory=dict)
    """A mode that is missing is never restarted."""
    type_budgets: Mapping[str, int] = field(default_factory=dict)
    """Error type → restarts in a row because of it."""
    cause_budget: int | None = None
    """Restarts in a row because of one and the same cause (error type and line)."""
    window_restarts: int | None = 10
    """Restarts of the whole run within ``window_s``. Progress does not give these back."""
    window_s: float = 86400.0
    same_step_times: int = 3
    """The same cause at the same step this many times ends the run."""
    least_confidence: float = DEFAULT_LEAST_CONFIDENCE
    """A cause that is less sure counts as ``unknown``."""
    longest_delay_s: float = 1800.0
    """Longest back-off in s."""
    exclude_stragglers: bool = field(default=False, metadata=OMITTED)
    """A node on which ranks were slow does not get the next job."""
    on_permanent: OnPermanent = field(default="end", metadata=OMITTED)
    """What happens to a job that failed, is not restarted, and still runs."""
    also: Mapping[str, frozenset[str]] = field(default_factory=dict, metadata=OMITTED)
    """Signals that every selective rule restarts, though it excludes their error type: as the user named them → the
    signals of catalogues that they stand for."""
    reactions: Mapping[str, tuple[Reaction, ...]] = field(default_factory=dict, metadata=TRANSIENT)
    """Signal, transition or ``checkpoint_saved`` → what to do."""
    reaction_signals: Mapping[str, frozenset[str]] = field(default_factory=dict, metadata=TRANSIENT)
    """The signals among these, as the user named them → the signals of catalogues that they stand for."""

    @property
    def understood(self) -> bool:
        """Whether this version knows all of it. What is left of it otherwise might restart what its author excluded."""
        return not self.unknown and not any(rule.unknown for rule in self.rules.values())

    def rule(self, mode: Mode) -> RestartRule:
        """The rule for ``mode``. Without one of its own, a preempted job is started again if any other mode is."""
        found = self.rules.get(mode)
        if found is None and mode is Mode.PREEMPTED and any(each.kind != "never" for each in self.rules.values()):
            return RestartRule("always", max_retries=None)
        return found or RestartRule()


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How an attempt ended: what a policy decides about."""

    mode: Mode
    error_type: str = "unknown"
    subsystem: str | None = None
    signal: str | None = None
    """Name of the signal that showed the cause."""
    confidence: float = 1.0
    """From 0 to 1."""
    second_type: str | None = None
    """The error type that it may be as well, where that is undecided."""
    by_scheduler: bool = False
    """The scheduler said so itself, which is sure."""
    cause_key: str = ""
    """Identifies the cause: the same for the same failure in another attempt. Empty: not known."""
    step: int | None = None
    """The last step that was seen. None: not known."""
    checkpoint_step: int | None = None
    """The newest complete checkpoint; -1: there is none. None: not known."""
    node: str | None = None
    """The node that failed first."""
    node_lost: bool = False
    """The scheduler has given that node up."""
    exit_code: int | None = None
    """Where training says by itself with which it ends, that: a launcher may turn it into its own."""
    suspect_nodes: tuple[str, ...] = ()
    """Nodes whose devices are in doubt, if the exit status asks for other hardware; empty if unknown."""
    asked_by: str | None = None
    """The person who asked for this end."""
    resumed_from: str | None = None
    """The checkpoint that the job was given."""
    first_step: bool | None = None
    """Whether it reached a step of its own; None if unknown, or if another party ended it."""
    slow_nodes: tuple[str, ...] = ()
    """Nodes on which ranks were slow when it ended, the worst first."""
    broken_nodes: tuple[str, ...] = ()
    """Nodes that had lost a GPU, or errors in its memory, when it ended, as they said."""


@dataclass(frozen=True)
class RestartEntry(Persisted):
    """One restart, as the record keeps it: what budgets are counted from."""

    at: datetime
    mode: Mode
    error_type: str
    cause_key: str = ""
    step: int | None = None
    checkpoint_step: int | None = None
    node: str | None = None
    resumed_from: str | None = None
    """The checkpoint that the job had been given which ended then."""
    first_step: bool | None = None
    """Whether that job reached a step of its own; None if unknown, or if another party ended it."""
    slow_nodes: tuple[str, ...] = ()
    """Nodes on which ranks were slow then."""


@dataclass(frozen=True)
class RestartRequest(Persisted):
    """A person's wish that a job be restarted, whatever the policy says."""

    number: int
    """Number of the job that the next one replaces."""
    by: str
    at: datetime


@dataclass(frozen=True)
class RestartRuling(Persisted):
    """What was decided about the end of one job, as the record keeps it."""

    number: int
    """Number of the job that had ended."""
    restart: bool
    reason: str
    at: datetime
    attempt: str = ""
    """``2/3``: the restart's number in its mode, and how many there may be."""
    resume_from: str | None = None
    resume_step: int | None = None
    afar: bool = False
    """Only in records of an earlier build: a watcher decided that could not ask the launcher, see ``record.codec``."""
    on: str = ""
    """The entry of the policy's ``on:`` that led to this. The job may still live then, and cannot recover."""
    passed_over: str = ""
    """The newer checkpoints in quarantine, and why; empty: there are none."""
    job: str = ""
    """What happens to a job that is not restarted and still ran, for display; empty if it had ended."""


@dataclass(frozen=True)
class FoundCheckpoint(Persisted):
    """The checkpoint that a restart would take, as the last survey found it."""

    url: str
    step: int | None = None
    saved_at: datetime | None = None
    found_at: datetime | None = None


@dataclass(frozen=True)
class Supervision(Persisted):
    """A run that is supervised: enough to go on with it on another machine."""

    launcher: str
    spec: JobSpec
    policy_name: str = ""
    policy: str = ""
    """The restart policy's file; empty: nothing is restarted."""
    checkpoints: str = ""
    """Where training saves them: a directory or ``s3://…``."""
    logs: tuple[str, ...] = ()
    """Files with the job's output, in the notation of LASTBEAT_LOGS."""
    by: str = ""
    """Who began it: ``user@host``."""
    begun_at: datetime | None = None
    compiled: RestartPolicy | None = None
    """The same policy, for views, which show its budgets and cannot read its file."""
    place: str = ""
    """The cluster or machine that its jobs run on, as the launcher names it; empty if unknown."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings from the start of the supervision (limits, signals), by name. They outrank the environment."""
    inactivity_minutes: float | None = None
    """The limit of that name; None for the one of the signals."""
    interval_s: float | None = None
    """Time between two passes."""


@dataclass(frozen=True)
class LeaseHolder(Persisted):
    """The supervisor that holds a run's lease, see ``supervision.lease``."""

    token: str
    """Identifies the supervisor."""
    by: str
    """Who started it: ``user@host``."""
    since: datetime | None = None
    until: datetime | None = None
    """By the store's clock: when others may take the lease, if nothing is heard of this one."""
    pid: int = 0
    started: int = 0
    """Clock ticks after the boot, as /proc has them; with ``pid`` and ``boot`` no other process has it."""
    boot: str = ""
    namespace: str = ""
    """The namespace of process numbers."""
    machine: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on restarts, and how much of it this decision leaves."""

    name: str
    """``crash``, ``error_type nccl``, ``this cause``, ``24 h``."""
    used: int
    """With the restart that was decided, or asked for."""
    limit: int | None

    @property
    def left(self) -> int | None:
        """The number of restarts left, or None without a limit."""
        return None if self.limit is None else max(0, self.limit - self.used)

    @property
    def exhausted(self) -> bool:
        return self.limit is not None and self.used > self.limit

    def __str__(self) -> str:
        return f"{self.name} {self.used}/{'∞' if self.limit is None else self.limit}"


@dataclass(frozen=True, slots=True)
class RestartDecision:
    """Whether a job is started again."""

    restart: bool
    reason: str
    budgets: tuple[Budget, ...] = ()
    """The first one is the mode's."""
    delay_s: float = 0.0
    """Time to wait before the new job."""
    excluded_nodes: tuple[str, ...] = ()
    """Nodes that the new job must not get."""
    other_hardware: bool = False
    """The new job has to run on other nodes than the last one."""

    @property
    def attempt(self) -> str:
        """``2/3``: the restart's number in its mode, and how many there may be."""
        first = self.budgets[0] if self.budgets else None
        return "" if first is None else f"{first.used}/{'∞' if first.limit is None else first.limit}"
