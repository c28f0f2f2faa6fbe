"""One look at a run that nobody looked at before: what the evidence alone says."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import Policy
from lastbeat.stores.port import DeniedError
from lastbeat.watch.decide.verdict import REASON_LIMIT
from support.world import World

MINUTE = 60.0
ONE_STALE = "Both heartbeats stale (>10m); no progress.json was ever written"
Setup = Callable[[World], object]


def look(setup: Setup, policy: Policy | None = None) -> Outcome:
    world = World(policy)
    setup(world)
    return world.look()


def both_sentinels(world: World) -> None:
    world.both(5)
    world.complete()
    world.error("RuntimeError: boom")


def sentinel_of_earlier_attempt(world: World) -> None:
    world.error("old trouble", age_s=30 * MINUTE)
    world.beat(start_time=world.now.isoformat(), attempt=2)


@pytest.mark.parametrize(
    ("setup", "status", "reason", "conditions"),
    [
        pytest.param(lambda s: s.both(5), "RUNNING", "Heartbeats: metadata.json 0s ago, progress.json 0s ago", [],
                     id="two fresh heartbeats are a running run"),
        pytest.param(lambda s: s.both(5, age_s=11 * MINUTE), "TIMED_OUT", "Both heartbeats stale (>10m)", [],
                     id="two stale heartbeats are a dead run"),
        pytest.param(lambda s: s.both(5, age_s=10 * MINUTE), "RUNNING",
                     "Heartbeats: metadata.json 10m ago, progress.json 10m ago", [],
                     id="exactly at the limit is not over it"),
        pytest.param(lambda s: (s.beat(age_s=11 * MINUTE), s.progress(5)), "RUNNING",
                     "Heartbeats: metadata.json 11m ago, progress.json 0s ago", ["metadata_stale"],
                     id="stale metadata beside fresh progress is a warning"),
        pytest.param(lambda s: (s.beat(), s.progress(5, age_s=11 * MINUTE)), "RUNNING",
                     "Heartbeats: metadata.json 0s ago, progress.json 11m ago", ["progress_stale"],
                     id="stale progress beside fresh metadata is a warning"),
        pytest.param(lambda s: None, "TIMED_OUT", "No heartbeat files found", [],
                     id="nothing at all is a run that never started"),
        pytest.param(lambda s: s.log("hello"), "RUNNING", "Heartbeats: log 0s ago", [],
                     id="new text in a log is life where nobody writes heartbeats"),
        pytest.param(lambda s: s.put("logs/rank3.log", "step 7 loss 2.5\n"), "RUNNING",
                     "Heartbeats: log 0s ago, step in the log 0s ago", [],
                     id="whatever the log is called, and a step in it is progress"),
        pytest.param(lambda s: s.put("logs/training_log_latest.txt", "hello", age_s=11 * MINUTE), "TIMED_OUT",
                     "Both heartbeats stale (>10m); only a log was ever written", [],
                     id="a log that nobody writes any more is a dead run"),
        pytest.param(lambda s: s.log("step 7 loss nan\n"), "RUNNING", "Heartbeats: log 0s ago, step in the log 0s ago",
                     ["loss_nan"], id="a loss in the log that is no number is lost"),
        pytest.param(lambda s: (s.both(5, age_s=99 * MINUTE), s.complete(age_s=99 * MINUTE)), "SUCCEEDED",
                     "Training completed (_complete found)", [], id="a completed run does not time out"),
        pytest.param(lambda s: (s.both(5), s.put("_preempted", '{"checkpoint": "/ckpt/step_1500", "step": 1500}')),
                     "PREEMPTED", "PREEMPTED, checkpoint at step 1500: /ckpt/step_1500", [],
                     id="an end on request is told with its checkpoint"),
        pytest.param(lambda s: s.put("_preempted"), "PREEMPTED", "PREEMPTED; no checkpoint is named", [],
                     id="an empty _preempted ends it, too"),
        pytest.param(lambda s: (s.both(5), s.put("_preempted"), s.complete()), "SUCCEEDED",
                     "Training completed (_complete found)", [], id="who was done when it was to end is done"),
        pytest.param(lambda s: (s.both(5), s.put("_preempted"), s.error("RuntimeError: boom")), "FAILED",
                     "RuntimeError: boom", [], id="an error after a preemption is one"),
        pytest.param(
            lambda s: (s.put("_preempted", age_s=30 * MINUTE), s.beat(start_time=s.now.isoformat(), attempt=2)),
            "RUNNING", "Heartbeats: metadata.json 0s ago", [],
            id="what an earlier attempt was preempted of says nothing of this one",
        ),
        pytest.param(both_sentinels, "FAILED", "RuntimeError: boom", [], id="_error outranks _complete"),
        pytest.param(lambda s: (s.both(5), s.error("")), "FAILED", "Training reported a failure (empty _error)", [],
                     id="an empty _error is a failure all the same"),
        pytest.param(lambda s: (s.both(5), s.error("\n\n  ValueError: bad shape  \nTraceback…")), "FAILED",
                     "ValueError: bad shape", [], id="the reason is the first line that says something"),
        pytest.param(lambda s: s.error("Traceback (most recent call last):\n  …\nValueError: bad shape\n"), "FAILED",
                     "ValueError: bad shape", [], id="a bare stack trace has its message at the end"),
        pytest.param(lambda s: s.error("\x1b[31m\x1b[0m\x00\x00"), "FAILED",
                     "Training reported a failure (empty _error)", [],
                     id="an _error of control characters says nothing"),
        pytest.param(lambda s: (s.beat(start_time="0001-01-01T00:00:00Z"), s.error("boom")), "FAILED", "boom", [],
                     id="a zero time is no start"),
        pytest.param(lambda s: (s.beat(last_update="9999-12-31T00:00:00Z"), s.complete()), "SUCCEEDED",
                     "Training completed (_complete found)", [], id="the end of time is no time"),
        pytest.param(lambda s: (s.beat(start_time="2026-01-01T14:00:00"), s.error("boom")), "FAILED", "boom", [],
                     id="a start in local time, hours ahead of the document, hides no failure"),
        pytest.param(lambda s: s.beat(last_update="yesterday"), "RUNNING", "Heartbeats: metadata.json 0s ago",
                     ["heartbeat_unreadable"], id="a time that is none is a warning"),
        pytest.param(sentinel_of_earlier_attempt, "RUNNING", "Heartbeats: metadata.json 0s ago", [],
                     id="a sentinel older than the attempt's start says nothing about it"),
        pytest.param(lambda s: (s.beat(), s.progress(7, loss=float("nan"))), "RUNNING",
                     "Heartbeats: metadata.json 0s ago, progress.json 0s ago", ["loss_nan"],
                     id="a bare NaN in progress.json is a lost loss, not a broken document"),
        pytest.param(lambda s: (s.beat(), s.progress(7, loss="-Infinity")), "RUNNING",
                     "Heartbeats: metadata.json 0s ago, progress.json 0s ago", ["loss_nan"],
                     id="an infinite loss written as text is seen, too"),
        pytest.param(lambda s: (s.put("metadata.json", '{"last_upd'), s.progress(7)), "RUNNING",
                     "Heartbeats: metadata.json 0s ago, progress.json 0s ago", ["heartbeat_unreadable"],
                     id="a truncated document is a heartbeat and a warning"),
        pytest.param(lambda s: s.put("metadata.json", "[1, 2]", age_s=11 * MINUTE), "TIMED_OUT", ONE_STALE, [],
                     id="a document that cannot be read goes stale like any other"),
        pytest.param(lambda s: s.put("metadata.json"), "RUNNING", "Heartbeats: metadata.json 0s ago",
                     ["heartbeat_unreadable"], id="touch metadata.json is a heartbeat"),
        pytest.param(lambda s: s.beat(last_update="2030-01-01T00:00:00Z"), "RUNNING",
                     "Heartbeats: metadata.json 0s ago", ["clock_skew"],
                     id="a timestamp in the future is a fast clock"),
        pytest.param(lambda s: s.put("metadata.json", '{"last_update": "2030-01-01T00:00:00Z"}', age_s=11 * MINUTE),
                     "TIMED_OUT", ONE_STALE, [], id="a timestamp in the future keeps no dead run alive"),
        pytest.param(lambda s: s.beat(last_update="2025-01-01T00:00:00Z"), "TIMED_OUT", ONE_STALE, [],
                     id="a file just written is as old as the document in it says"),
        pytest.param(lambda s: s.beat(last_update=(s.now - 20 * timedelta(minutes=1)).timestamp()), "TIMED_OUT",
                     ONE_STALE, [], id="an epoch number names its zone as well"),
        pytest.param(lambda s: (s.both(5), s.beat(last_update="2026-01-01T11:39:00Z")), "RUNNING",
                     "Heartbeats: metadata.json 21m ago, progress.json 0s ago", ["clock_skew", "metadata_stale"],
                     id="an old document in a new file is stale beside a fresh one"),
        pytest.param(lambda s: s.beat(last_update="2026-01-01T11:54:00+00:00"), "RUNNING",
                     "Heartbeats: metadata.json 6m ago", ["clock_skew"],
                     id="a document that is younger than the limit is as young as it says"),
        pytest.param(lambda s: s.beat(last_update="2026-01-01T06:29:40"), "RUNNING", "Heartbeats: metadata.json 0s ago",
                     ["clock_skew"], id="a time without a zone that lags by whole quarter hours may be local time"),
        pytest.param(lambda s: s.beat(last_update="2026-01-01T11:37:00"), "TIMED_OUT", ONE_STALE, [],
                     id="a time without a zone that lags by anything else is UTC"),
        pytest.param(lambda s: s.beat(last_update="2026-01-01T06:30:00Z"), "TIMED_OUT", ONE_STALE, [],
                     id="with its zone named there is nothing to doubt"),
        pytest.param(lambda s: s.beat(last_update="2026-01-01T11:00:00Z", clock_offset_s=3600), "RUNNING",
                     "Heartbeats: metadata.json 0s ago", ["clock_skew"],
                     id="a slow clock that says by how much it is slow is wronged not even at the first look"),
        pytest.param(lambda s: s.beat(last_update="2026-01-01T10:40:00Z", clock_offset_s=3600.0), "TIMED_OUT",
                     ONE_STALE, [], id="nor does it keep a dead run alive"),
        pytest.param(lambda s: s.beat(last_update="2026-01-01T10:40:00Z", clock_offset_s="1e999"), "TIMED_OUT",
                     ONE_STALE, [], id="an offset that can be none counts for nothing"),
        pytest.param(
            lambda s: (
                s.beat(last_update="2026-01-01T11:00:00Z", clock_offset_s=3600),
                s.progress(5, last_updated="2026-01-01T11:00:00Z"),
            ), "RUNNING", "Heartbeats: metadata.json 0s ago, progress.json 0s ago", ["clock_skew"],
            id="what one document says of the clock holds for the other",
        ),
    ],
)  # fmt: skip
def test_first_look(setup: Setup, status: str, reason: str, conditions: list[str]) -> None:
    outcome = look(setup)
    assert (outcome.status.value, outcome.reason, sorted(outcome.conditions)) == (status, reason, conditions)


DIED = "loader: ValueError: shard 7 is torn"
DIED_TOLD = f"; a thread of it had ended with an exception: {DIED}"


@pytest.mark.parametrize(
    ("setup", "status", "reason"),
    [
        pytest.param(lambda s: (s.beat(thread_error=DIED), s.complete()), "SUCCEEDED",
                     f"Training completed (_complete found){DIED_TOLD}", id="of a success it is a note"),
        pytest.param(lambda s: (s.beat(thread_error=DIED), s.error("queue.Empty")), "FAILED", f"queue.Empty{DIED_TOLD}",
                     id="of a failure it may be the reason"),
        pytest.param(lambda s: (s.beat(thread_error=DIED, age_s=11 * MINUTE), s.progress(5, age_s=11 * MINUTE)),
                     "TIMED_OUT", f"Both heartbeats stale (>10m){DIED_TOLD}", id="as of a silence"),
        pytest.param(lambda s: s.beat(thread_error=DIED), "RUNNING", f"Heartbeats: metadata.json 0s ago{DIED_TOLD}",
                     id="a run that goes on runs, without a warning"),
        pytest.param(lambda s: s.beat(thread_error=" \x1b[0m "), "RUNNING", "Heartbeats: metadata.json 0s ago",
                     id="one that says nothing is none"),
        pytest.param(lambda s: s.beat(thread_error=["a", "list"]), "RUNNING", "Heartbeats: metadata.json 0s ago",
                     id="nor is what is no text"),
    ],
)  # fmt: skip
def test_an_exception_that_ended_a_thread_decides_nothing_and_is_told(setup: Setup, status: str, reason: str) -> None:
    outcome = look(setup)
    assert (outcome.status.value, outcome.reason, dict(outcome.conditions)) == (status, reason, {})


def test_a_long_one_is_cut_and_leaves_room_for_the_reason() -> None:
    outcome = look(lambda s: (s.beat(thread_error="x" * 5000), s.error("y" * 5000)))
    assert len(outcome.reason) <= REASON_LIMIT
    assert outcome.reason.startswith("yyy")
    assert "; a thread of it had ended with an exception: xxx" in outcome.reason


def test_a_run_that_stands_still_since_a_thread_died_says_so() -> None:
    world = World(Policy(stall_s=600))
    for minutes in range(21):
        world.beat(thread_error=DIED)
        if minutes == 0:
            world.progress(5)
        outcome = world.look(restarted=False)
        if minutes == 11:
            assert outcome.conditions["stalled"] == f"No progress: still at step 5 after 11m (limit 10m){DIED_TOLD}"
        world.after(60)
    assert outcome.status.value == "TIMED_OUT"
    assert outcome.reason == f"No progress: still at step 5 after 20m (limit 10m, twice exceeded){DIED_TOLD}"


STOPPED = '{"by": "ann@login1", "why": "maintenance", "attempt": 1}'


def test_a_person_who_asked_for_the_checkpoint_is_named_and_recorded() -> None:
    world = World()
    world.beat()
    world.put("_stop", STOPPED)
    world.after(60)
    world.put("_preempted", '{"step": 1500}')
    outcome = world.look()
    assert outcome.reason == "PREEMPTED, checkpoint at step 1500; stopped by ann@login1: maintenance"
    assert outcome.record is not None
    assert outcome.record.stopped_by == "ann@login1"


ASKS_FOR_A_CHECKPOINT = '{"by": "ann@login1", "why": "maintenance", "attempt": 1, "after_checkpoint": true}'


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        pytest.param(STOPPED, "CANCELLED", "Stopped by ann@login1: maintenance", id="who asks for its end gets one"),
        pytest.param(
            ASKS_FOR_A_CHECKPOINT, "FAILED", "RuntimeError: boom", id="who asks for a checkpoint first does not get it"
        ),
    ],
)
def test_an_error_after_a_request_to_end(request_: str, status: str, reason: str) -> None:
    world = World()
    world.beat()
    world.put("_stop", request_)
    world.after(60)
    world.error("RuntimeError: boom")
    outcome = world.look()
    assert (outcome.status.value, outcome.reason) == (status, reason)


@pytest.mark.parametrize("readable", [True, False], ids=["it goes away later", "it can be read only later"])
def test_what_an_error_was_recorded_as_stands_whatever_becomes_of_the_request(readable: bool) -> None:
    world = World()
    world.beat()
    world.put("_stop", STOPPED)
    world.after(60)
    world.error("RuntimeError: boom")

    def refuse(operation: str, key: str) -> None:
        if operation == "read" and key.endswith("_stop") and not readable:
            raise DeniedError("no rights")

    world.store.before = refuse
    told = world.look()
    assert told.status.value == ("CANCELLED" if readable else "FAILED")
    world.store.heal()
    if readable:
        world.delete("_stop")
    world.after(60)
    again = world.look()
    assert (again.status, again.reason) == (told.status, told.reason)
    assert world.channel.events == ([] if readable else ["FAILED"])


def test_limits_are_named_as_they_were_set() -> None:
    outcome = look(lambda s: s.both(5, age_s=31), Policy(stale_s=30))
    assert outcome.reason == "Both heartbeats stale (>0.5m)"


@pytest.mark.parametrize(
    ("error", "cause", "words"),
    [
        pytest.param("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "oom",
                     "batch", id="CUDA out of memory"),
        pytest.param("RuntimeError: something\nTraceback (most recent call last):\n…", "exception", "on restart",
                     id="any other exception"),
        pytest.param("it broke", None, "stack trace", id="a text that says nothing has no cause"),
    ],
)  # fmt: skip
def test_a_failure_names_its_cause_and_what_to_do(error: str, cause: str | None, words: str) -> None:
    outcome = look(lambda s: s.error(error))
    assert outcome.cause == cause
    assert words in (outcome.action or "")


@pytest.mark.parametrize(
    ("setup", "words"),
    [
        pytest.param(lambda s: s.both(1, age_s=700), ["SSH", "training.log", "nvidia-smi", "disk space"], id="stale"),
        pytest.param(lambda s: None, ["never started", "setup logs"], id="never started"),
        pytest.param(lambda s: (s.beat(), s.progress(1, loss="nan")), ["checkpoint", "learning rate"], id="loss"),
    ],
)
def test_every_trouble_says_what_to_do(setup: Setup, words: list[str]) -> None:
    action = look(setup).action or ""
    assert [word for word in words if word not in action] == []


def test_a_healthy_run_asks_for_no_action() -> None:
    assert look(lambda s: s.both(5)).action is None
