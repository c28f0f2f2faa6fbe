"""A cluster in memory: what executors change, and can be asked about. Counts what nobody may do twice."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from lastbeat.model.action import Action

LIMIT_S = 60.0


@dataclass
class Cluster:
    """The world. ``before`` and ``after`` are called with (operation, name) around each call and may raise: before
    means that nothing happened, after that it happened and the answer got lost."""

    jobs: dict[str, str] = field(default_factory=dict)
    """Name → what the cluster calls it."""
    submitted: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    before: Callable[[str, str], None] = lambda _operation, _name: None
    after: Callable[[str, str], None] = lambda _operation, _name: None

    def heal(self) -> None:
        self.before = self.after = lambda _operation, _name: None


@dataclass
class ClusterExecutor:
    """Restarts by submitting a job."""

    cluster: Cluster
    kind: str = "restart"
    limit_s: float = LIMIT_S

    def find(self, action: Action) -> str | None:
        self.cluster.before("find", action.name)
        self.cluster.asked[action.name] += 1
        found = self.cluster.jobs.get(action.name)
        self.cluster.after("find", action.name)
        return found

    def perform(self, action: Action) -> str:
        self.cluster.before("perform", action.name)
        self.cluster.submitted[action.name] += 1
        job = f"job-{self.cluster.submitted.total()}"
        self.cluster.jobs.setdefault(action.name, job)
        self.cluster.after("perform", action.name)
        return job
