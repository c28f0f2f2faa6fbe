"""Runs that fall silent together, and the least of a sweep around them: look at each, gather, hand over."""

from collections.abc import Collection

from lastbeat.fleet.groups import GroupedAlerts, Groups, WatchedRuns, apply_to
from lastbeat.model.group import LEDGER, Ledger
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.status import Status
from lastbeat.stores.port import StoreError
from lastbeat.watch.record.codec import decode
from lastbeat.watch.watchdog import Watch, WatchContext
from support.world import World

HOLD_S = 120.0


class Grouper:
    """One process that looks at every run and tells of groups, pass after pass."""

    def __init__(self, world: "GroupWorld") -> None:
        self.world = world
        context = WatchContext(world.store, world.channels, world.policy, world.store.clock)
        self.groups = Groups(context, world.fleet)
        self.watches: dict[str, Watch] = {}

    def sweep(self, *, listed: bool = True) -> GroupedAlerts:
        world = self.world
        try:
            page = world.store.list("_watchdog/")
        except StoreError:
            # Blind: another pass will come.
            return GroupedAlerts()
        outcomes = {run_id: self._watch(run_id).tick() for run_id in world.run_ids}
        held = [each for outcome in outcomes.values() for each in self.groups.deferred_by(outcome)]
        entry = next((entry for entry in page.entries if entry.key == LEDGER and listed), None)

        def status_of(run_id: str) -> Status | None:
            status = outcomes[run_id].status
            return None if status is Status.UNKNOWN else status

        watched = WatchedRuns(len(world.run_ids), status_of)
        decision = self.groups.gather(held, watched, world.now, entry, listed=listed)
        for run_id in decision.run_ids:
            apply_to(self._watch(run_id), decision, world.now)
        return decision

    def _watch(self, run_id: str) -> Watch:
        if run_id not in self.watches:
            self.watches[run_id] = self.world.fresh_watch(run_id, state=None, in_fleet=True, defer_s=HOLD_S)
        return self.watches[run_id]


class GroupWorld(World):
    """A fleet whose runs beat whenever time passes unless they are silent."""

    def __init__(self, runs: int, fleet: FleetPolicy | None = None) -> None:
        super().__init__(fleet=fleet or FleetPolicy(group_runs=3))
        self.run_ids = tuple(f"run-{number:02d}" for number in range(runs))
        self.facts: dict[str, dict[str, str]] = {}
        self.silent: set[str] = set()
        self.grouper = Grouper(self)
        self.after(0)

    def after(self, seconds: float) -> None:
        super().after(seconds)
        self._beat(set(self.run_ids) - self.silent)

    def _beat(self, run_ids: Collection[str], age_s: float = 0.0) -> None:
        for run_id in run_ids:
            self.run(run_id).beat(age_s=age_s, **{"instance_id": f"i-{run_id}", **self.facts.get(run_id, {})})

    def silence(self, run_ids: Collection[str]) -> None:
        """These fall silent, and long enough ago that they are timed out now."""
        self.silent |= set(run_ids)
        self._beat(run_ids, age_s=self.policy.stale_s + 60)

    def wake(self, run_ids: Collection[str]) -> None:
        self.silent -= set(run_ids)
        self.after(1)

    def alerts(self) -> list[str]:
        """``TIMED_OUT run-03`` for an alert about one run, ``TIMED_OUT 3: run-01 run-02 run-03`` for one about many."""
        return [
            f"{m.event} {m.member_count}: {' '.join(m.members)}" if m.member_count else f"{m.event} {m.run_id}"
            for m in self.channel.sent
        ]

    def ledger(self) -> Ledger | None:
        held = self.store.held.get(LEDGER)
        return decode(held.body, Ledger) if held is not None else None

    def unsettled(self) -> set[tuple[str, int]]:
        """Run id and number of the alerts that are still to come."""
        records = {run_id: self.run(run_id).record for run_id in self.run_ids}
        return {
            (run_id, alert.number)
            for run_id, record in records.items()
            if record is not None
            for alert in record.outbox
            if not all(delivery.settled for delivery in alert.deliveries.values())
        }
