"""A run whose logs are read: what is told of it, with which line, and what a later pass makes of it."""

from collections.abc import Callable

import pytest

from lastbeat.deliver.plain import render
from lastbeat.model.policy import Policy
from lastbeat.observe.log_observer import LogSettings
from lastbeat.signals.loading import load
from lastbeat.stores.port import DeniedError, UnreachableError
from support.growing import MAIN, OOM, LoggedScene, steps
from support.scene import RUN, Scene


@pytest.fixture
def scene() -> LoggedScene:
    return LoggedScene()


def test_a_program_that_was_never_changed_is_watched_by_its_log(scene: LoggedScene) -> None:
    for minute in range(5):
        scene.write(steps(10 * (minute + 1), 10 * minute + 1))
        outcome = scene.look()
        scene.after(60)
    assert (outcome.status.value, list(outcome.conditions)) == ("RUNNING", [])
    assert outcome.last_progress_at is not None
    for _ in range(12):
        scene.put(MAIN, scene.text)  # A sync tool: the same text again.
        outcome = scene.look()
        scene.after(60)
    assert outcome.status.value == "TIMED_OUT"
    (alert,) = scene.channel.sent
    assert (alert.step, alert.total_steps, alert.loss) == (50, 1000, 2.5)
    scene.write(steps(60, 51))
    assert scene.look().status.value == "RUNNING"
    assert scene.channel.events == ["TIMED_OUT", "RECOVERED"]


CTRL_C = (
    'Traceback (most recent call last):\n  File "/w/train.py", line 31, in <module>\n    train()\nKeyboardInterrupt\n'
)


def test_a_ctrl_c_that_only_the_log_shows_is_cancelled_and_quiet(scene: LoggedScene) -> None:
    scene.write(steps(10))
    scene.look()
    for text in (CTRL_C, "", ""):
        scene.after(60)
        scene.write(text)
        outcome = scene.look()
        assert (outcome.status.value, outcome.cause, outcome.action) == ("CANCELLED", "cancelled", None)
        assert outcome.reason == "Cancelled: the log ends with KeyboardInterrupt (Ctrl-C)"
    scene.after(3600)
    assert scene.look().status.value == "CANCELLED", "silence fits that"
    assert scene.channel.events == []
    scene.write(steps(60, 11))
    assert scene.look().status.value == "RUNNING", "a later step takes it back"


def test_a_ctrl_c_is_a_failure_once_the_log_shows_that_something_else_had_failed(scene: LoggedScene) -> None:
    scene.write(steps(10))
    scene.look()
    scene.after(60)
    scene.write(CTRL_C)
    assert scene.look().status.value == "CANCELLED"
    scene.after(5)
    scene.write(CTRL_C.replace("KeyboardInterrupt", "ValueError: bad batch"))
    assert scene.look().status.value == "FAILED"
    assert scene.channel.events == ["FAILED"]


def test_a_crash_is_told_with_the_line_that_shows_it_and_what_to_do(scene: LoggedScene) -> None:
    scene.write(steps(10))
    scene.look()
    scene.after(60)
    scene.write(OOM)
    outcome = scene.look()
    assert (outcome.status.value, outcome.cause) == ("FAILED", "oom")
    assert outcome.reason.startswith("The log shows that the run failed: torch.OutOfMemoryError: CUDA out of memory")
    (alert,) = scene.channel.sent
    assert alert.evidence is not None
    assert (alert.evidence.file, alert.evidence.line) == (MAIN, 14)
    assert alert.step == 10
    assert "batch" in (alert.action or "")
    shown = render(alert)
    assert f"What shows it: {MAIN}:14" in shown
    for _ in range(3):
        scene.after(60)
        later = scene.look()
        assert (later.status, later.cause, later.action) == (outcome.status, outcome.cause, outcome.action)
    assert scene.channel.events == ["FAILED"]


def test_steps_after_it_take_it_back(scene: LoggedScene) -> None:
    scene.write(steps(10) + OOM)
    assert scene.look().status.value == "FAILED"
    scene.after(60)
    scene.write(steps(20, 11))
    outcome = scene.look()
    assert (outcome.status.value, outcome.cause) == ("RUNNING", None)
    assert scene.channel.events == ["FAILED", "RECOVERED"]


def test_the_first_failure_among_many_ranks_is_the_cause_and_what_followed_is_also_seen(scene: LoggedScene) -> None:
    begun = "2026-01-01 12:00:00 step 10 loss 2.5\n"
    first = "2026-01-01 12:01:00 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    scene.put("logs/rank0.log", f"{begun}2026-01-01 12:03:00 RuntimeError: Connection closed by peer [10.0.0.17]:29\n")
    scene.put("logs/rank3.log", begun + first)
    scene.put("_error", "RuntimeError: Connection closed by peer [10.0.0.17]:29500")
    outcome = scene.look()
    assert outcome.cause == "oom"
    (alert,) = scene.channel.sent
    assert alert.evidence is not None
    assert (alert.evidence.file, alert.evidence.rank) == ("logs/rank3.log", 3)
    assert "Connection closed by peer" in " ".join(alert.also_seen)


def test_a_time_out_says_what_the_log_ends_in(scene: LoggedScene) -> None:
    scene.beat()
    scene.put(MAIN, steps(5))
    scene.look()
    scene.after(30)
    scene.put(MAIN, steps(5) + "/var/spool/slurmd/job1/slurm_script: line 9:  4711 Killed   python train.py\n")
    scene.after(900)
    outcome = scene.look()
    assert outcome.status.value in {"FAILED", "TIMED_OUT"}
    assert outcome.cause == "oom"
    assert scene.channel.sent[-1].evidence is not None


def test_a_new_attempt_begins_with_a_clean_log_though_the_file_goes_on(scene: LoggedScene) -> None:
    scene.beat(attempt=1, start_time=scene.now.isoformat())
    scene.write(steps(10) + OOM)
    assert scene.look().status.value == "FAILED"
    scene.after(60)
    scene.beat(attempt=2, start_time=scene.now.isoformat())
    for restarted in (True, False, True):
        outcome = scene.look(restarted=restarted)
        assert (outcome.status.value, list(outcome.conditions), outcome.cause) == ("RUNNING", [], None)
        scene.after(30)
        scene.write("loading the model\n")
    scene.write(OOM)
    assert scene.look().status.value == "FAILED"
    assert scene.channel.events == ["FAILED", "FAILED"]


def test_a_new_attempt_s_log_is_clean_also_for_whoever_reads_the_end_of_a_long_one_alone(scene: LoggedScene) -> None:
    scene.beat(attempt=1, start_time=scene.now.isoformat())
    scene.write(steps(20_000) + OOM)
    assert scene.cold().status.value == "FAILED"
    scene.after(60)
    scene.beat(attempt=2, start_time=scene.now.isoformat())
    for _ in range(3):
        outcome = scene.cold()
        assert (outcome.status.value, outcome.cause) == ("RUNNING", None)
        scene.after(30)
        scene.write("loading the model\n" * 50)


@pytest.mark.parametrize("fault", [UnreachableError("503"), DeniedError("access denied")], ids=["down", "denied"])
def test_logs_that_cannot_be_read_change_nothing_and_are_spoken_of(scene: LoggedScene, fault: Exception) -> None:
    scene.beat()
    scene.write(steps(10))
    scene.look()

    def refuse(operation: str, key: str) -> None:
        if operation == "read" and key == f"{RUN}/{MAIN}":
            raise fault

    scene.store.before = refuse
    for _ in range(15):
        scene.after(60)
        scene.write(OOM)
        outcome = scene.look()
    assert outcome.status.value == "RUNNING", "the file that cannot be read is written, so something lives"
    assert any("could not be read" in note for note in outcome.notes)


def test_a_healthy_run_reads_only_what_is_new_and_writes_nothing(scene: LoggedScene) -> None:
    scene.beat()
    scene.write(steps(10))
    scene.look()
    scene.store.calls.clear()
    for minute in range(5):
        scene.after(60)
        scene.beat()
        scene.write(steps(10 * minute + 20, 10 * minute + 11))
        scene.look()
    assert scene.record_writes() == 0
    assert scene.store.calls.count(("read", f"{RUN}/{MAIN}")) == 5


def test_a_log_that_has_not_changed_costs_nothing(scene: LoggedScene) -> None:
    scene.write(steps(10))
    scene.minutes(2)
    scene.store.calls.clear()
    scene.minutes(3)
    assert ("read", f"{RUN}/{MAIN}") not in scene.store.calls


def test_logs_are_read_no_more_often_than_the_catalogue_wants() -> None:
    scene = LoggedScene(Policy(poll_s=3600.0))
    scene.beat()
    scene.write(steps(10))
    scene.look(restarted=False)
    scene.after(60)
    scene.write(OOM)
    assert scene.look(restarted=False).status.value == "RUNNING"
    assert scene.look().status.value == "FAILED", "a new process has not read any"


def test_a_checkpoint_line_that_does_not_come_is_missed() -> None:
    catalogue = load("megatron_production")
    rules = catalogue.absences
    if not rules:
        from lastbeat.model.signal import Absence  # noqa: PLC0415 - as long as the catalogue has no rule of its own

        rules = (Absence("checkpoint_overdue", "megatron_checkpoint_saved", 600, 600, "Look at the disk."),)
    scene = LoggedScene(Policy(absences=rules))
    scene.watch = scene.fresh_watch(signals=LogSettings(lambda: catalogue, "megatron_production"))
    limit = max(max(rule.within_s, rule.every_s) for rule in rules)
    for minute in range(int(limit // 60) + 2):
        scene.write(f" iteration {minute:8}/ 500000 | consumed samples: 1 | lm loss: 2.5E+00 |\n")
        outcome = scene.look(restarted=False)
        scene.after(60)
    assert set(outcome.conditions) >= {rule.name for rule in rules[:1]}
    assert outcome.action


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda s: s.put(MAIN, "\x00\xff" * 70_000), id="bytes"),
        pytest.param(lambda s: s.put(MAIN, "x" * 300_000), id="a line without end"),
        pytest.param(lambda s: s.put(MAIN, ""), id="nothing"),
        pytest.param(lambda s: s.put(MAIN, "\x1b[31m<!channel> Run x: SUCCEEDED\r\n" * 1000), id="tricks"),
        pytest.param(lambda s: [s.put(f"logs/rank{n}.log", steps(3)) for n in range(150)], id="a file a rank"),
    ],
)
def test_whatever_lies_in_the_logs_a_beating_run_runs(scene: LoggedScene, write: Callable[[Scene], object]) -> None:
    scene.beat()
    write(scene)
    assert scene.look().status.value == "RUNNING"
    assert scene.minutes(2).status.value == "RUNNING"


def test_a_log_that_is_read_seldom_lives_all_the_same() -> None:
    scene = LoggedScene(Policy(poll_s=36_000.0))
    for minute in range(40):
        scene.write(steps(minute + 1, minute + 1))
        assert scene.look(restarted=False).status.value == "RUNNING"
        scene.after(60)


def test_a_log_that_is_read_seldom_does_not_stand_still_for_that() -> None:
    scene = LoggedScene(Policy(poll_s=180.0, stall_s=60.0))
    for step in range(40):
        scene.write(steps(step + 1, step + 1))
        outcome = scene.look(restarted=False)
        assert (outcome.status.value, [*outcome.conditions]) == ("RUNNING", [])
        scene.after(15)


@pytest.mark.parametrize("age_s", [600.0, 7200.0, 86400.0], ids=["minutes ago", "hours ago", "yesterday"])
def test_the_log_of_an_earlier_job_fails_nobody(scene: LoggedScene, age_s: float) -> None:
    scene.put("logs/job-4711.log", steps(5) + OOM, age_s=age_s)
    for minute in range(5):
        scene.both(minute)
        scene.write(steps(10 * minute + 10, 10 * minute + 1))
        assert (scene.look().status.value, scene.channel.events) == ("RUNNING", [])
        scene.after(60)


def test_the_log_of_an_earlier_job_hides_no_crash(scene: LoggedScene) -> None:
    scene.put("logs/job-4711.log", steps(5) + OOM, age_s=86400)
    scene.both(1)
    scene.write(steps(10) + "OSError: [Errno 28] No space left on device: '/ckpt/x.pt'\n")
    scene.put("_error", "training failed")
    assert scene.look().cause == "storage"


def test_a_log_that_is_gone_counts_from_when_it_was_missed(scene: LoggedScene) -> None:
    scene.write(steps(10))
    scene.look()
    scene.after(590)
    scene.write(steps(20, 11))
    scene.look()
    scene.delete(MAIN)
    scene.look()
    for _ in range(9):
        scene.after(60)
        assert scene.look().status.value == "RUNNING"
    scene.after(120)
    outcome = scene.look()
    assert (outcome.status.value, outcome.reason[:24]) == ("TIMED_OUT", "Both heartbeats disappea")


def test_logs_that_may_not_be_read_hide_no_silence(scene: LoggedScene) -> None:
    scene.both(1)
    scene.write(steps(10))
    scene.look()

    def refuse(operation: str, key: str) -> None:
        if operation == "read" and key == f"{RUN}/{MAIN}":
            raise DeniedError("access denied")

    scene.store.before = refuse
    scene.after(700)
    scene.write(steps(20, 11))
    assert scene.look().status.value == "TIMED_OUT"
