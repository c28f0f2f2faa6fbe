"""What a run's logs say, from look to look and at an event: each line once, within bounds, for its attempt alone."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.signals.loading import load
from lastbeat.model.cause import NOTHING
from lastbeat.model.log_report import LogReport
from lastbeat.model.signal import Catalogue
from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.watch.observe.listing import run_files
from lastbeat.watch.observe.logs import LogReadLimits, RunLogs
from support.memory import MemoryStore
from support.run_logs import CRASH, MAIN, RUN, LogScene, kept, steps
from support.there import there


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
    for rank in range(24):
        run.put(f"logs/rank{rank}.log", steps(0, 1000))
    left = 24
    while left:
        report = run.look()
        assert len(report.unread) < left
        left = len(report.unread)
        assert bool(report.notes) is bool(left)
    assert run.look().step == 999


def test_more_logs_than_are_read_are_said_to_be_left_out() -> None:
    run = LogScene()
    for rank in range(300):
        run.put(f"logs/rank{rank}.log", steps(0, 2))
    report = run.look()
    assert run.reads == 64
    assert "32 or more of them are not read" in report.notes[0]


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


def test_secrets_do_not_leave() -> None:
    run = LogScene(mask={"hunter22": "***"})
    run.put("logs/rank0.log", f"RuntimeError: hunter22 was refused, token hf_{'a' * 34}\n" + "\x1b[31mOops\n")
    told = repr(run.look()) + repr(run.logs.explain(run_files(run.store, RUN), "ValueError: hunter22"))
    assert "RuntimeError" in told
    assert "hunter22" not in told
    assert "hf_aaa" not in told
    assert "\\x1b" not in told


def test_nor_does_one_in_the_name_of_a_peer() -> None:
    run = LogScene(mask={"hunter22": "***"})
    run.put(
        "logs/rank0.log",
        "n1:1:2 [0] misc/socket.cc:50 NCCL WARN Connection closed by remote peer hunter22<4711>\nAborted\n",
    )
    found = run.logs.explain(run_files(run.store, RUN), None)
    assert found.peer is not None
    assert "hunter22" not in repr(found)


def test_the_closer_reading_goes_further_back_than_the_looks() -> None:
    run = LogScene()
    text = CRASH + "still shutting down, one line after the other\n" * 10_000
    run.put("logs/rank0.log", text)
    assert run.look().explanation.cause is None
    found = run.logs.explain(run_files(run.store, RUN), None)
    assert found.cause is not None
    assert (found.cause.error_type, found.cause.evidence.line) == ("oom", 4)


def test_the_closer_reading_is_bounded_and_leaves_nobody_out() -> None:
    run = LogScene(LogReadLimits(file_bytes=1000, look_bytes=10_000, deep_file_bytes=50_000, deep_bytes=200_000))
    for rank in range(20):
        run.put(f"logs/rank{rank}.log", "quiet\n" * 100_000 + (CRASH if rank == 13 else ""))
    read = 0
    plain = run.store.read

    class Measured(MemoryStore):
        def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0):  # type: ignore[no-untyped-def]
            nonlocal read
            blob = plain(key, limit_bytes, from_end=from_end, start=start)
            read += len(blob.body) if blob is not None else 0
            return blob

    run.logs._store = Measured()
    found = run.logs.explain(run_files(run.store, RUN), None)
    assert there(found.cause).evidence.rank == 13
    assert read < 250_000


OTHER = "logs/rank3.log"
Damage = Callable[[dict[str, Any]], None]
DAMAGED = [
    pytest.param(lambda reader: reader.update(splitter=7), id="something else stands there"),
    pytest.param(lambda reader: reader.pop("parser"), id="a part of it is gone"),
]


def tripped(damage: Damage) -> LogScene:
    """Two logs, of which one trips whoever asks what it said."""
    run = LogScene()
    run.put(MAIN, steps(0, 10))
    run.put(OTHER, steps(0, 5))
    run.look()
    document = kept(run.logs)
    damage(next(file["reader_document"] for file in document["files"] if file["name"] == OTHER))
    run.logs = run.fresh()
    run.logs.restore(document)
    return run


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_log_that_cannot_be_understood_hides_no_other(damage: Damage) -> None:
    run = tripped(damage)
    run.store.pass_time(60)
    run.put(MAIN, steps(0, 20) + CRASH)
    report = run.look()
    assert (report.step, report.written_at) == (19, run.store.now)
    assert there(report.explanation.cause).error_type == "oom"
    assert report.unread == (OTHER,)
    assert any(OTHER in note and "could not be understood" in note for note in report.notes)
    assert there(run.logs.explain(run_files(run.store, RUN), None).cause).error_type == "oom"
    run.store.pass_time(60)
    run.put(OTHER, steps(0, 30))
    assert (run.look().step, run.look().unread) == (29, ()), "and it goes on from there"


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_new_attempt_can_begin(damage: Damage) -> None:
    run = tripped(damage)
    run.logs.begin_attempt(2)
    run.logs.begin_attempt(3)
    assert run.look().explanation == NOTHING


_LINES = (
    "step {}/1000 loss 2.5\n",
    "loading shard {}\n",
    " 45%|████      | {}/1000 [00:10<00:12, 8.1it/s]\r",
    "[rank{}]: RuntimeError: CUDA error: an illegal memory access was encountered\n",
    CRASH,
    "[rank{}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2006, remote process exited\n",
    "slurmstepd: error: *** STEP {}.0 ON node1 CANCELLED AT 2026-01-01T11:00:00 DUE TO TIME LIMIT ***\n",
    "no end {}",
)
_deeds = st.one_of(
    st.tuples(st.just("write"), st.integers(0, len(_LINES) - 1)),
    st.tuples(st.sampled_from(["grow", "grow", "window", "look", "restart", "fail"]), st.just(0)),
)


@given(st.lists(_deeds, max_size=40))
def test_looks_find_what_one_whole_reading_finds(deeds: list[tuple[str, int]]) -> None:
    run, text, shipped, seen = LogScene(), "", 0, 0
    for number, (what, kind) in enumerate(deeds):
        if what == "write":
            text += _LINES[kind].format(number)
        elif what in {"grow", "window"}:
            # Whole lines: what has not been seen, and something before it.
            cut = text.rfind("\n", 0, max(0, seen - 400)) + 1
            run.put(MAIN, text[cut if what == "window" else 0 :])
            shipped = len(text)
        else:
            if what == "fail":
                run.store.refuse("read", UnreachableError("no answer"))
            if not run.look(restarted=what == "restart").unread and f"{RUN}/{MAIN}" in run.store.held:
                seen = shipped
            run.store.heal()
    run.put(MAIN, text)
    run.look()
    report = run.look()
    whole = LogScene()
    whole.put(MAIN, text)
    whole.look()
    expected = whole.look()
    assert (report.step, report.loss, report.explanation) == (expected.step, expected.loss, expected.explanation)
    files = run_files(run.store, RUN)
    assert run.logs.explain(files, None) == whole.logs.explain(files, None)
