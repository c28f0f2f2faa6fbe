"""How a child exited, in words, and the kernel's counters of OOM kills."""

import signal
from pathlib import Path

import pytest

from lastbeat.training.exec.child.exit_reason import ChildExit, OomKillCounter, first_line, sentinel_text

WORDS = [
    pytest.param(ChildExit(3), None, "train.sh ended with exit status 3", id="an exit status"),
    pytest.param(ChildExit(1), "ValueError: x", "ValueError: x (exit status 1)", id="an exception"),
    pytest.param(ChildExit(-9), "ValueError: x",
                 "train.sh was killed by SIGKILL (signal 9): often the OOM killer or the scheduler",
                 id="a kill is the message whatever was printed"),
    pytest.param(
        ChildExit(-9, oom_kills=0),
        None,
        "train.sh was killed by SIGKILL (signal 9), and its cgroup counted no OOM kill: often a person or the "
        "scheduler",
        id="a kill that was none of the OOM killer's",
    ),
    pytest.param(
        ChildExit(137, oom_kills=0),
        None,
        "train.sh ended with exit status 137 (128 + 9: one of its processes was killed by SIGKILL); its cgroup counted "
        "no OOM kill",
        id="nor was that of what a script had started",
    ),
    pytest.param(
        ChildExit(-9, oom_kills=1),
        None,
        "train.sh was killed by SIGKILL (signal 9): the kernel's OOM killer (oom-kill) killed it: the host is out of "
        "memory, or the job reached its memory limit",
        id="out of memory",
    ),
    pytest.param(
        ChildExit(137, oom_kills=2),
        None,
        "train.sh ended with exit status 137 (128 + 9: one of its processes was killed by SIGKILL); the kernel's OOM "
        "killer (oom-kill) killed one of its processes: out of memory",
        id="out of memory below a shell",
    ),
    pytest.param(ChildExit(-40), None, "train.sh was killed by signal 40", id="a signal without a name"),
    pytest.param(ChildExit(0, signals=(signal.SIGUSR1, signal.SIGTERM)), None,
                 "Cancelled: received signal 15 (SIGTERM); train.sh ended with exit status 0", id="told to stop"),
    pytest.param(ChildExit(-2), "KeyboardInterrupt",
                 "Cancelled: received signal 2 (SIGINT, KeyboardInterrupt); train.sh was killed by SIGINT (signal 2)",
                 id="Ctrl-C on a terminal of its own"),
]  # fmt: skip


@pytest.mark.parametrize(("child_exit", "error", "line"), WORDS)
def test_the_first_line(child_exit: ChildExit, error: str | None, line: str) -> None:
    assert first_line(child_exit, "train.sh", error) == line


def test_the_rest_is_what_was_printed() -> None:
    assert sentinel_text(ChildExit(3), "x", None, "a\nb").splitlines()[1:] == [
        "",
        "The last lines of its output:",
        "a",
        "b",
    ]
    assert sentinel_text(ChildExit(3), "x", None, "").splitlines()[1:] == ["", "It printed nothing."]


TAILS = [
    pytest.param("failed (exitcode: -9) local_rank: 1 (pid: 7)", True, id="torchrun"),
    pytest.param("exitcode: 1", False, id="an error of its own"),
]


@pytest.mark.parametrize(("tail", "told"), TAILS)
def test_that_no_oom_kill_was_counted_is_told_where_a_process_was_killed(tail: str, told: bool) -> None:
    first = sentinel_text(ChildExit(1, oom_kills=0), "torchrun", "ChildFailedError:", tail).splitlines()[0]
    assert first == f"ChildFailedError: (exit status 1{'; its cgroup counted no OOM kill' if told else ''})"
    unknown = sentinel_text(ChildExit(1), "torchrun", "ChildFailedError:", tail).splitlines()[0]
    assert "OOM" not in unknown, "unknown is not zero"


GOOD = [
    pytest.param(ChildExit(0, oom_kills=1), True, id="exit 0 although a helper process was killed"),
    pytest.param(ChildExit(0, signals=(signal.SIGTERM,)), False, id="exit 0 when told to stop"),
    pytest.param(ChildExit(1), False, id="exit 1"),
]


@pytest.mark.parametrize(("child_exit", "well"), GOOD)
def test_what_ended_well(child_exit: ChildExit, well: bool) -> None:
    assert child_exit.succeeded == well


TREES = [
    pytest.param("0::/job/step\n", "job/step/memory.events", id="version 2"),
    pytest.param("9:cpu:/\n0::/job\n", "unified/job/memory.events", id="version 2 beside version 1"),
    pytest.param("4:cpu,memory:/slurm/job_7\n", "memory/slurm/job_7/memory.oom_control", id="version 1"),
]


@pytest.mark.parametrize(("membership", "counter"), TREES)
def test_kills_are_counted_from_the_first_look(tmp_path: Path, membership: str, counter: str) -> None:
    process = tmp_path / "proc" / "7"
    process.mkdir(parents=True)
    (process / "cgroup").write_text(membership)
    file = tmp_path / "cgroups" / counter
    file.parent.mkdir(parents=True)
    file.write_text("low 0\nmax 9\noom 5\noom_kill 5\noom_group_kill 0\n")
    kills = OomKillCounter(tmp_path / "cgroups", tmp_path / "proc")
    kills.watch(7)
    kills.watch(7)
    assert kills.count == 0
    file.write_text("oom 6\noom_kill 6\n")
    kills.watch(7)
    assert kills.count == 1


@pytest.mark.parametrize("text", ["", "oom_kill many\n", "::::\n0::\n"])
def test_without_counters_nobody_knows(tmp_path: Path, text: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(text)
    (tmp_path / "memory.events").write_text(text)
    kills = OomKillCounter(tmp_path, tmp_path)
    kills.watch(7)
    kills.watch(8)
    assert kills.count is None


def test_a_counter_that_is_gone_says_nothing_any_more_but_what_another_saw_counts(tmp_path: Path) -> None:
    for process, group in (("7", "one"), ("8", "two")):
        (tmp_path / process).mkdir()
        (tmp_path / process / "cgroup").write_text(f"0::/{group}\n")
        (tmp_path / group).mkdir()
        (tmp_path / group / "memory.events").write_text("oom_kill 0\n")
    kills = OomKillCounter(tmp_path, tmp_path)
    kills.watch(7)
    kills.watch(8)
    assert kills.count == 0
    (tmp_path / "one" / "memory.events").unlink()
    assert kills.count is None
    (tmp_path / "two" / "memory.events").write_text("oom_kill 2\n")
    assert kills.count == 2
