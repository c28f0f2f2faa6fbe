"""A run whose logs are read, by a watcher that knows of earlier looks or of none: what is told of it, and when."""

import json

import pytest

from lastbeat.alerts.plain import render
from lastbeat.model.policy import Policy
from lastbeat.model.status import Status
from lastbeat.stores.port import DeniedError, UnreachableError
from support.growing import MAIN, OOM, LoggedWorld, steps
from support.there import there
from support.world import RUN, World


@pytest.fixture
def world() -> LoggedWorld:
    return LoggedWorld()


CTRL_C = (
    'Traceback (most recent call last):\n  File "/w/train.py", line 31, in <module>\n    train()\nKeyboardInterrupt\n'
)


def test_a_ctrl_c_that_only_the_log_shows_is_cancelled_and_quiet(world: LoggedWorld) -> None:
    world.write(steps(10))
    world.look()
    for text in (CTRL_C, "", ""):
        world.after(60)
        world.write(text)
        outcome = world.look()
        assert (outcome.status.value, outcome.cause, outcome.action) == ("CANCELLED", "cancelled", None)
        assert outcome.reason == "Cancelled: the log ends with KeyboardInterrupt (Ctrl-C)"
    world.after(3600)
    assert world.look().status.value == "CANCELLED", "silence fits that"
    assert world.channel.events == []
    world.write(steps(60, 11))
    assert world.look().status.value == "RUNNING", "a later step takes it back"


def test_a_crash_is_told_with_the_line_that_shows_it_and_what_to_do(world: LoggedWorld) -> None:
    world.write(steps(10))
    world.look()
    world.after(60)
    world.write(OOM)
    outcome = world.look()
    assert (outcome.status.value, outcome.cause) == ("FAILED", "oom")
    assert outcome.reason.startswith("The log shows that the run failed: torch.OutOfMemoryError: CUDA out of memory")
    (alert,) = world.channel.sent
    assert alert.evidence is not None
    assert (alert.evidence.file, alert.evidence.line) == (MAIN, 14)
    assert alert.step == 10
    assert "batch" in (alert.action or "")
    shown = render(alert)
    assert f"What shows it: {MAIN}:14" in shown
    for _ in range(3):
        world.after(60)
        later = world.look()
        assert (later.status, later.cause, later.action) == (outcome.status, outcome.cause, outcome.action)
    assert world.channel.events == ["FAILED"]


@pytest.mark.parametrize("fault", [UnreachableError("503"), DeniedError("access denied")], ids=["down", "denied"])
def test_logs_that_cannot_be_read_change_nothing_and_are_spoken_of(world: LoggedWorld, fault: Exception) -> None:
    world.beat()
    world.write(steps(10))
    world.look()

    world.store.refuse("read", fault, named=f"{RUN}/{MAIN}")
    for _ in range(15):
        world.after(60)
        world.write(OOM)
        outcome = world.look()
    assert outcome.status.value == "RUNNING", "the file that cannot be read is written, so something lives"
    assert any("could not be read" in note for note in outcome.notes)


def test_logs_are_read_no_more_often_than_the_catalogue_wants() -> None:
    world = LoggedWorld(Policy(poll_s=3600.0))
    world.beat()
    world.write(steps(10))
    world.look(restarted=False)
    world.after(60)
    world.write(OOM)
    assert world.look(restarted=False).status.value == "RUNNING"
    assert world.look().status.value == "FAILED", "a new process has not read any"


def test_a_log_that_is_read_seldom_does_not_stand_still_for_that() -> None:
    world = LoggedWorld(Policy(poll_s=180.0, stall_s=60.0))
    for step in range(40):
        world.write(steps(step + 1, step + 1))
        outcome = world.look(restarted=False)
        assert (outcome.status.value, [*outcome.conditions]) == ("RUNNING", [])
        world.after(15)


@pytest.mark.parametrize("age_s", [600.0, 86400.0], ids=["minutes ago", "yesterday"])
def test_the_log_of_an_earlier_job_fails_nobody(world: LoggedWorld, age_s: float) -> None:
    world.put("logs/job-4711.log", steps(5) + OOM, age_s=age_s)
    for minute in range(5):
        world.both(minute)
        world.write(steps(10 * minute + 10, 10 * minute + 1))
        assert (world.look().status.value, world.channel.events) == ("RUNNING", [])
        world.after(60)


def test_a_log_that_is_gone_counts_from_when_it_was_missed(world: LoggedWorld) -> None:
    world.write(steps(10))
    world.look()
    world.after(590)
    world.write(steps(20, 11))
    world.look()
    world.delete(MAIN)
    world.look()
    for _ in range(9):
        world.after(60)
        assert world.look().status.value == "RUNNING"
    world.after(120)
    outcome = world.look()
    assert (outcome.status.value, outcome.reason[:24]) == ("TIMED_OUT", "Both heartbeats disappea")


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


def test_a_watcher_that_was_away_takes_no_old_crash_for_the_new_attempts() -> None:
    world = LoggedWorld()
    world.beat(attempt=1, start_time=world.now.isoformat())
    world.look()
    away = world.fresh_watch()
    away.tick()
    for attempt in (2, 3, 4):
        world.after(2)
        world.write(OOM)
        world.after(2)
        started = world.now.isoformat()
        world.beat(attempt=attempt, start_time=started)
        if attempt < 4:
            # This one sees one crash after the other.
            world.look()
    world.look()
    for _ in range(4):
        world.after(60)
        world.beat(attempt=4, start_time=started)
        world.write("loading the model\n")
        for outcome in (away.tick(), world.look()):
            assert (outcome.status.value, list(outcome.conditions)) == ("RUNNING", [])


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param("", id="no mark"),
        pytest.param("Array Job ID: 4700\n", id="the number of its array"),
        pytest.param("root@worker-0:/# python collect_logs.py\n", id="a prompt with a program"),
    ],
)
def test_an_epilogue_is_no_other_attempt(mark: str) -> None:
    begun = "SLURM_JOB_ID=4711\n" + "".join(f"step {n} loss 2.{n}\n" for n in range(10, 30))
    epilogue = mark + "".join(f"copying artefact number {n} of the archive to the bucket\n" for n in range(70))
    world = World()
    world.beat()
    world.put("logs/train.log", begun)
    watch = world.fresh_watch()
    watch.tick()
    world.after(60)
    world.put("logs/train.log", begun + OOM + epilogue)
    watch.tick()
    for seconds in (60, 3600):
        world.after(seconds)
        outcome = watch.tick()
        assert (outcome.status.value, there(outcome.record).cause) == ("FAILED", "oom")
    assert [(each.event.value, each.cause) for each in world.channel.sent] == [("FAILED", "oom")]


RECORD = f"{RUN}/_watchdog.json"
HALF = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB"


def lose_races(world: LoggedWorld, count: int) -> list[int]:
    """Somebody else writes the record right before this watcher does, so many times; the list counts them."""
    lost: list[int] = []

    def somebody(operation: str, key: str) -> None:
        held = world.store.held.get(RECORD)
        if operation == "write" and key == RECORD and held is not None and len(lost) < count:
            lost.append(1)
            record = json.loads(held.body)
            world.store.put_text(RECORD, json.dumps({**record, "seq": record["seq"] + 1, "writer": "somebody"}))

    world.store.before = somebody
    return lost


@pytest.mark.parametrize("races", [0, 1, 3])
def test_a_line_that_has_not_ended_does_not_stand_still_because_of_a_race(world: LoggedWorld, races: int) -> None:
    world.write(steps(10))
    world.look()
    world.after(60)
    world.look()
    # Something to write down, and a line that is being written.
    world.beat(attempt=None)
    world.beat(own="odd", age_s=-120)
    world.write(HALF)
    lost = lose_races(world, races)
    outcome = world.watch.tick()
    assert len(lost) == races
    assert (outcome.status, outcome.cause) == (Status.RUNNING, None)
    world.after(60)
    world.beat()
    assert world.watch.tick().status is Status.FAILED, "now it has stood still"


@pytest.mark.parametrize("races", [0, 2])
def test_who_knows_of_no_earlier_look_still_writes_down_what_it_saw(world: LoggedWorld, races: int) -> None:
    world.write(steps(10))
    world.cold()
    world.after(60)
    marks = set()
    for minute in range(1, 12):
        world.write(steps(10 * minute + 10, 10 * minute + 1))
        lost = lose_races(world, races)
        world.cold()
        marks.add(json.loads(world.store.held[RECORD].body)["log"]["mark"])
        world.after(60)
        del lost
    assert len(marks) >= 3


def test_a_log_that_came_with_its_attempt_stays_that_attempt_s(world: LoggedWorld) -> None:
    world.beat(attempt=1, start_time=world.now.isoformat())
    world.write(steps(10))
    world.look()
    world.watch.tick()
    world.after(60)
    world.beat(attempt=2, start_time=world.now.isoformat())
    world.put("logs/second.log", "step 7/1000 loss 2.5\n")
    lost = lose_races(world, 2)
    world.watch.tick()
    assert len(lost) == 2
    outcome = world.watch.tick()
    assert outcome.record is not None
    assert outcome.record.attempt.number == 2
    assert there(outcome.record.log).step == 7, MAIN
