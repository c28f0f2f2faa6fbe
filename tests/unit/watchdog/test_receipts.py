"""What a channel keeps lies in the run's record: whoever looks next ends the incident that another watcher opened."""

import json
from collections.abc import Iterator

import pytest

from lastbeat.alerts.pagerduty import PagerDuty
from support.http_sink import Answer, HttpSink, http_sink
from support.world import World


@pytest.fixture
def sink() -> Iterator[HttpSink]:
    with http_sink() as started:
        started.otherwise = Answer(202)
        yield started


@pytest.fixture
def world(sink: HttpSink) -> World:
    made = World()
    made.channel = PagerDuty("R0ABCDEFGHIJKLMNOPQRSTUVWXYZ0123", f"{sink.url}/v2/enqueue")
    made.both(1)
    made.look()
    return made


def accepted(sink: HttpSink) -> list[tuple[str, str]]:
    sent = [json.loads(request.body) for request in sink.requests]
    return [(each["event_action"], each["dedup_key"].rpartition("/")[2]) for each in sent]


def test_a_silence_that_one_watcher_told_is_resolved_by_the_next(world: World, sink: HttpSink) -> None:
    world.after(1200)
    world.look()
    world.both(2)
    world.look()
    world.complete()
    world.look()
    assert accepted(sink) == [("trigger", "trouble"), ("resolve", "trouble")], "its success has nothing to resolve"


def test_a_silence_that_could_be_told_only_after_its_end_leaves_no_open_incident(world: World, sink: HttpSink) -> None:
    sink.otherwise = Answer(503)
    world.after(1200)
    world.look()
    world.both(2)
    world.look()
    refused = len(sink.requests)
    sink.otherwise = Answer(202)
    for _ in range(3):
        world.after(60)
        world.both(3)
        world.look()
    told = accepted(sink)[refused:]
    assert told.count(("trigger", "trouble")) == told.count(("resolve", "trouble")) == 1
    assert told[-1] == ("resolve", "trouble")
