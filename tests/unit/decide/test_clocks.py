"""Clocks that are off, that jump, that freeze; documents that are torn, copied and written again."""

from datetime import timedelta

import pytest

from lastbeat.model.policy import DEFAULT_ALERT_ON, Policy
from lastbeat.model.status import Event
from support.world import World

MINUTE = 60.0


@pytest.mark.parametrize(
    ("skew_s", "told", "restarted"),
    [
        pytest.param(-3600.0, {"clock_offset_s": 3600.0}, True, id="an hour slow, and says so"),
        pytest.param(3600.0, {}, False, id="an hour fast"),
        pytest.param(-40.0, {}, True, id="40 s slow"),
    ],
)
def test_an_instance_clock_that_is_off_causes_no_false_alarm(
    skew_s: float, told: dict[str, float], restarted: bool
) -> None:
    world = World(Policy(alert_on=DEFAULT_ALERT_ON - {Event.WARNING}), skew_s=skew_s)
    start = world.instance_now.isoformat()
    for step in range(40):
        world.beat(start_time=start, **told)
        world.progress(step)
        outcome = world.look(restarted=restarted)
        assert outcome.status.value == "RUNNING"
        assert ("clock_skew" in outcome.conditions) == (abs(skew_s) > 60)
        world.after(60)
    assert world.channel.events == []
    world.after(11 * MINUTE)
    assert world.look(restarted=restarted).status.value == "TIMED_OUT"


@pytest.mark.parametrize(("skew_s", "name"), [(-3600.0, "_error"), (3600.0, "_complete"), (30.0, "_error")])
def test_a_quick_end_counts_whatever_the_instance_clock_says(skew_s: float, name: str) -> None:
    world = World(skew_s=skew_s)
    world.beat(start_time=world.instance_now.isoformat())
    world.after(0.4)
    world.put(name)
    assert world.look().status.value in {"FAILED", "SUCCEEDED"}


@pytest.mark.parametrize(("known", "name"), [(False, "_error"), (True, "_complete")], ids=["first look", "known run"])
def test_an_end_counts_when_the_clock_was_set_right_between_the_start_and_the_first_look(
    name: str, known: bool
) -> None:
    world = World(skew_s=20.0)
    if known:
        world.beat(attempt=1, start_time=world.instance_now.isoformat())
        world.look()
        world.after(3)
    start = world.instance_now.isoformat()
    world.beat(attempt=2, start_time=start)
    world.skew_s = 0.0
    world.after(1)
    world.beat(attempt=2, start_time=start)
    world.after(1)
    world.put(name)
    assert world.look().status.value in {"FAILED", "SUCCEEDED"}


def test_a_higher_attempt_is_a_new_one_even_if_a_clock_that_was_set_back_gives_it_an_old_start_time() -> None:
    world = World()
    first, second = world.instance_now.isoformat(), (world.instance_now + timedelta(seconds=30)).isoformat()
    for attempt, start in enumerate((first, second, first), start=1):
        world.beat(attempt=attempt, start_time=start)
        assert world.look().status.value == "RUNNING"
        world.after(5)
    world.error("RuntimeError: boom")
    outcome = world.look()
    assert outcome.record is not None
    assert (outcome.status.value, outcome.record.attempt.number) == ("FAILED", 3)


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_a_clock_that_is_slower_than_the_limit_is_learned_at_the_second_look_and_never_doubted_again(
    restarted: bool,
) -> None:
    world = World(Policy(alert_on=DEFAULT_ALERT_ON - {Event.WARNING}), skew_s=-3600.0)
    start = world.instance_now.isoformat()
    statuses = []
    for step in range(40):
        world.beat(start_time=start)
        if step != 5:
            # What comes again after a while is judged by the offset that is known.
            world.progress(step)
        outcome = world.look(restarted=restarted)
        statuses.append(outcome.status.value)
        assert step == 0 or "clock_skew" in outcome.conditions
        world.after(60)
    assert statuses == ["TIMED_OUT"] + ["RUNNING"] * 39
    assert world.channel.events == ["TIMED_OUT", "RECOVERED"]
    world.error("RuntimeError: boom")
    assert world.look(restarted=restarted).status.value == "FAILED"


def test_a_clock_that_is_set_back_while_it_runs_is_known_for_slow_and_taken_for_no_silence() -> None:
    world = World()
    for skew_s in (0.0, -200.0, -200.0):
        world.skew_s = skew_s
        world.beat()
        outcome = world.look()
        assert outcome.status.value == "RUNNING"
        assert ("clock_skew" in outcome.conditions) is (skew_s != 0)
        world.after(300)


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
@pytest.mark.parametrize("own", ["2026-01-01T11:37:00Z", "2026-01-01T11:00:00"], ids=["its zone named", "no zone"])
def test_an_old_document_that_is_written_again_and_again_is_no_life(own: str, restarted: bool) -> None:
    world = World()
    world.put("metadata.json", f'{{"last_update": "{own}", "phase": "train"}}')
    first = world.look(restarted=restarted)
    assert first.status.value == ("TIMED_OUT" if own.endswith("Z") else "RUNNING")
    for _ in range(3):
        world.after(60)
        world.put("metadata.json", f'{{"last_update": "{own}", "phase": "train"}}')
        assert world.look(restarted=restarted).status.value == "TIMED_OUT"


def test_what_may_be_local_time_is_said_to_be() -> None:
    world = World()
    world.put("metadata.json", '{"last_update": "2026-01-01T06:59:40"}')
    told = world.look().conditions["clock_skew"]
    assert "5h 00m older than the file" in told
    assert "looks like local time without a zone" in told
    for _ in range(3):
        world.after(60)
        own = (world.now - timedelta(hours=5)).replace(tzinfo=None).isoformat()
        world.put("metadata.json", f'{{"last_update": "{own}"}}')
        outcome = world.look()
        assert outcome.status.value == "RUNNING"
        assert "behind the store's" in outcome.conditions["clock_skew"]


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_a_document_that_stops_advancing_while_it_is_rewritten_goes_stale(restarted: bool) -> None:
    world = World()
    frozen = f'{{"last_update": "{world.now.isoformat()}"}}'
    statuses = []
    for _ in range(13):
        world.put("metadata.json", frozen)
        statuses.append(world.look(restarted=restarted).status.value)
        world.after(60)
    assert statuses == ["RUNNING"] * 11 + ["TIMED_OUT"] * 2


def test_a_document_that_freezes_late_is_found_out_by_watchers_that_remember_little() -> None:
    world = World()
    for _ in range(30):
        world.beat()
        world.look()
        world.after(60)
    frozen = f'{{"last_update": "{world.now.isoformat()}"}}'
    statuses = []
    for _ in range(16):
        world.put("metadata.json", frozen)
        statuses.append(world.look().status.value)
        world.after(60)
    assert statuses[-1] == "TIMED_OUT"
    assert world.channel.events[-1] == "TIMED_OUT"


def test_an_error_that_is_filled_in_later_gets_its_cause() -> None:
    world = World()
    world.error("")
    assert world.look().cause is None
    world.after(2)
    world.error("torch.OutOfMemoryError: CUDA out of memory")
    world.look()
    record = world.record_after_look()
    assert (record.cause, record.reason) == ("oom", "torch.OutOfMemoryError: CUDA out of memory")
    assert world.channel.events == ["FAILED"]


def test_the_log_of_the_attempt_before_is_not_shown() -> None:
    world = World()
    world.beat(start_time=world.now.isoformat())
    world.log("of attempt 1")
    world.look()
    world.after(60)
    world.beat(start_time=world.now.isoformat())
    world.look()
    world.after(60)
    world.error("boom")
    world.look()
    assert world.channel.sent[-1].log_tail == ()


def test_a_fast_clock_is_remembered_when_the_document_is_torn() -> None:
    world = World(skew_s=40)
    world.beat(start_time=world.instance_now.isoformat())
    world.look()
    world.after(5)
    world.put("metadata.json", "{")
    world.after(5)
    world.error("boom")
    assert world.look().status.value == "FAILED"


def test_metadata_that_is_copied_again_after_the_end_does_not_hide_the_failure() -> None:
    world = World()
    start = world.now.isoformat()
    world.beat(start_time=start)
    world.look()
    world.after(30 * MINUTE)
    last = world.now.isoformat()
    world.error("RuntimeError: boom")
    world.after(120 * MINUTE)
    world.put("metadata.json", f'{{"start_time": "{start}", "last_update": "{last}"}}')
    assert world.look().status.value == "FAILED"
