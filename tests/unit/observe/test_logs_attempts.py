"""Text counts for the attempt that wrote it."""

from datetime import datetime, timedelta

import pytest

from lastbeat.model.log_report import LogReport
from lastbeat.watch.observe.listing import run_files
from lastbeat.watch.observe.logs import LogReadLimits
from support.run_logs import CRASH, MAIN, RUN, LogScene, steps


def test_what_an_earlier_attempt_wrote_counts_for_nothing_once_a_new_one_began() -> None:
    run = LogScene()
    run.logs.begin_attempt(1)
    run.put(MAIN, steps(0, 10) + CRASH)
    assert run.look().explanation.cause is not None
    run.logs.begin_attempt(1)
    assert run.look().explanation.cause is not None
    run.logs.begin_attempt(2)
    assert run.look(restarted=True) == LogReport()
    assert run.logs.explain(run_files(run.store, RUN), None).cause is None
    run.put(MAIN, steps(0, 10) + CRASH + "starting\n" + CRASH)
    report = run.look(restarted=True)
    assert report.explanation.cause is not None
    assert report.explanation.cause.evidence.line == 10 + 4 + 1 + 4
    deep = run.logs.explain(run_files(run.store, RUN), None)
    assert deep.cause == report.explanation.cause


@pytest.mark.parametrize("name", [MAIN, "logs/slurm-2.out"])
def test_what_a_new_attempt_wrote_into_a_file_of_its_own_is_its_own(name: str) -> None:
    run = LogScene()
    run.logs.begin_attempt(1)
    run.put(MAIN, steps(0, 100) + CRASH)
    run.look()
    run.put(name, "begun again\nModuleNotFoundError: No module named 'apex'\n")
    run.look()
    run.logs.begin_attempt(2)
    for _ in range(2):
        cause = run.look(restarted=True).explanation.cause
        assert cause is not None
        assert (cause.error_type, cause.evidence.file) == ("environment", name)
    run.logs.begin_attempt(3)
    assert run.look() == LogReport()


def test_the_deep_reading_does_not_read_back_into_an_earlier_attempt() -> None:
    run = LogScene(LogReadLimits(file_bytes=3000))
    run.put(MAIN, CRASH)
    run.look()
    run.logs.begin_attempt()
    run.put(MAIN, CRASH + "x" * 60 + "\n" + "no error here\n" * 1000)
    report = run.look()
    assert "skipped" in report.notes[0]
    assert run.logs.explain(run_files(run.store, RUN), None).cause is None


def _stamped(at: datetime, zone: str, text: str) -> str:
    return "".join(f"{at:%Y-%m-%d %H:%M:%S}{zone} {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("zone_h", "age_h", "named", "counts", "alone"),
    [
        pytest.param(0, 0.0, "", True, True, id="of this attempt"),
        pytest.param(0, 5.2, "", False, True, id="of an earlier one, or in another zone's time"),
        pytest.param(0, 5.2, "+00:00", False, False, id="of an earlier one, by a time with its zone"),
        pytest.param(0, 50.0, "", False, False, id="of the day before yesterday"),
        pytest.param(-7, 0.0, "", True, True, id="of this attempt, in another zone's time"),
        pytest.param(-7, 3.0, "", False, True, id="of an earlier one, in another zone's time"),
        pytest.param(8, 0.0, "", True, True, id="of this attempt, in a zone far in the east"),
        pytest.param(8, 3.0, "", False, True, id="of an earlier one, in a zone far in the east"),
    ],
)
def test_lines_with_times_tell_whose_they_are(
    zone_h: float, age_h: float, named: str, *, counts: bool, alone: bool
) -> None:
    """``alone``: where nothing newer stands behind them that shows what zone the times are of."""
    run = LogScene()
    since = run.store.now - timedelta(minutes=30)
    local = run.store.now + timedelta(hours=zone_h)
    text = _stamped(local - timedelta(hours=age_h, minutes=20), named, "RuntimeError: CUDA error: out of memory\n" * 3)
    run.put(MAIN, text + _stamped(local - timedelta(seconds=10), named, "hello\n"))
    found = run.look(since).explanation
    assert (found.cause is not None) is counts
    run.put(MAIN, text)
    assert (run.logs.explain(run_files(run.store, RUN), None, since).cause is not None) is alone


def test_a_log_that_was_stored_before_the_attempt_is_not_of_it_until_it_grows() -> None:
    run = LogScene()
    run.put("logs/slurm-1.out", CRASH, age_s=3600)
    since = run.store.now - timedelta(seconds=600)
    assert run.look(since) == LogReport()
    assert run.logs.explain(run_files(run.store, RUN), None, since).cause is None
    assert run.look(since, restarted=True) == LogReport()
    assert run.reads == 0
    run.put("logs/slurm-1.out", CRASH + steps(0, 3))
    report = run.look(since)
    assert (report.step, report.explanation.cause) == (2, None)
