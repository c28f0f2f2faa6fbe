"""What becomes of a command that has ended: what its policy says, how often, and how soon."""

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.signals import loading as catalogues
from lastbeat.jobs.restarts.loading import RECOMMENDED, load
from lastbeat.model.in_place import InPlace
from lastbeat.model.rerun import RerunReport
from lastbeat.model.restart import JobEnd, Mode, RestartDecision, RestartEntry
from lastbeat.model.stop_request import StopRequest
from lastbeat.training.exec.child.exit_reason import ChildExit
from lastbeat.training.exec.in_place.ends import LONGEST_PAUSE_S, HowItEnded, explained, job_end, pause_s, ruled, within
from lastbeat.training.exec.in_place.looking import LeftBehind, RankError, StoreLook
from support.flight_dumps import WORLD, Step, write
from support.memory import MemoryStore
from support.missing_ranks import TIMED_OUT
from support.there import there

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
NCCL = b"step 7/100 loss 2.5\nRuntimeError: NCCL error: unhandled system error\n"
OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
HUNG = ChildExit(-15)


def rank(number: int, text: str) -> RankError:
    return RankError(f"ranks/{number}.error", NOW, text)


def entry(first_step: bool | None = True, checkpoint: int | None = None, minutes: float = 60) -> RestartEntry:
    at = NOW - timedelta(minutes=minutes)
    return RestartEntry(at, Mode.CRASH, "nccl", f"nccl {minutes}", 7, checkpoint, "vm", None, first_step)


ROWS = [
    pytest.param(HowItEnded(ChildExit(1), text=NCCL), True, "Transient failure detected", id="an NCCL error"),
    pytest.param(HowItEnded(ChildExit(1), text=OOM), False, "excluded error_type: oom", id="out of GPU memory"),
    pytest.param(HowItEnded(ChildExit(1), left=LeftBehind(True, errors=(rank(3, OOM.decode()),))), False, "oom",
                 id="as a rank said that printed nothing here"),
    pytest.param(HowItEnded(ChildExit(-9, oom_kills=1), text=NCCL[:20],
                            error="python was killed by SIGKILL (signal 9): the kernel's OOM killer (oom-kill) "
                                  "killed it: the host is out of memory"),
                 False, "oom", id="killed for its memory"),
    pytest.param(HowItEnded(ChildExit(1), text=b"ValueError: shapes differ\n"), False, "", id="an error of the code"),
    pytest.param(HowItEnded(ChildExit(93), text=NCCL), False, "asks not to be restarted", id="exit status 93"),
    pytest.param(HowItEnded(ChildExit(17), text=NCCL), False, "wrong result", id="exit status 17"),
    pytest.param(HowItEnded(ChildExit(16), text=NCCL), False, "in another job", id="exit status 16"),
    pytest.param(HowItEnded(ChildExit(1), text=NCCL, left=LeftBehind(True, rerun=RerunReport((), 16))), False,
                 "exit status 16", id="which its launcher has turned into another"),
    pytest.param(HowItEnded(ChildExit(1), text=NCCL, left=LeftBehind(True, rerun=RerunReport())), True,
                 "Transient", id="re-runs that have nothing to do with its end"),
    pytest.param(HowItEnded(ChildExit(1, signals=(15,)), text=NCCL), False, "a person ended", id="SIGTERM to exec"),
    pytest.param(HowItEnded(ChildExit(1), text=NCCL, left=LeftBehind(True, asked=StopRequest("ann@gpu7", NOW))), False,
                 "stopped by ann@gpu7", id="lastbeat stop"),
    pytest.param(HowItEnded(ChildExit(1), text=NCCL, left=LeftBehind(True, "_complete")), False, "had ended already",
                 id="it was done, and then crashed"),
    pytest.param(HowItEnded(HUNG, "step for 5m (limit 2m)", text=b"step 7/100\n"), True, "error_type=hang", id="hung"),
    pytest.param(HowItEnded(None, "step for 5m (limit 2m)"), False, "could not be ended", id="a process that stays"),
]  # fmt: skip


@pytest.mark.parametrize(("ended", "restarted", "reason"), ROWS)
def test_what_is_started_again(ended: HowItEnded, restarted: bool, reason: str) -> None:
    end = job_end(ended, explained(ended, catalogues.load(catalogues.DEFAULT)))
    decision = ruled(load(RECOMMENDED), ended, end, (), NOW)
    assert (decision.restart, reason in decision.reason) == (restarted, True), decision.reason


def test_what_a_start_said_of_its_hardware_is_read_and_no_other_starts() -> None:
    store, ours = MemoryStore(), InPlace("job-1", 1, 2, 90.0)
    store.put_text("run-1/metadata.json", json.dumps({**ours.fields(), **RerunReport((), 16).fields()}))
    assert there(StoreLook(store, "run-1", ours, 0.0).left_behind().rerun).exit_code == 16
    assert StoreLook(store, "run-1", replace(ours, token="job-2"), 0.0).left_behind().rerun is None


LIMITS = [
    pytest.param((entry(),), 1, False, id="no second one of one"),
    pytest.param(tuple(entry(minutes=m) for m in (30, 20, 10)), 9, False, id="the policy's three in a row hold, too"),
    pytest.param(tuple(entry(checkpoint=c, minutes=m) for c, m in ((1, 30), (2, 20), (3, 10))), 9, True,
                 id="which checkpoints give back"),
]  # fmt: skip


@pytest.mark.parametrize(("history", "most", "restarted"), LIMITS)
def test_how_often(history: tuple[RestartEntry, ...], most: int, restarted: bool) -> None:
    end = JobEnd(Mode.CRASH, "nccl", cause_key="nccl now", checkpoint_step=4)
    ended = HowItEnded(ChildExit(1))
    decision = ruled(load(RECOMMENDED), ended, end, history, NOW)
    assert within(decision, len(history), most).restart is restarted


@given(made=st.integers(0, 2000), most=st.integers(1, 1000))
def test_no_more_than_are_allowed_however_many_are_remembered(made: int, most: int) -> None:
    decision = RestartDecision(restart=True, reason="")
    assert within(decision, made, most).restart is (made < most)


QUICK, WELL = JobEnd(Mode.CRASH, "nccl", first_step=False), JobEnd(Mode.CRASH, "nccl", first_step=True)
PAUSES = [
    pytest.param((), WELL, 3.0, 0.0, id="one that made steps is started at once"),
    pytest.param((), QUICK, 3.0, 1.0, id="one that failed at once waits a moment"),
    pytest.param((entry(False),), QUICK, 3.0, 2.0, id="the next one longer"),
    pytest.param((entry(False), entry(True), entry(False)), QUICK, 3.0, 2.0, id="counted since it last made steps"),
    pytest.param((entry(False),) * 30, QUICK, 3.0, LONGEST_PAUSE_S, id="and never for longer than a minute"),
]


@pytest.mark.parametrize(("history", "end", "lived_s", "found"), PAUSES)
def test_how_soon(history: tuple[RestartEntry, ...], end: JobEnd, lived_s: float, found: float) -> None:
    assert pause_s(history, end, lived_s) == found


def test_dumps_of_flight_recorders_outrank_the_word_of_a_rank_that_waited(tmp_path: Path) -> None:
    """Those of an earlier start do not count."""
    steps = {each: [Step(), Step()] if each != 2 else [Step()] for each in range(4)}
    write(tmp_path, steps, {WORLD: range(4)}, name="rank_{rank}")
    timed_out = TIMED_OUT.format(rank=0, digit=0).encode()
    for began, named in ((0.0, 2), (4e9, 0)):
        ended = HowItEnded(ChildExit(-6), text=timed_out, dumps=tmp_path, began=began)
        why = explained(ended, catalogues.load(catalogues.DEFAULT))
        assert there(why.cause).evidence.rank == named
        assert job_end(ended, why).error_type == "nccl_timeout"
    gone = HowItEnded(ChildExit(-6), dumps=tmp_path / "gone")
    assert explained(gone, catalogues.load(catalogues.DEFAULT)).stuck is None
