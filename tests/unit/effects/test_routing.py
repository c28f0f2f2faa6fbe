"""No alert is lost to routes: it goes to a channel, or a route says that nobody gets it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.alert import Message
from lastbeat.model.record import Record
from lastbeat.model.route import ALL, LEFT_OUT, NOBODY, Route, RouteTable
from lastbeat.model.status import Event, Status
from lastbeat.watch.decide.routes import RouteChoice, choose
from lastbeat.watch.effects import outbox
from lastbeat.watch.effects.routing import Routing, applied
from lastbeat.watch.record.routes import Routes, digest, encode
from lastbeat.watch.record.routes_file import put_routes
from support.channel import ListChannel
from support.laws import examples
from support.memory import START, MemoryStore
from support.world import RUN, World

CHANNELS = ("slack:11", "slack:oncall:22", "sns:33", "pagerduty:oncall:44")
DESTINATIONS = st.sampled_from(["slack", "slack:oncall", "oncall", "sns", "pagerduty", "nowhere", "slack:nowhere"])
TO = st.one_of(
    st.just((ALL,)), st.just((NOBODY,)), st.lists(DESTINATIONS, min_size=1, max_size=3, unique=True).map(tuple)
)


@st.composite
def tables(draw: st.DrawFn) -> RouteTable:
    def route(number: int) -> Route:
        to = draw(TO)
        return Route(
            f"r{number}", to, goes_on=to != (NOBODY,) and draw(st.booleans()),
            runs=draw(st.sampled_from([(), ("run-*",), ("other",)])),
            events=draw(st.sampled_from([(), ("FAILED",), ("RECOVERED", "SUCCEEDED")])),
            teams=draw(st.sampled_from([(), ("vision",)])),
        )  # fmt: skip

    return RouteTable((*map(route, range(draw(st.integers(0, 4)))), Route("default", draw(TO))))


def message(event: Event = Event.FAILED, run_id: str = "run-1", **more: Any) -> Message:
    return Message(run_id, event, Status.FAILED, "boom", START, **more)


class Fixed(Routes):
    """A fleet with this table."""

    def __init__(self, table: RouteTable) -> None:
        store = MemoryStore()
        body = b"default: {to: slack}"
        store.put_text("_watchdog/routes.yaml", body.decode())
        store.put_text("_watchdog/routes.json", encode(replace(table, source=digest(body))).decode())
        super().__init__(store)


@settings(max_examples=examples(50), deadline=None)
@given(
    tables(),
    st.sampled_from([Event.FAILED, Event.RECOVERED, Event.WARNING]),
    st.sampled_from([None, "vision"]),
    st.lists(st.sampled_from(CHANNELS), unique=True).map(tuple),
    st.lists(st.sampled_from(CHANNELS), unique=True).map(tuple),
)
def test_an_alert_goes_to_a_channel_or_a_route_drops_it(
    table: RouteTable, event: Event, team: str | None, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    """``first`` decides, ``second`` comes a minute later with channels of its own."""
    said = message(event, team=team)
    dropped = choose(table, said).to == ()
    routing = Routing(Fixed(table))
    record = routing.add(Record("run-1"), said, first)
    (alert,) = record.outbox
    open_here = [each for each, delivery in alert.deliveries.items() if not delivery.settled]
    if first:
        assert bool(open_here) is not dropped
    record, claims = outbox.claim(record, first, "one", START, 60.0)
    assert [claim.identity for claim in claims] == [each for each in first if each in open_here]
    record = outbox.settle(record, {(1, claim.identity): None for claim in claims}, "one", START)
    later = START + timedelta(minutes=2)
    record = routing.late(record, second, later)
    record, more = outbox.claim(record, second, "two", later, 60.0)
    sent = {claim.identity for claim in (*claims, *more)}
    assert bool(sent) is (bool(first or second) and not dropped)
    (alert,) = record.outbox
    if alert.routed_to is not None:
        # Nobody gets it whom no route names.
        named = {each for each in sent if not outbox.answers_to(each).isdisjoint(alert.routed_to)}
        assert sent == named


@settings(max_examples=examples(40), deadline=None)
@given(tables(), st.lists(st.sampled_from(CHANNELS), min_size=1, unique=True).map(tuple))
def test_a_channel_that_routes_leave_out_has_a_delivery_that_counts_as_made(
    table: RouteTable, here: tuple[str, ...]
) -> None:
    (alert,) = Routing(Fixed(table)).add(Record("run-1"), message(), here).outbox
    assert set(alert.deliveries) == set(here)
    for identity, delivery in alert.deliveries.items():
        assert delivery.settled is str(delivery.told_by).startswith(LEFT_OUT)
        assert delivery.settled is (alert.routed_to is not None and not outbox.may_take(alert, identity))


HERE = ("slack:11", "slack:oncall:22")
APPLIED = [
    pytest.param(("slack",), HERE, {"slack:11"}, id="by the name of a channel"),
    pytest.param(("oncall",), HERE, {"slack:oncall:22"}, id="by a name of its own"),
    pytest.param(("slack:oncall",), HERE, {"slack:oncall:22"}, id="by both"),
    pytest.param(("oncall",), (*HERE, "pagerduty:oncall:44"), {"slack:oncall:22", "pagerduty:oncall:44"},
                 id="one name may have several channels"),
    pytest.param(("apprise",), ("slack:1", "apprise-discord:2", "apprise-mailto:3"),
                 {"apprise-discord:2", "apprise-mailto:3"}, id="a kind of which there are several"),
    pytest.param(("apprise-discord",), ("apprise-discord:2", "apprise-mailto:3"), {"apprise-discord:2"},
                 id="or one of them"),
    pytest.param((ALL,), HERE, set(HERE), id="all"),
    pytest.param((), HERE, set(), id="nobody"),
    pytest.param(("sns",), HERE, {"slack:11"}, id="none of them is here: the default's stand in"),
    pytest.param(("sns",), ("webhook:9",), {"webhook:9"}, id="nor are those: all of them"),
    pytest.param(("sns", "oncall"), HERE, {"slack:oncall:22"}, id="one of two is here"),
]  # fmt: skip


@pytest.mark.parametrize(("to", "here", "taken"), APPLIED)
def test_destinations(to: tuple[str, ...], here: tuple[str, ...], taken: set[str]) -> None:
    found, said = applied(RouteChoice(("a",), to, ("slack",)), message(), here)
    assert set(here) - set(found.left_out if found is not None else ()) == taken
    assert bool(said.notes) is ("sns" in to)


def test_whoever_was_told_of_a_trouble_is_told_of_its_end() -> None:
    table = RouteTable((Route("pager", ("oncall",), severities=("critical",)), Route("default", ("slack",))))
    routing, record = Routing(Fixed(table)), Record("run-1")
    for event in (Event.TIMED_OUT, Event.RECOVERED, Event.SUCCEEDED):
        record = routing.add(record, message(event), HERE)
    assert [alert.routed_to for alert in record.outbox] == [("oncall",), ("slack", "oncall"), ("slack", "oncall")]


def test_without_routes_an_alert_is_as_it_always_was() -> None:
    record = Routing(Routes(MemoryStore())).add(Record("run-1"), message(), HERE)
    assert record == outbox.enqueue(Record("run-1"), message(), HERE)


def watcher(world: World, *identities: str) -> tuple[list[ListChannel], Any]:
    channels = [ListChannel(identity) for identity in identities]
    return channels, world.fresh_watch(channels=channels, routing=Routing(Routes(world.store)))


def set_to(world: World, text: bytes) -> None:
    assert put_routes(world.store, text, "routes.yaml")[1] == []


def test_a_watch_sends_where_routes_say_and_mentions_whom_they_say() -> None:
    world = World()
    set_to(world, b"people: {alice: {slack: U0123ABCD, team: vision}}\n"
                  b"routes: [{name: v, when: {team: vision}, to: oncall}]\ndefault: {to: slack}\n")  # fmt: skip
    (slack, oncall), watch = watcher(world, *HERE)
    world.beat(owner="alice")
    world.error("ValueError: bad")
    watch.tick()
    assert (slack.events, oncall.events) == ([], ["FAILED"])
    (said,) = oncall.sent
    assert ([each.slack for each in said.mentions], said.team, said.notes) == (["<@U0123ABCD>"], "vision", ())


def test_a_broken_file_sends_everywhere_and_says_why() -> None:
    world = World()
    world.store.put_text("_watchdog/routes.yaml", "default: {too: slack}\n")
    (slack, oncall), watch = watcher(world, *HERE)
    world.beat()
    world.error("ValueError: bad")
    watch.tick()
    for channel in (slack, oncall):
        (said,) = channel.sent
        assert "went to every channel, because _watchdog/routes.yaml:1: " in said.notes[-1]


def test_an_alert_of_a_watcher_without_channels_is_routed_by_whoever_has_some() -> None:
    world = World()
    set_to(world, b"routes: [{name: a, when: {status: failed}, to: oncall}]\ndefault: {to: slack}\n")
    _, without = watcher(world)
    world.beat()
    world.error("ValueError: bad")
    without.tick()
    world.after(60)
    (slack, oncall), watch = watcher(world, *HERE)
    watch.tick()
    assert (slack.events, oncall.events) == ([], ["FAILED"])


def test_a_dropped_alert_is_recorded_and_nobody_ever_gets_it() -> None:
    world = World()
    set_to(world, f"routes: [{{name: noise, when: {{runs: {RUN}}}, to: nobody}}]\ndefault: {{to: slack}}\n".encode())
    world.beat()
    world.error("ValueError: bad")
    for _ in range(3):
        channels, watch = watcher(world, *HERE, "sns:9")
        outcome = watch.tick()
        assert [channel.events for channel in channels] == [[], [], []]
        assert outcome.pending == 0
        world.after(60)
    (alert,) = outcome.record.outbox
    assert (alert.routed_to, alert.routed_by) == ((), ("noise",))


def test_routes_are_read_only_for_an_alert() -> None:
    world = World()
    set_to(world, b"default: {to: slack}\n")
    _, watch = watcher(world, *HERE)
    world.store.calls.clear()
    for _ in range(3):
        world.beat()
        watch.tick()
        world.after(30)
    assert not [key for _, key in world.store.calls if "routes" in key]
    world.error("boom")
    watch.tick()
    assert [key for operation, key in world.store.calls if "routes" in key] == [
        "_watchdog/routes.yaml", "_watchdog/routes.json",
    ]  # fmt: skip
