"""Clocks that are off, that jump, that freeze; documents that are torn, copied and written again."""

from datetime import timedelta

import pytest

from lastbeat.model.policy import DEFAULT_ALERT_ON, Policy
from lastbeat.model.status import Event
from support.scene import Scene

MINUTE = 60.0


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
@pytest.mark.parametrize(
    ("skew_s", "told"),
    [
        pytest.param(-3600.0, {"clock_offset_s": 3600.0}, id="an hour slow, and says so"),
        pytest.param(3600.0, {}, id="an hour fast"),
        pytest.param(3600.0, {"clock_offset_s": -3600.0}, id="an hour fast, and says so"),
        pytest.param(-480.0, {}, id="eight minutes slow"),
        pytest.param(-40.0, {}, id="40 s slow"),
        pytest.param(40.0, {}, id="40 s fast"),
    ],
)
def test_an_instance_clock_that_is_off_causes_no_false_alarm(
    skew_s: float, told: dict[str, float], restarted: bool
) -> None:
    scene = Scene(Policy(alert_on=DEFAULT_ALERT_ON - {Event.WARNING}))
    scene.skew_s = skew_s
    start = scene.instance_now.isoformat()
    for step in range(40):
        scene.beat(start_time=start, **told)
        scene.progress(step)
        outcome = scene.look(restarted=restarted)
        assert outcome.status.value == "RUNNING"
        assert ("clock_skew" in outcome.conditions) == (abs(skew_s) > 60)
        scene.after(60)
    assert scene.channel.events == []
    scene.after(11 * MINUTE)
    assert scene.look(restarted=restarted).status.value == "TIMED_OUT"


@pytest.mark.parametrize("skew_s", [-3600.0, 3600.0, -30.0, 30.0])
@pytest.mark.parametrize("name", ["_error", "_complete"])
def test_a_quick_end_counts_whatever_the_instance_clock_says(skew_s: float, name: str) -> None:
    scene = Scene()
    scene.skew_s = skew_s
    scene.beat(start_time=scene.instance_now.isoformat())
    scene.after(0.4)
    scene.put(name)
    assert scene.look().status.value in {"FAILED", "SUCCEEDED"}


@pytest.mark.parametrize("known", [False, True], ids=["first look", "known run"])
@pytest.mark.parametrize("name", ["_error", "_complete"])
def test_an_end_counts_when_the_clock_was_set_right_between_the_start_and_the_first_look(
    name: str, known: bool
) -> None:
    scene = Scene()
    scene.skew_s = 20.0
    if known:
        scene.beat(attempt=1, start_time=scene.instance_now.isoformat())
        scene.look()
        scene.after(3)
    start = scene.instance_now.isoformat()
    scene.beat(attempt=2, start_time=start)
    scene.skew_s = 0.0
    scene.after(1)
    scene.beat(attempt=2, start_time=start)
    scene.after(1)
    scene.put(name)
    assert scene.look().status.value in {"FAILED", "SUCCEEDED"}


def test_a_higher_attempt_is_a_new_one_even_if_a_clock_that_was_set_back_gives_it_an_old_start_time() -> None:
    scene = Scene()
    first, second = scene.instance_now.isoformat(), (scene.instance_now + timedelta(seconds=30)).isoformat()
    for attempt, start in enumerate((first, second, first), start=1):
        scene.beat(attempt=attempt, start_time=start)
        assert scene.look().status.value == "RUNNING"
        scene.after(5)
    scene.put("_error", "RuntimeError: boom")
    outcome = scene.look()
    assert outcome.record is not None
    assert (outcome.status.value, outcome.record.attempt.number) == ("FAILED", 3)


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_a_clock_that_is_slower_than_the_limit_is_learned_at_the_second_look_and_never_doubted_again(
    restarted: bool,
) -> None:
    scene = Scene(Policy(alert_on=DEFAULT_ALERT_ON - {Event.WARNING}))
    scene.skew_s = -3600.0
    start = scene.instance_now.isoformat()
    statuses = []
    for step in range(40):
        scene.beat(start_time=start)
        if step != 5:
            # What comes again after a while is judged by the offset that is known.
            scene.progress(step)
        outcome = scene.look(restarted=restarted)
        statuses.append(outcome.status.value)
        assert step == 0 or "clock_skew" in outcome.conditions
        scene.after(60)
    assert statuses == ["TIMED_OUT"] + ["RUNNING"] * 39
    assert scene.channel.events == ["TIMED_OUT", "RECOVERED"]
    scene.put("_error", "RuntimeError: boom")
    assert scene.look(restarted=restarted).status.value == "FAILED"


def test_progress_that_is_first_written_late_is_judged_by_the_clock_that_is_known() -> None:
    scene = Scene(Policy(alert_on=DEFAULT_ALERT_ON - {Event.WARNING}))
    scene.skew_s = -3600.0
    for _ in range(3):
        scene.beat()
        scene.look()
        scene.after(60)
    scene.beat()
    scene.progress(1)
    outcome = scene.look()
    assert (outcome.status.value, set(outcome.conditions)) == ("RUNNING", {"clock_skew"})


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
@pytest.mark.parametrize("own", ["2026-01-01T11:37:00Z", "2026-01-01T11:00:00"], ids=["its zone named", "no zone"])
def test_an_old_document_that_is_written_again_and_again_is_no_life(own: str, restarted: bool) -> None:
    scene = Scene()
    scene.put("metadata.json", f'{{"last_update": "{own}", "phase": "train"}}')
    first = scene.look(restarted=restarted)
    assert first.status.value == ("TIMED_OUT" if own.endswith("Z") else "RUNNING")
    for _ in range(3):
        scene.after(60)
        scene.put("metadata.json", f'{{"last_update": "{own}", "phase": "train"}}')
        assert scene.look(restarted=restarted).status.value == "TIMED_OUT"


def test_what_may_be_local_time_is_said_to_be() -> None:
    scene = Scene()
    scene.put("metadata.json", '{"last_update": "2026-01-01T06:59:40"}')
    told = scene.look().conditions["clock_skew"]
    assert "5h 00m older than the file" in told
    assert "looks like local time without a zone" in told
    for _ in range(3):
        scene.after(60)
        own = (scene.now - timedelta(hours=5)).replace(tzinfo=None).isoformat()
        scene.put("metadata.json", f'{{"last_update": "{own}"}}')
        outcome = scene.look()
        assert outcome.status.value == "RUNNING"
        assert "behind the store's" in outcome.conditions["clock_skew"]


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_a_document_that_stops_advancing_while_it_is_rewritten_goes_stale(restarted: bool) -> None:
    scene = Scene()
    frozen = f'{{"last_update": "{scene.now.isoformat()}"}}'
    statuses = []
    for _ in range(13):
        scene.put("metadata.json", frozen)
        statuses.append(scene.look(restarted=restarted).status.value)
        scene.after(60)
    assert statuses == ["RUNNING"] * 11 + ["TIMED_OUT"] * 2


def test_a_document_that_freezes_late_is_found_out_by_watchers_that_remember_little() -> None:
    scene = Scene()
    for _ in range(30):
        scene.beat()
        scene.look()
        scene.after(60)
    frozen = f'{{"last_update": "{scene.now.isoformat()}"}}'
    statuses = []
    for _ in range(16):
        scene.put("metadata.json", frozen)
        statuses.append(scene.look().status.value)
        scene.after(60)
    assert statuses[-1] == "TIMED_OUT"
    assert scene.channel.events[-1] == "TIMED_OUT"


def test_an_error_that_is_filled_in_later_gets_its_cause() -> None:
    scene = Scene()
    scene.put("_error")
    assert scene.look().cause is None
    scene.after(2)
    scene.put("_error", "torch.OutOfMemoryError: CUDA out of memory")
    scene.look()
    record = scene.look().record
    assert record is not None
    assert (record.cause, record.reason) == ("oom", "torch.OutOfMemoryError: CUDA out of memory")
    assert scene.channel.events == ["FAILED"]


def test_the_log_of_the_attempt_before_is_not_shown() -> None:
    scene = Scene()
    scene.beat(start_time=scene.now.isoformat())
    scene.put("logs/training_log_latest.txt", "of attempt 1")
    scene.look()
    scene.after(60)
    scene.beat(start_time=scene.now.isoformat())
    scene.look()
    scene.after(60)
    scene.put("_error", "boom")
    scene.look()
    assert scene.channel.sent[-1].log_tail == ()


def test_a_fast_clock_is_remembered_when_the_document_is_torn() -> None:
    scene = Scene()
    scene.skew_s = 40
    scene.beat(start_time=scene.instance_now.isoformat())
    scene.look()
    scene.after(5)
    scene.put("metadata.json", "{")
    scene.after(5)
    scene.put("_error", "boom")
    assert scene.look().status.value == "FAILED"


def test_metadata_that_is_copied_again_after_the_end_does_not_hide_the_failure() -> None:
    scene = Scene()
    start = scene.now.isoformat()
    scene.beat(start_time=start)
    scene.look()
    scene.after(30 * MINUTE)
    last = scene.now.isoformat()
    scene.put("_error", "RuntimeError: boom")
    scene.after(120 * MINUTE)
    scene.put("metadata.json", f'{{"start_time": "{start}", "last_update": "{last}"}}')
    assert scene.look().status.value == "FAILED"


def test_a_clock_that_steps_back_in_the_middle_is_no_death() -> None:
    scene = Scene(Policy(alert_on=DEFAULT_ALERT_ON - {Event.WARNING}))
    for minute in range(30):
        scene.skew_s = -3600.0 if minute >= 15 else 0.0
        scene.beat()
        assert scene.look().status.value == "RUNNING"
        scene.after(60)
    assert scene.channel.events == []
