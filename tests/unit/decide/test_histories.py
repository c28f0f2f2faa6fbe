"""Runs over time: what people are told, told once, whoever looks and however often it was restarted."""

from collections.abc import Callable, Sequence

import pytest

from lastbeat.model.policy import DEFAULT_ALERT_ON, Policy
from lastbeat.model.status import Event
from support.scene import Scene

MINUTE = 60.0
Act = Callable[[Scene], object]
Step = tuple[float, Act, str]
"""Seconds that pass, what then happens, and the status that the next look gives."""


def nothing(_scene: Scene) -> None:
    pass


def beat_at_start(attempt: int | None = None) -> Act:
    """A new process: its metadata says when it started."""
    return lambda s: s.beat(start_time=s.instance_now.isoformat(), **({"attempt": attempt} if attempt else {}))


HISTORIES: list[tuple[str, list[Step], list[str]]] = [
    (
        "a run that starts, beats and completes is told of once",
        [(0, lambda s: s.both(1), "RUNNING"), (60, lambda s: s.both(2), "RUNNING"),
         (60, lambda s: s.put("_complete"), "SUCCEEDED"), (9 * MINUTE, nothing, "SUCCEEDED"),
         (99 * MINUTE, nothing, "SUCCEEDED")],
        ["SUCCEEDED"],
    ),
    (
        "a run that falls silent is told of once, and its return once",
        [(0, lambda s: s.both(1), "RUNNING"), (11 * MINUTE, nothing, "TIMED_OUT"), (60, nothing, "TIMED_OUT"),
         (60, lambda s: s.both(2), "RUNNING"), (60, lambda s: s.both(3), "RUNNING")],
        ["TIMED_OUT", "RECOVERED"],
    ),
    (
        "a run that falls silent twice is told of twice",
        [(0, lambda s: s.both(1), "RUNNING"), (11 * MINUTE, nothing, "TIMED_OUT"),
         (60, lambda s: s.both(2), "RUNNING"), (11 * MINUTE, nothing, "TIMED_OUT")],
        ["TIMED_OUT", "RECOVERED", "TIMED_OUT"],
    ),
    (
        "a run that was never there recovers when it appears",
        [(0, nothing, "TIMED_OUT"), (60, nothing, "TIMED_OUT"), (60, lambda s: s.both(1), "RUNNING")],
        ["TIMED_OUT", "RECOVERED"],
    ),
    (
        "a silent run that then reports its failure is told of twice: first the silence, then the cause",
        [(0, lambda s: s.both(1), "RUNNING"), (11 * MINUTE, nothing, "TIMED_OUT"),
         (60, lambda s: s.put("_error", "CUDA out of memory"), "FAILED"), (60, nothing, "FAILED")],
        ["TIMED_OUT", "FAILED"],
    ),
    (
        "a failure after success outranks it",
        [(0, lambda s: s.put("_complete"), "SUCCEEDED"), (5, lambda s: s.put("_error", "late"), "FAILED")],
        ["SUCCEEDED", "FAILED"],
    ),
    (
        "a condition is told of when it is raised, not while it lasts, and again when it comes back",
        [(0, lambda s: s.both(1), "RUNNING"), (11 * MINUTE, lambda s: s.beat(), "RUNNING"),
         (60, lambda s: s.beat(), "RUNNING"), (60, lambda s: s.both(2), "RUNNING"),
         (11 * MINUTE, lambda s: s.beat(), "RUNNING")],
        ["WARNING", "WARNING"],
    ),
    (
        "a new attempt by number reopens a failed run, and the old _error does not fail it again",
        [(0, beat_at_start(1), "RUNNING"), (60, lambda s: s.put("_error", "boom"), "FAILED"),
         (60, beat_at_start(2), "RUNNING"), (60, lambda s: s.put("_complete"), "SUCCEEDED")],
        ["FAILED", "SUCCEEDED"],
    ),
    (
        "a new attempt by number alone reopens, too: the _error that was told of is spent",
        [(0, lambda s: s.beat(attempt=1), "RUNNING"), (60, lambda s: s.put("_error", "boom"), "FAILED"),
         (60, lambda s: s.beat(attempt=2), "RUNNING"), (60, lambda s: s.put("_error", "boom"), "FAILED")],
        ["FAILED", "FAILED"],
    ),
    (
        "a new attempt by start time alone reopens a finished run",
        [(0, beat_at_start(), "RUNNING"), (60, lambda s: s.put("_complete"), "SUCCEEDED"),
         (60, beat_at_start(), "RUNNING"), (11 * MINUTE, nothing, "TIMED_OUT")],
        ["SUCCEEDED", "TIMED_OUT"],
    ),
    (
        "a script without attempts that takes its _error away and beats again is running again",
        [(0, lambda s: s.both(1), "RUNNING"), (60, lambda s: s.put("_error", "boom"), "FAILED"),
         (60, lambda s: s.delete("_error"), "FAILED"), (60, lambda s: s.both(1), "RUNNING"),
         (60, lambda s: s.put("_error", "boom"), "FAILED")],
        ["FAILED", "FAILED"],
    ),
    (
        "a finished run stays finished when all of its files are deleted",
        [(0, lambda s: (s.both(1), s.put("_complete")), "SUCCEEDED"),
         (60, lambda s: [s.delete(n) for n in ("metadata.json", "progress.json", "_complete")], "SUCCEEDED"),
         (60 * MINUTE, nothing, "SUCCEEDED")],
        ["SUCCEEDED"],
    ),
    (
        "files that vanish from a running run are missed only after the stale limit",
        [(0, lambda s: s.both(1), "RUNNING"), (300, lambda s: s.both(2), "RUNNING"),
         (60, lambda s: [s.delete(n) for n in ("metadata.json", "progress.json")], "RUNNING"),
         (9 * MINUTE, nothing, "RUNNING"), (2 * MINUTE, nothing, "TIMED_OUT")],
        ["TIMED_OUT"],
    ),
    (
        "a new attempt while the run is running is no news by default",
        [(0, beat_at_start(1), "RUNNING"), (60, beat_at_start(2), "RUNNING")],
        [],
    ),
    (
        "progress left behind by the attempt before does not make the new one look stuck",
        [(0, lambda s: (beat_at_start(1)(s), s.progress(500)), "RUNNING"),
         (30 * MINUTE, beat_at_start(2), "RUNNING"), (60, beat_at_start(3), "RUNNING")],
        [],
    ),
    (
        "a leftover process of the attempt before does not count as life of the new one",
        [(0, lambda s: s.beat(start_time="2026-01-01T11:00:00Z"), "RUNNING"),
         (60, lambda s: s.beat(start_time="2026-01-01T12:00:30Z"), "RUNNING"),
         (11 * MINUTE, lambda s: s.beat(start_time="2026-01-01T11:00:00Z"), "TIMED_OUT")],
        ["TIMED_OUT"],
    ),
]  # fmt: skip


@pytest.mark.parametrize("restarted", [pytest.param(True, id="--once"), pytest.param(False, id="loop")])
@pytest.mark.parametrize(("steps", "events"), [pytest.param(s, e, id=name) for name, s, e in HISTORIES])
def test_history(steps: Sequence[Step], events: list[str], restarted: bool) -> None:
    scene = Scene()
    seen = []
    for seconds, act, _ in steps:
        scene.after(seconds)
        act(scene)
        seen.append(scene.look(restarted=restarted).status.value)
    assert seen == [status for _, _, status in steps]
    assert scene.channel.events == events


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
@pytest.mark.parametrize("skew_s", [-3600.0, 3600.0, -40.0, 40.0], ids=["hour slow", "hour fast", "40 s slow", "40 s"])
def test_an_instance_clock_that_is_off_causes_no_false_alarm(skew_s: float, restarted: bool) -> None:
    scene = Scene(Policy(alert_on=DEFAULT_ALERT_ON - {Event.WARNING}))
    scene.skew_s = skew_s
    start = scene.instance_now.isoformat()
    for step in range(40):
        scene.beat(start_time=start)
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


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_an_old_document_that_is_written_again_and_again_is_no_life(restarted: bool) -> None:
    scene = Scene()
    old = '{"last_update": "2026-01-01T11:00:00Z", "phase": "train"}'
    scene.put("metadata.json", old)
    first = scene.look(restarted=restarted)
    assert "clock_skew" in first.conditions
    scene.after(60)
    scene.put("metadata.json", old)
    assert scene.look(restarted=restarted).status.value == "TIMED_OUT"


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


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_a_step_that_stands_still_is_first_a_warning_and_then_a_time_out(restarted: bool) -> None:
    scene = Scene(Policy(stall_s=10 * MINUTE))
    shown = []
    for minute in range(32):
        scene.both(min(minute, 5))
        outcome = scene.look(restarted=restarted)
        shown.append(outcome.status.value + ("!" if "stalled" in outcome.conditions else ""))
        scene.after(60)
    # The step last moved in minute 5. A watcher that remembers only what is written down may be a quarter late.
    stalled, timed_out = shown.index("RUNNING!"), shown.index("TIMED_OUT")
    assert 15 <= stalled <= (17.5 if restarted else 15)
    assert 25 <= timed_out <= (27.5 if restarted else 25)
    assert scene.channel.events == ["WARNING", "TIMED_OUT"]
    assert "still at step 5" in scene.channel.sent[-1].reason
    scene.both(6)
    assert scene.look(restarted=restarted).status.value == "RUNNING"
    assert scene.channel.events[-1] == "RECOVERED"


def test_standing_still_is_not_watched_unless_asked_for() -> None:
    scene = Scene()
    for _ in range(60):
        scene.both(5)
        assert scene.look().conditions == {}
        scene.after(60)


def test_people_are_told_only_what_they_asked_for() -> None:
    scene = Scene(Policy(alert_on=frozenset({Event.RESTARTED, Event.FAILED})))
    beat_at_start(1)(scene)
    scene.look()
    scene.after(11 * MINUTE)
    scene.look()
    scene.put("_error", "boom")
    scene.look()
    scene.after(60)
    beat_at_start(2)(scene)
    scene.look()
    assert scene.channel.events == ["FAILED", "RESTARTED"]
    assert [t.after.value for t in scene.look().record.history] == [  # type: ignore[union-attr]
        "RUNNING", "TIMED_OUT", "FAILED", "RUNNING",
    ]  # fmt: skip


def test_a_warning_is_not_lost_when_the_alert_it_came_with_is_not_wanted() -> None:
    scene = Scene(Policy(alert_on=frozenset({Event.WARNING})))
    scene.look()
    scene.beat()
    scene.progress(3, loss="nan")
    scene.look()
    assert scene.channel.events == ["WARNING"]
    assert "loss_nan" in scene.channel.sent[0].conditions


def test_a_healthy_run_costs_three_requests_a_pass_and_no_write() -> None:
    scene = Scene()
    for minute in range(5):
        scene.both(minute)
        scene.store.calls.clear()
        scene.look(restarted=False)
        if minute:
            assert [operation for operation, _ in scene.store.calls] == ["list", "read", "read"]
        scene.after(60)
