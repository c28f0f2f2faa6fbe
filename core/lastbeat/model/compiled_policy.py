"""A restart policy as the record keeps it: what its file means, for views that show its budgets."""

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, Literal

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Form, Persisted


@dataclass(frozen=True)
class CompiledRule(Persisted):
    """What one mode leads to, see :class:`lastbeat.model.restart.RestartRule`."""

    mode: Literal["crash", "stall", "timeout", "success", "preempted"]
    kind: Literal["never", "always", "selective"]
    max_retries: int | None = 0
    otherwise: Literal["restart", "stop"] = "stop"
    error_types: tuple[str, ...] = ()
    subsystems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    signals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True)
class CompiledPolicy(Persisted):
    """A :class:`lastbeat.model.restart.RestartPolicy` without its reactions, which the supervisor carries out from the
    file."""

    FORM: ClassVar = Form.SPARSE

    name: str
    rules: tuple[CompiledRule, ...]
    type_budgets: Mapping[str, int]
    cause_budget: int | None
    window_restarts: int | None
    window_s: float
    same_step_times: int
    least_confidence: float
    longest_delay_s: float
    exclude_stragglers: bool = False
    on_permanent: Literal["end", "leave"] = "end"
    also: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def understood(self) -> bool:
        """Whether this version knows all of it. What is left of it otherwise might restart what its author excluded."""
        return not self.unknown and not any(rule.unknown for rule in self.rules)
