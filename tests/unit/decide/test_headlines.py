"""The line that says why a run failed, where a launcher's own error only repeats an exit status."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.cause import Cause, Evidence, Explanation
from lastbeat.watch.decide.headline import failure_line, headline, repeats_an_exit
from lastbeat.watch.decide.transition import with_explanation
from support.logged import Watched
from support.there import there

SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x128 and 64x10)"
ELASTIC = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
TABLE = """
The last lines of its output:
E1122 10:00:10.400000 140 torch/distributed/elastic/api.py:869] failed (exitcode: -9) local_rank: 1 (pid: 152) of x
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_10:00:10
  host      : node-7
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 152)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 152
============================================================
"""
COMMAND = "Command '['/opt/venv/bin/python', '-u', 'train.py', '--data', '/very/long" + "/path" * 90 + "']'"

WRAPPERS = [
    pytest.param(f"{ELASTIC} (exit status 1)", id="torchrun under exec"),
    pytest.param(ELASTIC, id="torchrun, whose own stderr is _error"),
    pytest.param("ChildFailedError:", id="the same without its module"),
    pytest.param(f"subprocess.CalledProcessError: {COMMAND} returned non-zero exit status 1. (exit status 1)",
                 id="accelerate launch, however long its command"),
    pytest.param("subprocess.CalledProcessError: Command 'python t.py' died with <Signals.SIGSEGV: 11>.",
                 id="a script that ran training with subprocess"),
    pytest.param("deepspeed ended with exit status 1", id="deepspeed's launcher, which prints no exception"),
    pytest.param("train.sh ended with exit status 137 (128 + 9: one of its processes was killed by SIGKILL)",
                 id="a shell script"),
    pytest.param("python was killed by SIGABRT (signal 6): it aborted: a failed assertion or allocation",
                 id="an abort, which somebody announced"),
    pytest.param("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
                 id="torch's spawn"),
    pytest.param("SystemExit: 1 (exit status 1)", id="sys.exit in a wrapper"),
]  # fmt: skip
OWN = [
    pytest.param(f"{SHAPES} (exit status 1)", id="an exception of training's own"),
    pytest.param("torch.OutOfMemoryError: CUDA out of memory.", id="out of memory"),
    pytest.param("python was killed by SIGKILL (signal 9): often the OOM killer or the scheduler", id="a kill"),
    pytest.param(
        "SystemExit: training ended with exit status 3", id="an exit status that training chose, told by itself"
    ),
    pytest.param("SystemExit: the tokenizer is not there", id="sys.exit with a message"),
    pytest.param("Cancelled: received signal 15 (SIGTERM); torchrun ended with", id="a cancellation"),
    pytest.param("ValueError: ChildFailedError: is what I expected", id="a message that names a wrapper's class"),
    pytest.param("", id="an empty one"),
]


def cause(text: str, kind: str = "exception", rank: int | None = None) -> Cause:
    return Cause(kind, Evidence("logs/training_log_latest.txt", 14, text, rank), 0.8)


@pytest.mark.parametrize("line", WRAPPERS)
def test_a_wrappers_error_gives_way_to_the_cause(line: str) -> None:
    assert repeats_an_exit(line)
    assert there(headline(f"{line}\n\nmore", cause(f"[rank1]: {SHAPES}", rank=1), 300)).startswith(f"{SHAPES} (rank 1")


@pytest.mark.parametrize("line", OWN)
def test_what_training_itself_said_stays(line: str) -> None:
    assert not repeats_an_exit(line)
    assert headline(f"{line}\n\nmore", cause(SHAPES), 300) is None


@pytest.mark.parametrize(
    ("text", "found", "told"),
    [
        pytest.param(f"{ELASTIC} (exit status 1)", cause(SHAPES), f"{SHAPES} (exit status 1)",
                     id="the launcher's exit status is kept"),
        pytest.param(f"{ELASTIC} (exit status 1)", cause(f"[rank3]: {SHAPES}", rank=3),
                     f"{SHAPES} (rank 3; exit status 1)", id="the rank goes before it"),
        pytest.param(f"{ELASTIC} (exit status 1)\n{TABLE}", cause("  exitcode  : -9 (pid: 152)", "oom"),
                     "rank 1 on node-7 was killed by SIGKILL (exit status 1)",
                     id="a rank that said nothing is named by the launcher's table"),
        pytest.param(f"{ELASTIC} (exit status 1)\n{TABLE}", cause("Out of memory: Killed process 152 (python)", "oom"),
                     "Out of memory: Killed process 152 (python) (exit status 1)",
                     id="what the kernel says goes before that"),
        pytest.param(f"{ELASTIC} (exit status 1)", cause("  exitcode  : -9 (pid: 152)", "oom"), None,
                     id="without the table nothing is made up"),
        pytest.param("sh ended with exit status 137 (128 + 9: one of its processes was killed by SIGKILL)",
                     cause("./run.sh: line 3:  4711 Killed                  python train.py", "oom"), None,
                     id="what a shell says of a kill says no more"),
        pytest.param(f"{ELASTIC} (exit status 1)", cause(f"{ELASTIC} "), None,
                     id="a cause that is the wrapper's own line says no more"),
        pytest.param(f"{ELASTIC} (exit status 1)", cause("something", "unknown"), None, id="an unknown cause neither"),
        pytest.param(f"{ELASTIC} (exit status 1)", None, None, id="nor none"),
        pytest.param("Traceback (most recent call last):\n  File \"x\"\nsubprocess.CalledProcessError: Command 'x' "
                     "returned non-zero exit status 3.", cause(SHAPES), f"{SHAPES} (exit status 3)",
                     id="a bare traceback of a wrapper ends in its message"),
    ],
)  # fmt: skip
def test_what_stands_at_the_top(text: str, found: Cause | None, told: str | None) -> None:
    assert headline(text, found, 300) == told


@given(st.text(max_size=300), st.text(max_size=600), st.integers(20, 400))
def test_it_is_bounded_and_one_line_whatever_was_printed(error: str, line: str, limit: int) -> None:
    told = headline(f"{ELASTIC} (exit status 1)\n{error}", cause(line), limit)
    assert told is None or (len(told) <= limit and "\n" not in told and "\x1b" not in told)
    assert "\n" not in failure_line(error)


def test_people_read_the_cause_at_the_first_look_and_at_all_later_ones() -> None:
    run = Watched().beat(thread_error="Thread-3: OSError: gone")
    run.look()
    run.after(30).end("error", f"{ELASTIC} (exit status 1)\n{TABLE}").look()
    assert run.last is not None
    told = with_explanation(run.last, Explanation(cause(f"[rank1]: {SHAPES}", rank=1)))
    said = f"{SHAPES} (rank 1; exit status 1); a thread of it had ended with an exception: Thread-3: OSError: gone"
    assert [told.verdict.reason, told.record.reason, there(told.transition).reason] == [said] * 3
    run.record = told.record
    run.after(60).look()
    assert run.last.verdict.reason == said
    assert run.last.transition is None


def test_it_says_nothing_of_a_time_that_a_run_was_not_failed() -> None:
    run = Watched().beat()
    run.look()
    assert run.last is not None
    assert run.last.transition is not None
    told = with_explanation(run.last, Explanation(cause(SHAPES)))
    assert there(told.transition).reason == run.last.transition.reason
