"""Trainings that end without a word, and what is told of them within moments: their guardian has seen it."""

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from support import monitor
from support.cgroup import counts_oom_kills, memory_cgroup
from support.checkout import ROOT
from support.guardians import guardians, resident_bytes
from support.training import WRITTEN, Site
from support.waiting import LIMIT_S, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="guardians are for Linux alone")

CORE = str(ROOT / "core")
KILLER = "unknown" if counts_oom_kills() else "oom"
START = f"""\
import ctypes, os, signal, sys, threading, time
import lastbeat
{WRITTEN}
"""
BLOCK = START + 'with lastbeat.run("run-1", total_steps=10) as run:\n    run.step(2)\n    written(run)\n'
GUARDED = """\
    from lastbeat.training.guardian import start
    while run._reporter._rank is None or start._line.answer() is None:
        time.sleep(0.005)
"""
"""How it goes on once its guardian is there: until then kernels before 6.16 may not say how it ended."""
ASLEEP = BLOCK + "    print('asleep', os.getpid(), flush=True)\n    time.sleep(600)\n"
RANK = ASLEEP.replace("    written(run)\n", GUARDED)


@contextmanager
def asleep(site: Site, script: str = ASLEEP, **env: str) -> "Iterator[subprocess.Popen[str]]":
    """Training that sleeps, and is killed with the end of the block."""
    with site.running(script, **env) as process:
        until(lambda: "asleep" in site.said())
        yield process


def only_guardian(site: Site) -> int:
    """The process that watches this training. For a moment it is the shell that starts it."""
    (found,) = until(lambda: guardians(site.folder), lambda found: len(found) == 1)
    return found


def _gone(site: Site) -> None:
    until(lambda: not guardians(site.folder))


CRASHED = "Fatal Python error: Segmentation fault"
ENDS = [
    pytest.param("directory", "os.kill(os.getpid(), signal.SIGKILL)", KILLER, "", id="SIGKILL, in a directory"),
    pytest.param("in_s3", "ctypes.string_at(0)", "exception", CRASHED, id="SIGSEGV, in S3"),
]


@pytest.mark.parametrize(("where", "script", "cause", "error"), ENDS)
def test_an_end_is_told_at_once(
    request: pytest.FixtureRequest, where: str, script: str, cause: str, error: str
) -> None:
    site: Site = request.getfixturevalue(where)
    trained = site.train(f"{BLOCK}{GUARDED}    {script}\n")
    assert trained.exit < 0, trained.said
    found = site.look_until("FAILED")
    assert f"was killed by {signal.Signals(-trained.exit).name}" in found["reason"]
    assert found["cause"] == cause, found
    assert error in (site.read("_error") or "")
    # But for the frames of its own that a crash or a trace shows.
    said = [line for line in trained.said.splitlines() if not line.startswith("  ")]
    assert not any("lastbeat" in line for line in said), trained.said
    _gone(site)


def test_a_reader_of_its_output_is_not_kept_waiting(directory: Site) -> None:
    # Not even while the guardian cannot reach the store: it says so to nobody, and gives up.
    hangs = {"MONITORING_ROOT": "s3://hangs/runs", "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "PYTHONPATH": CORE}
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    script = START + 'with lastbeat.run("run-1") as run:\n    print("asleep", flush=True)\n    time.sleep(600)\n'
    directory.folder.mkdir(parents=True)
    environment = monitor.environment(directory.folder, {**hangs, **keys})
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=directory.folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"asleep\n"
        until(lambda: guardians(directory.folder))
        process.kill()
        # Whoever holds the other end of the pipe would keep this from ending.
        process.stdout.read()
    # It has 15 s.
    _gone(directory)


def _files(process: int) -> set[str]:
    """What ``process`` has open, sockets and other processes aside."""
    opened = set()
    for path in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            opened.add(str(path.readlink()))
    return {name for name in opened if not name.startswith(("socket:", "anon_inode:[pidfd]", "pidfd:"))}


def test_the_guardian_is_small_and_holds_nothing(directory: Site) -> None:
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
    with directory.running(script) as process:
        until(lambda: directory.read("progress.json"))
        guardian = only_guardian(directory)
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
        (directory.folder / "seen").touch()
        assert process.wait(LIMIT_S) == 0
    _gone(directory)


def test_signals_to_everybody_do_not_reach_it(directory: Site) -> None:
    with asleep(directory):
        guardian = only_guardian(directory)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
            os.kill(guardian, number)
    assert "killed by SIGKILL" in directory.look_until("FAILED")["reason"]


def test_training_that_lets_sigpipe_end_it_outlives_its_guardian(directory: Site) -> None:
    script = (
        BLOCK + "    signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n" + GUARDED + "    print('asleep', flush=True)\n"
        "    while not os.path.exists('../runs/go'):\n        time.sleep(0.02)\n"
    )
    with asleep(directory, script) as process:
        guardian = only_guardian(directory)
        os.kill(guardian, signal.SIGKILL)
        _gone(directory)
        # Now it tells a guardian that is dead how it ends.
        (Path(directory.root) / "go").touch()
        assert process.wait(LIMIT_S) == 0, directory.said()
    assert directory.look_until("SUCCEEDED")["status"] == "SUCCEEDED"


def test_training_has_no_child_that_it_did_not_start(directory: Site) -> None:
    script = START + (
        'run = lastbeat.start("run-1")\n'
        "try:\n    print('found', os.wait())\nexcept ChildProcessError:\n    print('alone', flush=True)\n"
        "run.step(1)\nwritten(run)\nos._exit(5)\n"
    )
    assert directory.train(script).said == "alone\n"
    assert "exit status 5" in directory.look_until("FAILED")["reason"]


def test_a_child_made_by_fork_neither_has_one_nor_ends_the_run(directory: Site) -> None:
    script = BLOCK + (
        "    if os.fork() == 0:\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    os.wait()\n    print('asleep', flush=True)\n    time.sleep(600)\n"
    )
    with asleep(directory, script):
        only_guardian(directory)
        assert directory.look()["status"] == "RUNNING"
    assert "SIGKILL" in directory.look_until("FAILED")["reason"]


def test_a_fork_that_outlives_training_keeps_nothing_back(directory: Site) -> None:
    # It holds training's end of the connection, as a DataLoader's worker does.
    script = BLOCK + (
        "    if os.fork() == 0:\n"
        "        while not os.path.exists('seen'):\n            time.sleep(0.01)\n"
        "        os._exit(0)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    try:
        assert directory.train(script).exit == -signal.SIGKILL
        assert "SIGKILL" in directory.look_until("FAILED")["reason"]
        _gone(directory)
    finally:
        (directory.folder / "seen").touch()


def test_runs_of_one_process_have_one(directory: Site) -> None:
    script = START + (
        'with lastbeat.run("one") as one:\n    one.step(1)\n'
        'two = lastbeat.run("two")\nthree = lastbeat.run("three")\n'
        "two.step(2)\nthree.step(3)\nwritten(two)\nwritten(three)\nthree.complete()\n"
        "print('asleep', flush=True)\ntime.sleep(600)\n"
    )
    with asleep(directory, script):
        only_guardian(directory)
    assert "SIGKILL" in directory.look_until("FAILED", "two")["reason"]
    _gone(directory)
    assert [directory.look(run)["status"] for run in ("one", "three")] == ["SUCCEEDED", "SUCCEEDED"]


def test_it_leaves_with_the_last_run_and_leaves_no_child(directory: Site) -> None:
    script = START + (
        "for n in range(4):\n"
        '    with lastbeat.run("run-1") as run:\n        run.step(n)\n'
        "try:\n    os.waitpid(-1, os.WNOHANG)\n    print('a child')\nexcept ChildProcessError:\n    pass\n"
        "print('asleep', flush=True)\ntime.sleep(600)\n"
    )
    with asleep(directory, script):
        _gone(directory)
        assert directory.said() == "asleep\n"
    assert directory.look_until("SUCCEEDED")["attempt"] == 4


@pytest.fixture
def ranks(directory: Site) -> Iterator["list[subprocess.Popen[str]]"]:
    with ExitStack() as open_:
        started = []
        for n in range(2):
            log, number = f"rank{n}.log", str(n)
            rank = directory.running(RANK, log=log, RANK=number, LOCAL_RANK=number, WORLD_SIZE="2")
            started.append(open_.enter_context(rank))
            until(lambda log=log: "asleep" in directory.said(log))  # type: ignore[misc]
        yield started


def test_a_killed_rank_is_named(directory: Site, ranks: "list[subprocess.Popen[str]]") -> None:
    only_guardian(directory)
    ranks[1].kill()
    found = directory.look_until("FAILED")
    assert f"rank 1 on {platform.node()} was killed by SIGKILL" in found["reason"]
    assert f"process {ranks[1].pid}, attempt 1" in (directory.read("_error") or "").splitlines()[1]
    # The other one is watched on, and what becomes of it is no news of the run's.
    assert guardians(directory.folder)
    ranks[0].kill()
    ranks[0].wait(LIMIT_S)
    until(lambda: directory.read("ranks/0.error"))
    assert "rank 1 on" in (directory.read("_error") or "")
    _gone(directory)


def test_ranks_that_are_told_to_stop_leave_it_to_rank_0(directory: Site, ranks: "list[subprocess.Popen[str]]") -> None:
    ranks[1].terminate()
    ranks[1].wait(LIMIT_S)
    ranks[0].terminate()
    ranks[0].wait(LIMIT_S)
    assert directory.look_until("FAILED")["cause"] == "cancelled"
    assert (directory.read("_error") or "").splitlines()[1].startswith("rank 0 of 2")
    _gone(directory)
    assert directory.read("ranks/1.error") is None


def test_lastbeat_exec_sees_the_end_itself(directory: Site) -> None:
    script = START + (
        "import subprocess\n"
        "if sys.argv[1:] == []:\n"
        "    command = [sys.executable, '-m', 'lastbeat_cli', 'exec', '--run-id', 'run-1', '--']\n"
        "    sys.exit(subprocess.call([*command, sys.executable, __file__, 'inner']))\n"
    )
    inner = ASLEEP.removeprefix(START)
    with asleep(directory, script + inner, PYTHONPATH=f"{CORE}:{ROOT / 'cli'}") as process:
        assert guardians(directory.folder) == []
        os.kill(int(directory.said().partition("asleep ")[2]), signal.SIGKILL)
        process.wait(LIMIT_S)
    assert "SIGKILL" in directory.look_until("FAILED")["reason"]


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


def test_the_oom_killer_is_named(directory: Site, cgroup: Path) -> None:
    trained = directory.train(_inside(cgroup, BLOCK + EATS))
    assert trained.exit == -signal.SIGKILL
    found = directory.look_until("FAILED")
    assert "the kernel's OOM killer (oom-kill)" in found["reason"]
    assert found["cause"] == "oom"


def test_a_sentinel_that_could_not_be_written_in_time_is_written_for_it(directory: Site) -> None:
    # Training holds the lock that its own beat thread needs, so nothing can be written before it has ended.
    script = BLOCK + (
        "    import fcntl\n    held = open('../runs/run-1/.lastbeat.lock', 'a')\n"
        "    fcntl.flock(held, fcntl.LOCK_EX)\n    run.fail('no data', wait_s=0.5)\n    os._exit(1)\n"
    )
    trained = directory.train(script)
    assert trained.exit == 1
    assert (until(lambda: directory.read("_error")) or "").startswith("no data")
