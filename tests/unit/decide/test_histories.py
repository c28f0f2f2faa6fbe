"""Runs over time: what people are told, told once, whoever looks and however often it was restarted."""

from collections.abc import Callable, Sequence

import pytest

from lastbeat.model.policy import Policy
from lastbeat.model.status import Event
from support.row_by_row import check_each
from support.world import World

MINUTE = 60.0
Act = Callable[[World], object]
Step = tuple[float, Act, str]
"""Seconds that pass, what then happens, and the status that the next look gives."""


def nothing(_world: World) -> None:
    pass


def beat_at_start(attempt: int | None = None) -> Act:
    """A new process: its metadata says when it started."""
    return lambda s: s.beat(start_time=s.instance_now.isoformat(), **({"attempt": attempt} if attempt else {}))


def fails(text: str) -> Act:
    return lambda s: s.error(text)


HISTORIES: list[tuple[str, list[Step], list[str]]] = [
    (
        "a run that starts, beats and completes is told of once",
        [(0, lambda s: s.both(1), "RUNNING"), (60, lambda s: s.both(2), "RUNNING"),
         (60, lambda s: s.complete(), "SUCCEEDED"), (9 * MINUTE, nothing, "SUCCEEDED"),
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
        "a run that was never there starts when it appears",
        [(0, nothing, "TIMED_OUT"), (60, nothing, "TIMED_OUT"), (60, lambda s: s.both(1), "RUNNING"),
         (11 * MINUTE, nothing, "TIMED_OUT"), (60, lambda s: s.both(2), "RUNNING")],
        ["TIMED_OUT", "STARTED", "TIMED_OUT", "RECOVERED"],
    ),
    (
        "a silent run that then reports its failure is told of twice: first the silence, then the cause",
        [(0, lambda s: s.both(1), "RUNNING"), (11 * MINUTE, nothing, "TIMED_OUT"),
         (60, lambda s: s.error("CUDA out of memory"), "FAILED"), (60, nothing, "FAILED")],
        ["TIMED_OUT", "FAILED"],
    ),
    ("a failure after success outranks it",
     [(0, lambda s: s.complete(), "SUCCEEDED"), (5, lambda s: s.error("late"), "FAILED")], ["SUCCEEDED", "FAILED"]),
    (
        "a condition is told of when it is raised, not while it lasts, and again when it comes back",
        [(0, lambda s: s.both(1), "RUNNING"), (11 * MINUTE, lambda s: s.beat(), "RUNNING"),
         (60, lambda s: s.beat(), "RUNNING"), (60, lambda s: s.both(2), "RUNNING"),
         (11 * MINUTE, lambda s: s.beat(), "RUNNING")],
        ["WARNING", "WARNING"],
    ),
    (
        "a new attempt by number reopens a failed run, and the old _error does not fail it again",
        [(0, beat_at_start(1), "RUNNING"), (60, lambda s: s.error("boom"), "FAILED"),
         (60, beat_at_start(2), "RUNNING"), (60, lambda s: s.complete(), "SUCCEEDED")],
        ["FAILED", "SUCCEEDED"],
    ),
    (
        "a new attempt by number alone reopens, too: the _error that was told of is spent",
        [(0, lambda s: s.beat(attempt=1), "RUNNING"), (60, lambda s: s.error("boom"), "FAILED"),
         (60, lambda s: s.beat(attempt=2), "RUNNING"), (60, lambda s: s.error("boom"), "FAILED")],
        ["FAILED", "FAILED"],
    ),
    (
        "a new attempt by start time alone reopens a finished run",
        [(0, beat_at_start(), "RUNNING"), (60, lambda s: s.complete(), "SUCCEEDED"),
         (60, beat_at_start(), "RUNNING"), (11 * MINUTE, nothing, "TIMED_OUT")],
        ["SUCCEEDED", "TIMED_OUT"],
    ),
    (
        "a new attempt by start time alone reopens a preempted run, which people need not hear of",
        [(0, beat_at_start(), "RUNNING"), (60, lambda s: s.put("_preempted"), "PREEMPTED"),
         (60, nothing, "PREEMPTED"), (60, beat_at_start(), "RUNNING")],
        [],
    ),
    (
        "a script without attempts that takes its _error away and beats again is running again",
        [(0, lambda s: s.both(1), "RUNNING"), (60, lambda s: s.error("boom"), "FAILED"),
         (60, lambda s: s.delete("_error"), "FAILED"), (60, lambda s: s.both(1), "RUNNING"),
         (60, lambda s: s.error("boom"), "FAILED")],
        ["FAILED", "FAILED"],
    ),
    (
        "a finished run stays finished when all of its files are deleted",
        [(0, lambda s: (s.both(1), s.complete()), "SUCCEEDED"),
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
    (
        "a run that its owner ended with Ctrl-C is cancelled, and nobody is told; its next attempt is open again",
        [(0, beat_at_start(1), "RUNNING"), (60, fails("Cancelled: KeyboardInterrupt (Ctrl-C)"), "CANCELLED"),
         (60, nothing, "CANCELLED"), (60, beat_at_start(2), "RUNNING"),
         (60, fails("Cancelled: received signal 2 (SIGINT, KeyboardInterrupt); train.py ended"), "CANCELLED"),
         (60, beat_at_start(3), "RUNNING"),
         (60, fails("Traceback (most recent call last):\n  File\nKeyboardInterrupt"), "CANCELLED"),
         (60 * MINUTE, nothing, "CANCELLED")],
        [],
    ),
    (
        "a run that somebody else stopped failed, and so did one that merely speaks of a Ctrl-C",
        [(0, beat_at_start(1), "RUNNING"), (60, fails("Cancelled: received signal 15 (SIGTERM)"), "FAILED"),
         (60, beat_at_start(2), "RUNNING"), (60, fails("RuntimeError: a worker got KeyboardInterrupt"), "FAILED")],
        ["FAILED", "FAILED"],
    ),
    (
        "an _error that was written again after the verdict is spent, too",
        [(0, lambda s: s.beat(attempt=1), "RUNNING"), (60, lambda s: s.error(""), "FAILED"),
         (60, lambda s: s.error("CUDA out of memory"), "FAILED"),
         (60, lambda s: s.beat(attempt=2), "RUNNING")],
        ["FAILED"],
    ),
    (
        "sentinels that nobody saw before the next attempt began by number are its predecessor's",
        [(0, lambda s: s.beat(attempt=1), "RUNNING"), (60, lambda s: s.error("boom"), "FAILED"),
         (60, lambda s: s.beat(attempt=2), "RUNNING"),
         (60, lambda s: (s.error("unseen"), s.after(5), s.beat(attempt=3)), "RUNNING"),
         (60, lambda s: s.complete(), "SUCCEEDED")],
        ["FAILED", "SUCCEEDED"],
    ),
    (
        "attempts that begin within one second of the store's clock do not bring the first one's _error back",
        [(0, lambda s: s.beat(attempt=1), "RUNNING"), (60, lambda s: s.error("boom"), "FAILED"),
         (0, lambda s: s.beat(attempt=2), "RUNNING"), (0, lambda s: s.beat(attempt=3), "RUNNING")],
        ["FAILED"],
    ),
    (
        "a number that goes down without a start time is odd, and still life",
        [(0, lambda s: s.beat(attempt=3), "RUNNING"), (300, lambda s: s.beat(attempt=1), "RUNNING"),
         (300, lambda s: s.beat(attempt=1), "RUNNING"), (300, lambda s: s.beat(attempt=1), "RUNNING")],
        [],
    ),
    (
        "progress of the attempt before, told by number alone, raises no condition",
        [(0, lambda s: (s.beat(attempt=1), s.progress(500, loss="nan")), "RUNNING"),
         (30 * MINUTE, lambda s: s.beat(attempt=2), "RUNNING"), (60, lambda s: s.beat(attempt=2), "RUNNING")],
        ["WARNING"],
    ),
    (
        "a torn document between two whole ones does not end the run",
        [(0, lambda s: s.beat(start_time=s.instance_now.isoformat()), "RUNNING"),
         (60, lambda s: s.put("metadata.json", '{"run_'), "RUNNING"), (60, lambda s: s.beat(), "RUNNING"),
         (60, lambda s: s.error("boom"), "FAILED")],
        ["WARNING", "FAILED"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "events"), [pytest.param(s, e, id=name) for name, s, e in HISTORIES])
def test_history(steps: Sequence[Step], events: list[str]) -> None:
    def is_told(restarted: bool) -> None:
        world = World()
        seen = []
        for seconds, act, _ in steps:
            world.after(seconds)
            act(world)
            seen.append(world.look(restarted=restarted).status.value)
        assert seen == [status for _, _, status in steps]
        assert world.channel.events == events

    check_each([("--once", (True,)), ("loop", (False,))], is_told)


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_a_step_that_stands_still_is_first_a_warning_and_then_a_time_out(restarted: bool) -> None:
    world = World(Policy(stall_s=10 * MINUTE))
    shown = []
    for minute in range(32):
        world.both(min(minute, 5))
        outcome = world.look(restarted=restarted)
        shown.append(outcome.status.value + ("!" if "stalled" in outcome.conditions else ""))
        world.after(60)
    # The step last moved in minute 5. A watcher that remembers only what is written down may be a quarter late.
    stalled, timed_out = shown.index("RUNNING!"), shown.index("TIMED_OUT")
    assert 15 <= stalled <= (17.5 if restarted else 15)
    assert 25 <= timed_out <= (27.5 if restarted else 25)
    assert world.channel.events == ["WARNING", "TIMED_OUT"]
    assert "still at step 5" in world.channel.sent[-1].reason
    world.both(6)
    assert world.look(restarted=restarted).status.value == "RUNNING"
    assert world.channel.events[-1] == "RECOVERED"


def test_people_are_told_only_what_they_asked_for() -> None:
    world = World(Policy(alert_on=frozenset({Event.RESTARTED, Event.FAILED})))
    beat_at_start(1)(world)
    world.look()
    world.after(11 * MINUTE)
    world.look()
    world.error("boom")
    world.look()
    world.after(60)
    beat_at_start(2)(world)
    world.look()
    assert world.channel.events == ["FAILED", "RESTARTED"]
    assert [t.after.value for t in world.record_after_look().history] == [
        "RUNNING", "TIMED_OUT", "FAILED", "RUNNING",
    ]  # fmt: skip


def test_a_run_that_its_missing_sentinel_opens_again_is_its_next_attempt() -> None:
    world = World()
    for act in (lambda: world.both(1), lambda: world.error("boom"), lambda: (world.delete("_error"), world.both(1))):
        act()
        world.look()
        world.after(60)
    history = world.record_after_look().history
    assert [(each.attempt, each.after.value) for each in history] == [(1, "RUNNING"), (1, "FAILED"), (2, "RUNNING")]


def test_a_warning_is_not_lost_when_the_alert_it_came_with_is_not_wanted() -> None:
    world = World(Policy(alert_on=frozenset({Event.WARNING})))
    world.look()
    world.beat()
    world.progress(3, loss="nan")
    world.look()
    assert world.channel.events == ["WARNING"]
    assert "loss_nan" in world.channel.sent[0].conditions


def test_a_healthy_run_costs_three_requests_a_pass_and_no_write() -> None:
    world = World()
    for minute in range(5):
        world.both(minute)
        world.store.calls.clear()
        world.look(restarted=False)
        if minute:
            assert [operation for operation, _ in world.store.calls] == ["list", "read", "read"]
        world.after(60)


@pytest.mark.parametrize("names", [("metadata.json",), ("progress.json",), ("metadata.json", "progress.json")])
def test_tidying_up_after_a_run_that_timed_out_is_no_recovery(names: tuple[str, ...]) -> None:
    world = World()
    world.both(1)
    world.look()
    world.after(700)
    assert world.look().status.value == "TIMED_OUT"
    world.delete(*names)
    for _ in range(5):
        world.after(300)
        assert world.look().status.value == "TIMED_OUT"
    assert world.channel.events == ["TIMED_OUT"]
    world.both(2)
    assert world.look().status.value == "RUNNING"
    assert world.channel.events == ["TIMED_OUT", "RECOVERED"]
