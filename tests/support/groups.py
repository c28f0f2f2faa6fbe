"""Runs that fall silent together, and the least of a sweep around them: look at each, gather, hand over."""

import json
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

from lastbeat.fleet.groups import GroupedAlerts, Groups, WatchedRuns, apply_to
from lastbeat.model.group import LEDGER, Ledger
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.model.record import Record
from lastbeat.model.status import Status
from lastbeat.record.codec import decode_ledger, decode_record
from lastbeat.stores.port import StoreError
from lastbeat.watchdog import Watch, WatchContext
from support.channel import ListChannel
from support.memory import MemoryStore

HOLD_S = 120.0


class Sweeper:
    """One process that sweeps, pass after pass."""

    def __init__(self, scene: "GroupScene") -> None:
        self.scene = scene
        self.groups = Groups(scene.store, [scene.channel], scene.policy, scene.fleet, token=f"s{id(self)}")
        self.watches: dict[str, Watch] = {}

    def sweep(self, *, listed: bool = True) -> GroupedAlerts:
        scene = self.scene
        try:
            page = scene.store.list("_watchdog/")
        except StoreError:
            # Blind: another pass will come.
            return GroupedAlerts()
        outcomes = {run_id: self._watch(run_id).tick() for run_id in scene.run_ids}
        held = [each for outcome in outcomes.values() for each in self.groups.deferred_by(outcome)]
        entry = next((entry for entry in page.entries if entry.key == LEDGER and listed), None)

        def status_of(run_id: str) -> Status | None:
            status = outcomes[run_id].status
            return None if status is Status.UNKNOWN else status

        watched = WatchedRuns(len(scene.run_ids), status_of)
        decision = self.groups.gather(held, watched, scene.store.clock(), entry, listed=listed)
        for run_id in decision.run_ids:
            apply_to(self._watch(run_id), decision, scene.store.clock())
        return decision

    def _watch(self, run_id: str) -> Watch:
        if run_id not in self.watches:
            scene = self.scene
            context = WatchContext(scene.store, [scene.channel], scene.policy, scene.store.clock)
            self.watches[run_id] = Watch(run_id, replace(context, in_fleet=True, defer_s=HOLD_S))
        return self.watches[run_id]


class GroupScene:
    """A fleet in a store in memory, whose runs beat whenever time passes unless they are silent."""

    def __init__(self, runs: int, fleet: FleetPolicy | None = None) -> None:
        self.store = MemoryStore()
        self.channel = ListChannel()
        self.policy = Policy()
        self.fleet = fleet or FleetPolicy(group_runs=3)
        self.run_ids = tuple(f"run-{number:02d}" for number in range(runs))
        self.facts: dict[str, dict[str, str]] = {}
        self.silent: set[str] = set()
        self.sweeper = Sweeper(self)
        self.after(0)

    def after(self, seconds: float) -> None:
        self.store.pass_time(seconds)
        for run_id in self.run_ids:
            if run_id not in self.silent:
                self.beat(run_id)

    def beat(self, run_id: str) -> None:
        now = self.store.now.isoformat()
        document = {"phase": "train", "instance_id": f"i-{run_id}", "last_update": now, **self.facts.get(run_id, {})}
        self.store.put_text(f"{run_id}/metadata.json", json.dumps(document))

    def silence(self, run_ids: Collection[str]) -> None:
        """These fall silent, and long enough ago that they are timed out now."""
        self.silent |= set(run_ids)
        old = self.store.now - timedelta(seconds=self.policy.stale_s + 60)
        for run_id in run_ids:
            document = json.dumps({"last_update": old.isoformat(), **self.facts.get(run_id, {})})
            self.store.put_text(f"{run_id}/metadata.json", document, modified=old)

    def wake(self, run_ids: Collection[str]) -> None:
        self.silent -= set(run_ids)
        self.after(1)

    def told(self) -> list[str]:
        """``TIMED_OUT run-03`` for an alert about one run, ``TIMED_OUT 3: run-01 run-02 run-03`` for one about many."""
        return [
            f"{m.event} {m.member_count}: {' '.join(m.members)}" if m.member_count else f"{m.event} {m.run_id}"
            for m in self.channel.sent
        ]

    def record(self, run_id: str) -> Record | None:
        held = self.store.held.get(f"{run_id}/_watchdog.json")
        return decode_record(held.body) if held is not None else None

    def ledger(self) -> Ledger | None:
        held = self.store.held.get(LEDGER)
        return decode_ledger(held.body) if held is not None else None

    def unsettled(self) -> set[tuple[str, int]]:
        """Run id and number of the alerts that are still to come."""
        records = {run_id: self.record(run_id) for run_id in self.run_ids}
        return {
            (run_id, alert.number)
            for run_id, record in records.items()
            if record is not None
            for alert in record.outbox
            if not all(delivery.settled for delivery in alert.deliveries.values())
        }
