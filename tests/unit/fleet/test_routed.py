"""Where routes send what a sweep tells: of one run, of many together, and of its own blindness."""

from typing import Any

from lastbeat.model.policy import FleetPolicy
from lastbeat.stores.port import UnreachableError
from lastbeat.watch.effects.routing import Routing
from lastbeat.watch.record.routes import Routes
from lastbeat.watch.record.routes_file import put_routes
from support.channel import ListChannel
from support.world import World

ROUTES = b"""
people:
  alice: {slack: U0123ABCD, team: vision}
routes:
  - {name: vision, when: {team: vision}, to: vision}
  - {name: noise, when: {runs: "debug-*"}, to: nobody}
default: {to: slack}
"""


class RoutedFleet:
    """A fleet with two channels, whose routes know a team and noise."""

    def __init__(self) -> None:
        self.world = World(fleet=FleetPolicy(group_runs=3))
        self.slack, self.vision = ListChannel("slack:11"), ListChannel("slack:vision:22")
        self.world.channels = [self.slack, self.vision]
        assert put_routes(self.world.store, ROUTES, "routes.yaml")[1] == []
        self.sweep: Any = self.world.fresh_sweep(routing=Routing(Routes(self.world.store)))

    def begin(self, *runs: tuple[str, str | None]) -> None:
        for run_id, owner in runs:
            self.world.run(run_id).beat(owner=owner)
        self.sweep.run()

    def silent(self, seconds: float = 900.0) -> None:
        self.world.after(seconds)
        self.sweep.run()

    @property
    def told(self) -> tuple[list[str], list[str]]:
        return self.slack.events, self.vision.events


def test_each_run_s_alert_goes_its_own_way() -> None:
    fleet = RoutedFleet()
    fleet.begin(("run-1", "alice"), ("run-2", None), ("debug-1", None))
    for run_id in ("run-1", "run-2", "debug-1"):
        fleet.world.run(run_id).error()
    fleet.world.after(60)
    fleet.sweep.run()
    assert fleet.told == (["FAILED"], ["FAILED"])
    assert [each.run_id for each in (*fleet.slack.sent, *fleet.vision.sent)] == ["run-2", "run-1"]


def test_a_group_is_told_wherever_one_of_its_runs_would_be() -> None:
    fleet = RoutedFleet()
    fleet.begin(("run-1", "alice"), ("run-2", None), ("run-3", None))
    fleet.silent()
    assert fleet.told == (["TIMED_OUT"], ["TIMED_OUT"])
    (said,) = fleet.vision.sent
    assert (said.member_count, [each.slack for each in said.mentions]) == (3, ["<@U0123ABCD>"])


def test_a_group_of_one_team_is_told_to_that_team_alone_and_so_is_its_end() -> None:
    fleet = RoutedFleet()
    runs = [(f"run-{number}", "alice") for number in range(3)]
    fleet.begin(*runs)
    fleet.silent()
    for _ in range(4):
        fleet.world.after(120)
        for run_id, owner in runs:
            fleet.world.run(run_id).beat(owner=owner)
        fleet.sweep.run()
    assert fleet.told == ([], ["TIMED_OUT", "RECOVERED"])


def test_runs_whose_alerts_are_dropped_open_no_group() -> None:
    fleet = RoutedFleet()
    fleet.begin(*((f"debug-{number}", None) for number in range(4)))
    fleet.silent()
    assert fleet.told == ([], [])


def test_a_fleet_that_nobody_can_see_is_told_without_asking_for_routes() -> None:
    fleet = RoutedFleet()
    fleet.begin(("run-1", "alice"))
    fleet.world.store.refuse("any", UnreachableError("no answer"))
    fleet.sweep.run()
    fleet.world.store.calls.clear()
    fleet.silent()
    assert "BLIND" in fleet.slack.events
    assert not [key for _, key in fleet.world.store.calls if "routes" in key]
