"""A new channel gets no alert of before it existed; one that existed loses none."""

import json
from datetime import timedelta
from typing import Any

import pytest

from lastbeat.alerts.port import Channel
from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.stores.reading import ReadingStore
from lastbeat.watch.effects.outbox import ADOPT_S
from lastbeat.watch.effects.routing import Routing
from lastbeat.watch.record.channels import CHANNELS, KnownChannels
from support.channel import ListChannel, down
from support.memory import START, MemoryStore
from support.world import World

SLACK, PAGER = "slack:1f", "pagerduty:2e"


class Fleet(World):
    """Its watchers differ in their channels; each look is that of a process that was just started."""

    def __init__(self) -> None:
        self.state_of = dict[tuple[str, ...], MemoryStore]()
        super().__init__()

    def pass_of(self, *channels: Channel, keeps_state: bool = False, **options: Any) -> None:
        self.after(60)
        self.beat()
        state = self.state_of.setdefault(tuple(each.identity for each in channels), MemoryStore())
        known = KnownChannels(self.store, state if keeps_state else None)
        self.fresh_watch(channels=channels, routing=Routing(known=known), **options).tick()

    def fails(self) -> None:
        self.put("_error", f"RuntimeError: at {self.now}")

    def goes_on(self) -> None:
        self.delete("_error")
        self.beat(attempt=2, start_time=self.instance_now.isoformat())


def test_a_new_channel_gets_only_what_is_decided_from_then_on() -> None:
    fleet, slack, pager = Fleet(), ListChannel(SLACK), ListChannel(PAGER)
    fleet.pass_of(slack)
    fleet.fails()
    fleet.pass_of(slack)
    fleet.pass_of(slack, pager)
    fleet.pass_of(slack, pager)
    assert (slack.events, pager.events) == (["FAILED"], [])
    fleet.put("_alerts.json", json.dumps({"alerts": [{"id": "a", "title": "later"}]}))
    fleet.pass_of(slack, pager)
    assert (slack.events, pager.events) == (["FAILED", "ALERT"], ["ALERT"])


@pytest.mark.parametrize("keeps_state", [False, True])
def test_the_first_channel_of_a_fleet_gets_nothing_of_before_it(*, keeps_state: bool) -> None:
    fleet, slack = Fleet(), ListChannel(SLACK)
    fleet.pass_of(keeps_state=keeps_state)
    fleet.fails()
    fleet.pass_of(keeps_state=keeps_state)
    for _ in range(3):
        fleet.pass_of(slack, keeps_state=keeps_state)
    assert slack.events == []


@pytest.mark.parametrize("keeps_state", [False, True])
def test_a_channel_of_another_watcher_loses_nothing_while_that_is_down(*, keeps_state: bool) -> None:
    fleet, slack, pager = Fleet(), ListChannel(SLACK), ListChannel(PAGER)
    fleet.pass_of(slack)
    fleet.pass_of(pager, keeps_state=keeps_state)
    fleet.fails()
    fleet.pass_of(slack)
    fleet.after(ADOPT_S - 600)
    fleet.pass_of(pager, keeps_state=keeps_state)
    assert (slack.events, pager.events) == (["FAILED"], ["FAILED"])


def test_a_channel_under_a_new_address_is_no_new_one() -> None:
    fleet, old, new = Fleet(), ListChannel("slack:old"), ListChannel("slack:new")
    fleet.pass_of(old)
    old.fault = down
    fleet.fails()
    fleet.pass_of(old)
    fleet.pass_of(new)
    assert new.events == ["FAILED"]


def test_a_fleet_of_an_older_version_loses_nothing_when_it_is_upgraded() -> None:
    fleet, slack, pager = Fleet(), ListChannel(SLACK), ListChannel(PAGER)
    fleet.beat()
    fleet.fails()
    fleet.fresh_watch(channels=[slack]).tick()
    fleet.pass_of(pager)
    assert pager.events == ["FAILED"]


@pytest.mark.parametrize("refused", ["read", "write"])
def test_where_it_cannot_be_known_nothing_is_lost(refused: str) -> None:
    fleet, slack, pager = Fleet(), ListChannel(SLACK), ListChannel(PAGER)
    fleet.pass_of(slack)
    fleet.fails()
    fleet.pass_of(slack)

    fleet.store.refuse(refused, UnreachableError("away"), key=CHANNELS)
    fleet.pass_of(pager)
    assert pager.events == ["FAILED"]


@pytest.mark.parametrize("body", ["{ torn", "[]", '{"schema": 1, "channels": 7}', '{"schema": 9, "channels": {}}'])
def test_a_document_that_nobody_can_read_is_left_alone(body: str) -> None:
    store = MemoryStore()
    store.put_text(CHANNELS, body)
    assert KnownChannels(store).since(["slack"], START) == {}
    assert store.held[CHANNELS].body.decode() == body


def test_a_watcher_that_has_registered_its_channels_asks_the_store_no_more() -> None:
    store, state = MemoryStore(), MemoryStore()
    KnownChannels(store, state).begin(START)
    known = KnownChannels(store, state)
    later = START + timedelta(minutes=1)
    assert known.since(["slack"], later) == {"slack": later}
    asked = len(store.calls)
    for each in (known, KnownChannels(store, state)):
        assert each.since(["slack"], later + timedelta(days=9)) == {"slack": later}
    assert len(store.calls) == asked


def test_a_watcher_that_may_not_write_for_the_fleet_keeps_it_in_its_state_directory() -> None:
    store, state = MemoryStore(), MemoryStore()

    store.refuse("write", DeniedError("no"), named=CHANNELS)
    later = START + timedelta(days=1)
    assert KnownChannels(store, state).since(["slack"], START) == {"slack": None}
    assert KnownChannels(store, state).since(["slack", "sns"], later) == {"slack": None, "sns": later}
    again = KnownChannels(store, state).since(["slack", "sns"], later + timedelta(days=1))
    assert again == {"slack": None, "sns": later}
    assert KnownChannels(store).since(["slack"], START) == {}


def test_a_failing_store_is_not_asked_with_each_alert_and_the_start_of_the_process_counts() -> None:
    store = MemoryStore()
    KnownChannels(store).begin(START)
    known = KnownChannels(store)

    store.refuse("any", UnreachableError("away"))
    for _ in range(9):
        assert known.since(["slack"], START) == {}
    assert len(store.calls) < 40
    store.heal()
    assert known.since(["slack"], START + timedelta(hours=1)) == {"slack": START}


def test_a_dry_run_tells_the_same_and_writes_nothing() -> None:
    store = MemoryStore()
    KnownChannels(store).since(["slack"], START)
    written = dict(store.held)
    later = START + timedelta(hours=1)
    assert KnownChannels(ReadingStore(store)).since(["slack", "sns"], later) == {"slack": None, "sns": later}
    assert store.held == written
