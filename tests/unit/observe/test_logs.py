"""What a run's logs say, from look to look: each line once, within bounds."""

import pytest

from lastbeat.explain.signals.loading import load
from lastbeat.model.log_report import LogReport
from lastbeat.model.signal import Catalogue
from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.watch.observe.listing import run_files
from lastbeat.watch.observe.logs import LogReadLimits, RunLogs
from support.run_logs import CRASH, MAIN, RUN, LogScene, steps


@pytest.mark.parametrize("restarted", [False, True])
def test_steps_are_told_with_the_time_at_which_they_were_first_there(restarted: bool) -> None:
    run = LogScene()
    run.put(MAIN, steps(0, 10))
    began = run.store.now
    report = run.look(restarted=restarted)
    assert (report.step, report.total_steps, report.loss) == (9, 10000, 2.5)
    assert report.progress_at == report.written_at == began
    run.store.pass_time(60)
    run.put(MAIN, steps(0, 10) + "saving a checkpoint\n")
    report = run.look(restarted=restarted)
    assert (report.progress_at, report.written_at) == (began, run.store.now)
    run.store.pass_time(60)
    assert run.look(restarted=restarted) == report
    run.put(MAIN, steps(0, 10) + "saving a checkpoint\n" + steps(10, 5))
    report = run.look(restarted=restarted)
    assert (report.step, report.progress_at) == (14, run.store.now)


def test_logs_that_have_not_changed_cost_nothing_and_one_that_grew_one_read() -> None:
    run = LogScene()
    for rank in range(8):
        run.put(f"logs/rank{rank}.log", steps(0, 10))
    run.look()
    assert run.reads == 8
    run.look()
    assert run.reads == 0
    run.put("logs/rank3.log", steps(0, 12))
    run.look(restarted=True)
    assert run.reads == 1


def test_no_logs_say_nothing() -> None:
    run = LogScene()
    run.put("metadata.json", "{}")
    assert run.look() == LogReport()
    run.put(MAIN, "")
    assert run.look() == LogReport(empty_at=run.store.now)
    assert run.logs.explain(run_files(run.store, RUN), None).cause is None


@pytest.mark.parametrize("restarted", [False, True])
def test_a_crash_is_seen_with_its_line_file_and_rank_and_stays_seen(restarted: bool) -> None:
    run = LogScene()
    run.put("logs/rank3.log", steps(0, 10))
    assert run.look().explanation.cause is None
    run.put("logs/rank3.log", steps(0, 10) + CRASH)
    for _ in range(3):
        report = run.look(restarted=restarted)
        cause = report.explanation.cause
        assert cause is not None
        assert (cause.error_type, report.explanation.ended) == ("oom", True)
        assert (cause.evidence.file, cause.evidence.line, cause.evidence.rank) == ("logs/rank3.log", 14, 3)


@pytest.mark.parametrize("error", [UnreachableError("no answer"), DeniedError("not allowed", "ask")])
def test_what_cannot_be_read_is_said_and_changes_nothing(error: Exception) -> None:
    run = LogScene()
    run.put(MAIN, steps(0, 10))
    run.put("logs/rank3.log", steps(0, 10))
    before = run.look()
    run.put("logs/rank3.log", steps(0, 20))

    run.store.refuse("read", error, named="rank3")
    report = run.look()
    assert report.unread == ("logs/rank3.log",)
    assert str(error) in report.notes[0]
    assert (report.step, report.progress_at) == (before.step, before.progress_at)
    run.logs.explain(run_files(run.store, RUN), None)
    run.store.heal()
    report = run.look()
    assert (report.step, report.unread, report.notes) == (19, (), ())


def test_one_log_that_trips_what_understands_text_does_not_hide_the_others(caplog: pytest.LogCaptureFixture) -> None:
    run = LogScene()
    asked = 0

    def catalogue() -> Catalogue:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise RecursionError
        return load("default")

    run.logs = RunLogs(run.store, RUN, catalogue)
    for rank in range(3):
        run.put(f"logs/rank{rank}.log", steps(0, 10))
    report = run.look()
    assert (report.step, report.unread) == (9, ("logs/rank0.log",))
    assert "could not be understood" in report.notes[0]
    assert "could not be understood" in caplog.text
    assert run.look().unread == ()


def test_a_look_reads_no_more_than_it_may_and_comes_to_everybody() -> None:
    run = LogScene(LogReadLimits(file_bytes=20_000, look_bytes=100_000))
    for rank in range(64):
        run.put(f"logs/rank{rank}.log", steps(0, 2000))
    left = 64
    while left:
        report = run.look()
        assert len(report.unread) < left
        left = len(report.unread)
        assert bool(report.notes) is bool(left)
    assert run.look().step == 1999


def test_a_look_without_time_asks_for_nothing() -> None:
    run = LogScene(LogReadLimits(look_s=0.0))
    run.put(MAIN, steps(0, 10))
    report = run.look()
    assert (run.reads, report.unread) == (0, (MAIN,))


def test_more_logs_than_are_read_are_said_to_be_left_out() -> None:
    run = LogScene()
    for rank in range(300):
        run.put(f"logs/rank{rank}.log", steps(0, 2))
    report = run.look()
    assert run.reads == 64
    assert "32 or more of them are not read" in report.notes[0]


def test_a_file_that_a_listing_leaves_out_is_not_gone() -> None:
    run = LogScene()
    run.put("logs/rank3.log", CRASH)
    run.put(MAIN, steps(0, 2))
    files = run_files(run.store, RUN)
    cause = run.logs.look(files).explanation.cause
    run.put(MAIN, steps(0, 3))
    files = {MAIN: run_files(run.store, RUN)[MAIN]}
    assert cause is not None
    assert run.logs.look(files).explanation.cause == cause
