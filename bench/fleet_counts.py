"""What watching a fleet asks of S3, and what that costs a run and month: passes over simulated minutes."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench import fleet_runs
from bench.fleet_store import CountedStore
from lastbeat.fleet.cost import MONTH_S
from lastbeat.fleet.mark import MarkWriter
from lastbeat.fleet.sweep import Sweep
from lastbeat.model.fleet import PassReport
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.stores.kind import S3_LIST
from lastbeat.stores.volatile import VolatileStore
from lastbeat.watch.watchdog import WatchContext

PASS_S = 60.0
WARM_PASSES = 30
"""Until the looks of a fleet that was all new at once are spread as they stay."""
FINISHED_S = 2 * 86400.0
POLLER = Counter({"HEAD": 2, "GET": 2})
"""Of one run."""


@dataclass(frozen=True)
class Fleet:
    """So many runs that live among so many that ended two days ago."""

    active: int
    finished: int = 0

    @property
    def name(self) -> str:
        return f"{self.active:,} active" + (f" among {self.finished:,} finished" if self.finished else "")

    @property
    def runs(self) -> list[str]:
        """The active ones."""
        return [fleet_runs.run_id(number) for number in range(self.active)]

    @property
    def over(self) -> list[str]:
        # Before and behind the active ones in a listing.
        return [fleet_runs.run_id(number, "old" if number % 2 else "toy") for number in range(self.finished)]


@dataclass(frozen=True)
class Count:
    """``first``: the pass that finds everything. ``each``: the others, on average."""

    fleet: Fleet
    first: Counter[str]
    each: dict[str, float]
    plans: str

    @property
    def month(self) -> float:
        """Dollars of the whole fleet."""
        return self.run_month * self.fleet.active

    @property
    def run_month(self) -> float:
        return self._month(self.each)

    @property
    def poller_run_month(self) -> float:
        return self._month({kind: count * self.fleet.active for kind, count in POLLER.items()})

    def _month(self, requests: dict[str, float]) -> float:
        return S3_LIST.dollars(requests) * MONTH_S / PASS_S / self.fleet.active


def count(fleet: Fleet, passes: int, policy: FleetPolicy | None = None) -> Count:
    """``passes`` minutes of a fleet whose runs write both heartbeats each minute."""
    store, policy = CountedStore(), policy or FleetPolicy()
    for run in fleet.over:
        for key, body in fleet_runs.finished(run, store.now):
            store.put(key, body, age_s=FINISHED_S)
    store.fill(file for run in fleet.runs for file in fleet_runs.active(run, 0, store.now))
    # What a service keeps in LASTBEAT_STATE_DIR costs nothing.
    context = WatchContext(store, (), Policy(), store.clock, state=VolatileStore(store.clock))
    sweep = Sweep(context, policy, mark=MarkWriter(store, policy))
    _checked(sweep.run(), fleet)
    first = Counter(store.requests)
    plans: Counter[str] = Counter()
    for step in range(1, WARM_PASSES + passes + 1):
        if step == WARM_PASSES + 1:
            store.requests.clear()
            plans.clear()
        store.pass_time(PASS_S)
        store.fill(file for run in fleet.runs for file in fleet_runs.beat(run, step, store.now))
        plans[_checked(sweep.run(), fleet).plan] += 1
    each = {kind: number / passes for kind, number in store.requests.items()}
    return Count(fleet, first, each, ", ".join(sorted(plans)))


def _checked(report: PassReport, fleet: Fleet) -> PassReport:
    if report.blind or not report.complete or report.statuses.get("RUNNING") != fleet.active:
        raise RuntimeError(f"the sweep of {fleet.name} did not see what is there: {report}")
    return report


def table(fleets: tuple[Fleet, ...], passes: int) -> Iterator[str]:
    yield f"| requests of a pass, {passes} passes a minute apart | first pass | each pass | poller |"
    yield "|---|---|---|---|"
    counts = []
    for fleet in fleets:
        found = count(fleet, passes)
        counts.append(found)
        poller = ", ".join(f"{number * fleet.active:,} {kind}" for kind, number in sorted(POLLER.items()))
        yield f"| {fleet.name} | {_kinds(found.first)} | {_kinds(found.each)} ({found.plans}) | {poller} |"
    yield ""
    yield "| dollars a run and month, a pass each minute | `lastbeat sweep` | poller | poller ÷ sweep |"
    yield "|---|---:|---:|---:|"
    for found in counts:
        ours, theirs = found.run_month, found.poller_run_month
        yield f"| {found.fleet.name} | ${ours:.5f} | ${theirs:.5f} | {theirs / ours:.1f} |"


def trade(fleets: tuple[Fleet, ...], minutes: tuple[float, ...], passes: int) -> Iterator[str]:
    """What it costs to find new runs sooner, where few live among many that ended."""
    shown = " | ".join(f"{each:g} min" for each in minutes)
    yield f"| dollars a month, new and reopened runs found within | {shown} | poller |"
    yield f"|---|{'---:|' * (len(minutes) + 1)}"
    for fleet in fleets:
        found = [count(fleet, passes, replace(FleetPolicy(), discover_s=60 * each)) for each in minutes]
        shown = " | ".join(f"${each.month:.2f}" for each in found)
        yield f"| {fleet.name} | {shown} | ${found[0].poller_run_month * fleet.active:.2f} |"


def _kinds(requests: "Counter[str] | dict[str, float]") -> str:
    return ", ".join(f"{number:,.4g} {kind}" if number < 1000 else f"{number:,.0f} {kind}"
                     for kind, number in sorted(requests.items()) if number)  # fmt: skip
