"""What passes stand on, from one to the next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lastbeat.fleet.archive import Archive
from lastbeat.fleet.findings import Findings
from lastbeat.fleet.groups import Groups
from lastbeat.fleet.looks import Looks
from lastbeat.fleet.pacing import PacedChannel
from lastbeat.fleet.steps import Steps
from lastbeat.fleet.watches import Watches
from lastbeat.model.fleet import Shard
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.stores.limited import TimelyStore
from lastbeat.stores.port import Store


@dataclass(frozen=True)
class Stand:
    """What passes stand on, from one to the next."""

    store: Store
    timely: TimelyStore
    """The same, for whoever cannot wait."""
    channels: Sequence[PacedChannel]
    policy: Policy
    fleet: FleetPolicy
    shard: Shard
    watches: Watches
    looks: Looks
    steps: Steps
    groups: Groups
    archive: Archive
    mask: Callable[[str], str]
    late: Findings
    """What looks found that outlasted their pass."""
