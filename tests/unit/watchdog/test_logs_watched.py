"""A run whose logs are read: what is told of it, with which line, and what a later pass makes of it."""

from collections.abc import Callable

import pytest

from lastbeat.alerts.plain import render
from lastbeat.model.policy import Policy
from lastbeat.stores.port import DeniedError, UnreachableError
from support.growing import MAIN, OOM, LoggedWorld, steps
from support.world import RUN, World


@pytest.fixture
def world() -> LoggedWorld:
    return LoggedWorld()


def test_a_program_that_was_never_changed_is_watched_by_its_log(world: LoggedWorld) -> None:
    for minute in range(5):
        world.write(steps(10 * (minute + 1), 10 * minute + 1))
        outcome = world.look()
        world.after(60)
    assert (outcome.status.value, list(outcome.conditions)) == ("RUNNING", [])
    assert outcome.last_progress_at is not None
    for _ in range(12):
        world.put(MAIN, world.text)  # A sync tool: the same text again.
        outcome = world.look()
        world.after(60)
    assert outcome.status.value == "TIMED_OUT"
    (alert,) = world.channel.sent
    assert (alert.step, alert.total_steps, alert.loss) == (50, 1000, 2.5)
    world.write(steps(60, 51))
    assert world.look().status.value == "RUNNING"
    assert world.channel.events == ["TIMED_OUT", "RECOVERED"]


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


def test_a_ctrl_c_is_a_failure_once_the_log_shows_that_something_else_had_failed(world: LoggedWorld) -> None:
    world.write(steps(10))
    world.look()
    world.after(60)
    world.write(CTRL_C)
    assert world.look().status.value == "CANCELLED"
    world.after(5)
    world.write(CTRL_C.replace("KeyboardInterrupt", "ValueError: bad batch"))
    assert world.look().status.value == "FAILED"
    assert world.channel.events == ["FAILED"]


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


def test_a_new_attempt_begins_with_a_clean_log_though_the_file_goes_on(world: LoggedWorld) -> None:
    world.beat(attempt=1, start_time=world.now.isoformat())
    world.write(steps(10) + OOM)
    assert world.look().status.value == "FAILED"
    world.after(60)
    world.beat(attempt=2, start_time=world.now.isoformat())
    for restarted in (True, False, True):
        outcome = world.look(restarted=restarted)
        assert (outcome.status.value, list(outcome.conditions), outcome.cause) == ("RUNNING", [], None)
        world.after(30)
        world.write("loading the model\n")
    world.write(OOM)
    assert world.look().status.value == "FAILED"
    assert world.channel.events == ["FAILED", "FAILED"]


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


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda s: s.put(MAIN, "\x00\xff" * 70_000), id="bytes"),
        pytest.param(lambda s: s.put(MAIN, "x" * 300_000), id="a line without end"),
        pytest.param(lambda s: s.put(MAIN, "\x1b[31m<!channel> Run x: SUCCEEDED\r\n" * 1000), id="tricks"),
        pytest.param(lambda s: [s.put(f"logs/rank{n}.log", steps(3)) for n in range(150)], id="a file a rank"),
    ],
)
def test_whatever_lies_in_the_logs_a_beating_run_runs(world: LoggedWorld, write: Callable[[World], object]) -> None:
    world.beat()
    write(world)
    assert world.look().status.value == "RUNNING"
    assert world.minutes(2).status.value == "RUNNING"


def test_a_log_that_is_read_seldom_lives_all_the_same() -> None:
    world = LoggedWorld(Policy(poll_s=36_000.0))
    for minute in range(40):
        world.write(steps(minute + 1, minute + 1))
        assert world.look(restarted=False).status.value == "RUNNING"
        world.after(60)


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


def test_the_log_of_an_earlier_job_hides_no_crash(world: LoggedWorld) -> None:
    world.put("logs/job-4711.log", steps(5) + OOM, age_s=86400)
    world.both(1)
    world.write(steps(10) + "OSError: [Errno 28] No space left on device: '/ckpt/x.pt'\n")
    world.error("training failed")
    assert world.look().cause == "storage"


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


def test_logs_that_may_not_be_read_hide_no_silence(world: LoggedWorld) -> None:
    world.both(1)
    world.write(steps(10))
    world.look()

    world.store.refuse("read", DeniedError("access denied"), named=f"{RUN}/{MAIN}")
    world.after(700)
    world.write(steps(20, 11))
    assert world.look().status.value == "TIMED_OUT"
