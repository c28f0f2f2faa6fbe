"""Logs that are read by somebody who knows of no earlier look: all of their text seems new, and not all of it is."""

import pytest

from support.growing import MAIN, OOM, LoggedWorld, steps


@pytest.fixture
def world() -> LoggedWorld:
    return LoggedWorld()


def test_text_that_is_stored_again_for_ever_is_no_life(world: LoggedWorld) -> None:
    for minute in range(5):
        world.write(steps(10 * minute + 10, 10 * minute + 1))
        assert world.cold().status.value == "RUNNING"
        world.after(60)
    for _ in range(14):
        world.put(MAIN, world.text)
        outcome = world.cold()
        world.after(60)
    assert outcome.status.value == "TIMED_OUT"
    world.write(steps(60, 51))
    assert world.cold().status.value == "RUNNING"
    assert world.channel.events == ["TIMED_OUT", "RECOVERED"]


@pytest.mark.parametrize("more", ["", "epilogue: cleaning up\n"], ids=["the same text", "more text without a step"])
def test_steps_that_were_there_before_take_no_failure_back(world: LoggedWorld, more: str) -> None:
    world.write(steps(10))
    world.cold()
    world.after(60)
    world.write(steps(20, 11) + OOM)
    for _ in range(5):
        outcome = world.cold()
        world.after(90)
        world.write(more)
    assert (outcome.status.value, outcome.cause) == ("FAILED", "oom")
    assert world.channel.events == ["FAILED"]
    world.write(steps(30, 21))
    assert world.cold().status.value == "RUNNING"


@pytest.mark.parametrize("beats", [False, True], ids=["by its log alone", "beside heartbeats"])
def test_what_a_growing_log_costs_in_writes(world: LoggedWorld, beats: bool) -> None:
    writes = []
    for minute in range(60):
        if beats:
            world.both(minute)
        world.write(steps(10 * minute + 10, 10 * minute + 1))
        assert world.cold().status.value == "RUNNING"
        world.after(60)
        writes.append(world.record_writes())
    # Four times a stale limit, where nothing but the record tells the next look which text this one has seen.
    assert writes[-1] - writes[0] <= (0 if beats else 60 * 60 / 150)


def test_the_crash_of_an_earlier_attempt_is_no_news_of_the_next(world: LoggedWorld) -> None:
    world.beat(attempt=1, start_time=world.now.isoformat())
    world.write(steps(10) + OOM)
    assert world.cold().status.value == "FAILED"
    world.after(60)
    started = world.now.isoformat()
    for _ in range(4):
        world.beat(attempt=2, start_time=started)
        outcome = world.cold()
        assert (outcome.status.value, list(outcome.conditions), outcome.cause) == ("RUNNING", [], None)
        world.after(60)
        world.write("loading the model\n")
    world.beat(attempt=2, start_time=started)
    world.write(steps(5) + OOM)
    assert world.cold().status.value == "FAILED"
    assert world.channel.events == ["FAILED", "FAILED"]
