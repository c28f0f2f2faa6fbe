"""Trainings that end without a word, and what is told of them within moments: their guardian has seen it."""

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from support.cgroup import counts_oom_kills, memory_cgroup
from support.checkout import ROOT
from support.guardians import guardians, resident_bytes
from support.training import LIMIT_S, Site, end
from support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="guardians are for Linux alone")

KILLER = "unknown" if counts_oom_kills() else "oom"
START = """\
import ctypes, os, signal, sys, threading, time
import lastbeat
def told(run):
    while run._reporter._written_steps < run.steps:
        time.sleep(0.005)
"""
BLOCK = START + 'with lastbeat.run("run-1", total_steps=10) as run:\n    run.step(2)\n    told(run)\n'
GUARDED = "    while run._reporter._environment.guard._line.answer() is None:\n        time.sleep(0.005)\n"
"""How it goes on once its guardian is there: until then kernels before 6.16 may not say how it ended."""
RANK = START + 'with lastbeat.run("run-1", total_steps=10) as run:\n    run.step(2)\n'
ASLEEP = BLOCK + "    print('asleep', flush=True)\n    time.sleep(600)\n"


RANK += (
    "    while run._reporter._environment is None:\n        time.sleep(0.005)\n"
    + GUARDED
    + "    print('asleep', flush=True)\n    time.sleep(600)\n"
)


@pytest.fixture
def patient(site: Site) -> Site:
    """Where nobody is silent for long enough to be called so: what is told is not told by silence."""
    return replace(site, env={**site.env, "STALE_MINUTES": "10"})


@pytest.fixture
def here(directory: Site) -> Site:
    """Likewise, in a directory."""
    return replace(directory, env={**directory.env, "STALE_MINUTES": "10"})


def _gone(site: Site) -> None:
    until(lambda: not guardians(site.folder))


@dataclass(frozen=True)
class End:
    """How the block goes on, its exit status, and what the watchdog soon says of it."""

    script: str
    exit: int
    status: str
    cause: str | None = None
    reason: str = ""
    error: str = ""
    """Text of ``_error``."""


ENDS = [
    pytest.param(
        End("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, "FAILED", KILLER, "was killed by SIGKILL"),
        id="SIGKILL",
    ),
    pytest.param(
        End(
            "ctypes.string_at(0)",
            -signal.SIGSEGV,
            "FAILED",
            "exception",
            "was killed by SIGSEGV",
            "Fatal Python error: Segmentation fault",
        ),
        id="a segmentation fault, with what Python could still say of it",
    ),
    pytest.param(
        End("os.abort()", -signal.SIGABRT, "FAILED", None, "killed by SIGABRT", "Fatal Python error: Aborted"),
        id="an abort",
    ),
    pytest.param(
        End("os._exit(3)", 3, "FAILED", None, "train.py ended with exit status 3, before its run had ended"),
        id="os._exit(3)",
    ),
    pytest.param(
        End("os._exit(0)", 0, "FAILED", None, "train.py ended with exit status 0, before its run had ended"),
        id="os._exit(0) ends no run",
    ),
    pytest.param(
        End(
            "signal.signal(signal.SIGTERM, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)",
            -signal.SIGTERM,
            "FAILED",
            "cancelled",
            "received signal 15 (SIGTERM)",
        ),
        id="SIGTERM that nobody handles",
    ),
    pytest.param(End("sys.exit(0)", 0, "SUCCEEDED"), id="sys.exit(0) is told by the run itself"),
    pytest.param(End("pass", 0, "SUCCEEDED"), id="so is the end of the block"),
    pytest.param(
        End("raise ValueError('bad batch')", 1, "FAILED", None, "ValueError: bad batch", "Traceback"),
        id="and an exception",
    ),
]


@pytest.mark.parametrize("case", ENDS)
def test_an_end_is_told_at_once(patient: Site, case: End) -> None:
    trained = patient.train(BLOCK + GUARDED + f"    {case.script}\n")
    assert trained.exit == case.exit, trained.said
    found = patient.look_until(case.status)
    assert case.reason in found["reason"]
    assert case.cause in {None, found["cause"]}, found
    assert case.error in (patient.read("_error") or "")
    # But for the frames of its own that a crash or a trace shows.
    said = [line for line in trained.said.splitlines() if not line.startswith("  ")]
    assert not any("lastbeat" in line for line in said), trained.said
    _gone(patient)


def test_a_run_that_the_script_starts_without_a_block(here: Site) -> None:
    script = START + 'run = lastbeat.start("run-1")\nrun.step(1)\ntold(run)\nos._exit(7)\n'
    assert here.train(script).exit == 7
    assert "exit status 7" in here.look_until("FAILED")["reason"]


def test_what_a_parent_learns_at_once_is_known_as_well(here: Site) -> None:
    # The shell takes note of the end within microseconds, and the kernel then forgets the process.
    process = here.start(ASLEEP)
    until(lambda: "asleep" in here.said())
    process.kill()
    process.wait(LIMIT_S)
    error = until(lambda: here.read("_error")) or ""
    assert error.startswith(
        ("train.py was killed by SIGKILL", "train.py ended without a word (killed by a signal such as")
    )


def test_a_reader_of_its_output_is_not_kept_waiting(here: Site) -> None:
    # Not even while the guardian cannot reach the store: it says so to nobody, and gives up.
    script = f"{ASLEEP}"
    here.folder.mkdir(parents=True)
    (here.folder / "train.py").write_text(script)
    first = here.start(script)
    until(lambda: "asleep" in here.said())
    environment = Path(f"/proc/{first.pid}/environ").read_bytes().decode().split("\0")
    end(first)
    command = [sys.executable, "train.py"]
    variables = dict(line.split("=", 1) for line in environment if line)
    hangs = {"MONITORING_ROOT": "s3://hangs/runs", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    script = START + 'with lastbeat.run("run-1") as run:\n    print("asleep", flush=True)\n    time.sleep(600)\n'
    (here.folder / "train.py").write_text(script)
    with subprocess.Popen(
        command, cwd=here.folder, env={**variables, **hangs, **keys}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"asleep\n"
        until(lambda: guardians(here.folder))
        process.kill()
        # Whoever holds the other end of the pipe would keep this from ending.
        process.stdout.read()
    # It has 15 s.
    _gone(here)


def _files(process: int) -> set[str]:
    """What ``process`` has open, sockets and other processes aside."""
    opened = set()
    for path in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            opened.add(str(path.readlink()))
    return {name for name in opened if not name.startswith(("socket:", "anon_inode:[pidfd]", "pidfd:"))}


def test_the_guardian_is_small_and_holds_nothing(here: Site) -> None:
    script = """\
    import os, sys, time
    held = open("held.txt", "w")
    os.set_inheritable(held.fileno(), True)
    import lastbeat
    with lastbeat.run("run-1") as run:
        run.step(1)
        while not os.path.exists("seen"):
            time.sleep(0.01)
    """
    process = here.start(script)
    try:
        until(lambda: here.read("progress.json"))
        (guardian,) = guardians(here.folder)
        folder = Path(f"/proc/{guardian}")
        until(lambda: "lastbeat-guard" in (folder / "comm").read_text())
        until(lambda: len(list((folder / "fd").iterdir())) >= 6)
        # Now and then it opens a counter of its memory cgroup, and closes it at once.
        until(lambda: _files(guardian), lambda files: files == {"/dev/null", f"/proc/{process.pid}/stat"})
        assert (folder / "cwd").readlink() == Path("/")
        assert os.getsid(guardian) not in {os.getsid(process.pid), os.getsid(0)}
        assert (folder / "stat").read_text().rpartition(")")[2].split()[1] != str(process.pid)
        assert resident_bytes(guardian) < 25 * 1024 * 1024
        assert b"run-1" not in (folder / "cmdline").read_bytes()
        (here.folder / "seen").touch()
        assert process.wait(LIMIT_S) == 0
    finally:
        end(process)
    _gone(here)


def test_signals_to_everybody_do_not_reach_it(here: Site) -> None:
    process = here.start(ASLEEP)
    try:
        until(lambda: "asleep" in here.said())
        (guardian,) = guardians(here.folder)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
            os.kill(guardian, number)
    finally:
        end(process)
    assert "killed by SIGKILL" in here.look_until("FAILED")["reason"]


def test_training_that_lets_sigpipe_end_it_outlives_its_guardian(here: Site) -> None:
    script = (
        BLOCK + "    signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n" + GUARDED + "    print('asleep', flush=True)\n"
        "    while not os.path.exists('../runs/go'):\n        time.sleep(0.02)\n"
    )
    process = here.start(script)
    try:
        until(lambda: "asleep" in here.said())
        (guardian,) = guardians(here.folder)
        os.kill(guardian, signal.SIGKILL)
        _gone(here)
        # Now it tells a guardian that is dead how it ends.
        (Path(here.root) / "go").touch()
        assert process.wait(LIMIT_S) == 0, here.said()
    finally:
        end(process)
    assert here.look_until("SUCCEEDED")["status"] == "SUCCEEDED"


def test_training_has_no_child_that_it_did_not_start(here: Site) -> None:
    script = START + (
        'run = lastbeat.start("run-1")\n'
        "try:\n    print('found', os.wait())\nexcept ChildProcessError:\n    print('alone', flush=True)\n"
        "run.step(1)\ntold(run)\nos._exit(5)\n"
    )
    assert here.train(script).said == "alone\n"
    assert "exit status 5" in here.look_until("FAILED")["reason"]


def test_a_child_made_by_fork_neither_has_one_nor_ends_the_run(here: Site) -> None:
    script = BLOCK + (
        "    children = [os.fork() for _ in range(1)]\n"
        "    if children == [0]:\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    os.wait()\n    print('asleep', flush=True)\n    time.sleep(600)\n"
    )
    process = here.start(script)
    try:
        until(lambda: "asleep" in here.said())
        assert len(guardians(here.folder)) == 1
        assert here.look()["status"] == "RUNNING"
    finally:
        end(process)
    assert "SIGKILL" in here.look_until("FAILED")["reason"]


def test_a_fork_that_outlives_training_keeps_nothing_back(here: Site) -> None:
    # It holds training's end of the connection, as a DataLoader's worker does.
    script = BLOCK + (
        "    if os.fork() == 0:\n"
        "        while not os.path.exists('seen'):\n            time.sleep(0.01)\n"
        "        os._exit(0)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    try:
        assert here.train(script).exit == -signal.SIGKILL
        assert "SIGKILL" in here.look_until("FAILED")["reason"]
        _gone(here)
    finally:
        (here.folder / "seen").touch()


def test_runs_of_one_process_have_one(here: Site) -> None:
    script = START + (
        'with lastbeat.run("one") as one:\n    one.step(1)\n'
        'two = lastbeat.run("two")\nthree = lastbeat.run("three")\n'
        "two.step(2)\nthree.step(3)\ntold(two)\ntold(three)\nthree.complete()\n"
        "print('asleep', flush=True)\ntime.sleep(600)\n"
    )
    process = here.start(script)
    try:
        until(lambda: "asleep" in here.said())
        until(lambda: len(guardians(here.folder)) == 1)
    finally:
        end(process)
    assert "SIGKILL" in here.look_until("FAILED", "two")["reason"]
    _gone(here)
    assert [here.look(run)["status"] for run in ("one", "three")] == ["SUCCEEDED", "SUCCEEDED"]


def test_it_leaves_with_the_last_run(here: Site) -> None:
    process = here.start(BLOCK + "print('asleep', flush=True)\ntime.sleep(600)\n")
    try:
        until(lambda: "asleep" in here.said())
        _gone(here)
    finally:
        end(process)
    assert here.look()["status"] == "SUCCEEDED"


def test_starts_and_ends_leave_no_process(here: Site) -> None:
    script = START + (
        "for n in range(20):\n"
        '    with lastbeat.run("run-1") as run:\n        run.step(n)\n'
        "try:\n    os.waitpid(-1, os.WNOHANG)\n    print('a child')\nexcept ChildProcessError:\n    pass\n"
    )
    trained = here.train(script)
    assert (trained.exit, trained.said) == (0, "")
    for _ in range(3):
        assert here.train(BLOCK + "    os._exit(1)\n").exit == 1
    assert here.look_until("FAILED")["attempt"] == 23
    _gone(here)


def test_processes_that_start_and_end_in_every_way_leave_none(here: Site) -> None:
    # docs/reliability.md has the figure of 500.
    ends = ["pass", "raise ValueError", "os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)", "os.abort()"]
    block = BLOCK.replace('"run-1"', "os.environ['RUN']")
    for n in range(20):
        here.train(f"{block}{GUARDED}    {ends[n % len(ends)]}\n", RUN=f"run-{n}")
    _gone(here)
    left = [n for n in range(20) if here.read("_error" if n % len(ends) else "_complete", f"run-{n}") is None]
    assert left == [], "each end was told"


@pytest.fixture
def ranks(here: Site) -> Iterator["list[subprocess.Popen[str]]"]:
    started: list[subprocess.Popen[str]] = []
    try:
        for n in range(2):
            log = f"rank{n}.log"
            started.append(here.start(RANK, log=log, RANK=str(n), LOCAL_RANK=str(n), WORLD_SIZE="2"))
            until(lambda log=log: "asleep" in here.said(log))  # type: ignore[misc]
        yield started
    finally:
        for process in started:
            end(process)


def test_a_killed_rank_is_named(here: Site, ranks: "list[subprocess.Popen[str]]") -> None:
    until(lambda: len(guardians(here.folder)) == 1)
    ranks[1].kill()
    found = here.look_until("FAILED")
    assert f"rank 1 on {platform.node()} was killed by SIGKILL" in found["reason"]
    assert f"process {ranks[1].pid}, attempt 1" in (here.read("_error") or "").splitlines()[1]
    # The other one is watched on, and what becomes of it is no news of the run's.
    assert guardians(here.folder)
    ranks[0].kill()
    ranks[0].wait(LIMIT_S)
    until(lambda: here.read("ranks/0.error"))
    assert "rank 1 on" in (here.read("_error") or "")
    _gone(here)


def test_ranks_that_are_told_to_stop_leave_it_to_rank_0(here: Site, ranks: "list[subprocess.Popen[str]]") -> None:
    ranks[1].terminate()
    ranks[1].wait(LIMIT_S)
    ranks[0].terminate()
    ranks[0].wait(LIMIT_S)
    assert here.look_until("FAILED")["cause"] == "cancelled"
    assert (here.read("_error") or "").splitlines()[1].startswith("rank 0 of 2")
    _gone(here)
    assert here.read("ranks/1.error") is None


def test_it_is_switched_off(here: Site) -> None:
    process = here.start(ASLEEP, LASTBEAT_GUARDIAN="off")
    try:
        until(lambda: "asleep" in here.said())
        assert guardians(here.folder) == []
    finally:
        end(process)


def test_lastbeat_exec_sees_the_end_itself(here: Site) -> None:
    script = START + (
        "import subprocess\n"
        "if sys.argv[1:] == []:\n"
        "    command = [sys.executable, '-m', 'lastbeat_cli', 'exec', '--run-id', 'run-1', '--']\n"
        "    sys.exit(subprocess.call([*command, sys.executable, __file__, 'inner']))\n"
    )
    inner = ASLEEP.removeprefix(START)
    process = here.start(script + inner, PYTHONPATH=f"{ROOT / 'core'}:{ROOT / 'cli'}")
    try:
        until(lambda: "asleep" in here.said())
        assert guardians(here.folder) == []
    finally:
        inner_pid = int(until(lambda: _inner(here)) or "")
        os.kill(inner_pid, signal.SIGKILL)
        process.wait(LIMIT_S)
        end(process)
    assert "SIGKILL" in here.look_until("FAILED")["reason"]


def _inner(site: Site) -> str | None:
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                command = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if command[1:3] == [str(site.folder / "train.py").encode(), b"inner"]:
                return process.name
    return None


LIMIT_BYTES = 256 * 1024 * 1024
EATS = """\
    whole = []
    while True:
        whole.append(b'x' * 4 * 1024 * 1024)
"""


@pytest.fixture
def cgroup() -> Iterator[Path]:
    with memory_cgroup(LIMIT_BYTES) as folder:
        yield folder
        until(lambda: not (folder / "cgroup.procs").read_text().strip())


def _inside(cgroup: Path, script: str) -> str:
    return f"open({str(cgroup / 'cgroup.procs')!r}, 'w').write('0')\n" + script


def test_the_oom_killer_is_named(here: Site, cgroup: Path) -> None:
    # On a busy machine its beats may be stale before the guardian has written.
    here = replace(here, env={**here.env, "STALE_MINUTES": "5"})
    trained = here.train(_inside(cgroup, BLOCK + EATS))
    assert trained.exit == -signal.SIGKILL
    found = here.look_until("FAILED")
    assert "the kernel's OOM killer (oom-kill)" in found["reason"]
    assert found["cause"] == "oom"


def test_training_close_to_its_memory_limit_is_not_killed_for_its_guardian(here: Site, cgroup: Path) -> None:
    # All but 64 MB of what it may have.
    script = BLOCK + (
        f"    most = {LIMIT_BYTES - 64 * 1024 * 1024}\n"
        "    used = int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "    whole = b'x' * (most - used)\n"
        "    run.step(3)\n    told(run)\n"
    )
    trained = here.train(_inside(cgroup, script))
    assert trained.exit == 0, trained.said
    assert here.look()["status"] == "SUCCEEDED"


def test_a_run_that_is_removed_stays_removed(here: Site) -> None:
    process = here.start(ASLEEP)
    try:
        until(lambda: "asleep" in here.said())
        for path in sorted((Path(here.root) / "run-1").rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        os.kill(process.pid, signal.SIGSTOP)
        for path in sorted(Path(here.root).rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
    finally:
        end(process)
    _gone(here)
    assert list(Path(here.root).rglob("*")) == []


def test_a_sentinel_that_could_not_be_written_in_time_is_written_for_it(here: Site) -> None:
    # Training holds the lock that its own beat thread needs, so nothing can be written before it has ended.
    script = BLOCK + (
        "    import fcntl\n    held = open('../runs/run-1/.lastbeat.lock', 'a')\n"
        "    fcntl.flock(held, fcntl.LOCK_EX)\n    run.fail('no data', wait_s=0.5)\n    os._exit(1)\n"
    )
    trained = here.train(script)
    assert trained.exit == 1
    assert (until(lambda: here.read("_error")) or "").startswith("no data")
