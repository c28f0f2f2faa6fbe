"""Logs that are read by somebody who knows of no earlier look: all of their text seems new, and not all of it is."""

import pytest

from support.growing import MAIN, OOM, LoggedScene, steps


@pytest.fixture
def scene() -> LoggedScene:
    return LoggedScene()


def test_a_log_that_nobody_writes_any_more_goes_stale(scene: LoggedScene) -> None:
    scene.write(steps(10))
    for _ in range(13):
        outcome = scene.cold()
        scene.after(60)
    assert outcome.status.value == "TIMED_OUT"
    assert scene.channel.events == ["TIMED_OUT"]


def test_text_that_is_stored_again_for_ever_is_no_life(scene: LoggedScene) -> None:
    for minute in range(5):
        scene.write(steps(10 * minute + 10, 10 * minute + 1))
        assert scene.cold().status.value == "RUNNING"
        scene.after(60)
    for _ in range(14):
        scene.put(MAIN, scene.text)
        outcome = scene.cold()
        scene.after(60)
    assert outcome.status.value == "TIMED_OUT"
    scene.write(steps(60, 51))
    assert scene.cold().status.value == "RUNNING"
    assert scene.channel.events == ["TIMED_OUT", "RECOVERED"]


@pytest.mark.parametrize("more", ["", "epilogue: cleaning up\n"], ids=["the same text", "more text without a step"])
def test_steps_that_were_there_before_take_no_failure_back(scene: LoggedScene, more: str) -> None:
    scene.write(steps(10))
    scene.cold()
    scene.after(60)
    scene.write(steps(20, 11) + OOM)
    for _ in range(5):
        outcome = scene.cold()
        scene.after(90)
        scene.write(more)
    assert (outcome.status.value, outcome.cause) == ("FAILED", "oom")
    assert scene.channel.events == ["FAILED"]
    scene.write(steps(30, 21))
    assert scene.cold().status.value == "RUNNING"


@pytest.mark.parametrize("beats", [False, True], ids=["by its log alone", "beside heartbeats"])
def test_what_a_growing_log_costs_in_writes(scene: LoggedScene, beats: bool) -> None:
    writes = []
    for minute in range(60):
        if beats:
            scene.both(minute)
        scene.write(steps(10 * minute + 10, 10 * minute + 1))
        assert scene.cold().status.value == "RUNNING"
        scene.after(60)
        writes.append(scene.record_writes())
    # Four times a stale limit, where nothing but the record tells the next look which text this one has seen.
    assert writes[-1] - writes[0] <= (0 if beats else 60 * 60 / 150)


def test_the_crash_of_an_earlier_attempt_is_no_news_of_the_next(scene: LoggedScene) -> None:
    scene.beat(attempt=1, start_time=scene.now.isoformat())
    scene.write(steps(10) + OOM)
    assert scene.cold().status.value == "FAILED"
    scene.after(60)
    started = scene.now.isoformat()
    for _ in range(4):
        scene.beat(attempt=2, start_time=started)
        outcome = scene.cold()
        assert (outcome.status.value, list(outcome.conditions), outcome.cause) == ("RUNNING", [], None)
        scene.after(60)
        scene.write("loading the model\n")
    scene.beat(attempt=2, start_time=started)
    scene.write(steps(5) + OOM)
    assert scene.cold().status.value == "FAILED"
    assert scene.channel.events == ["FAILED", "FAILED"]
