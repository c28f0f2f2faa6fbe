"""What a process uses, and what a command uses with all that it started."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lastbeat.training.node.resources import ProcessUsage, ResourceMeter, own_usage, send_to_tree, tree_usage
from support.waiting import until

TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
BUSY = """
import subprocess, sys, time
if sys.argv[1:]:
    child = subprocess.Popen([sys.executable, '-c', 'whole = b"x" * 50_000_000\\nwhile True: pass'])
while True: time.sleep(0.01)
"""


def stat(number: int, parent: int, seconds: float, pages: int, name: str = "python") -> str:
    """A line of /proc/PID/stat: times of its own, then of its ended children."""
    times = f"{round(seconds * TICKS)} 0 0 0"
    return f"{number} ({name}) S {parent} 0 0 0 -1 0 0 0 0 0 {times} 20 0 1 0 100 5000 {pages} 0\n"


TREES = [
    pytest.param([stat(10, 1, 2.0, 7)], ProcessUsage(2.0, 7 * PAGE), id="the command alone"),
    pytest.param([stat(10, 1, 2.0, 7), stat(11, 10, 1.0, 2), stat(12, 11, 0.5, 1), stat(13, 1, 99, 99)],
                 ProcessUsage(3.5, 10 * PAGE), id="all below it, and nobody else"),
    pytest.param([stat(10, 1, 1.0, 1, "a) S (b 1 2 3")], ProcessUsage(1.0, PAGE), id="a name that looks like fields"),
    pytest.param([stat(11, 10, 1.0, 1)], ProcessUsage(), id="a command that has ended"),
    pytest.param([stat(10, 1, 1.0, 1), "11 (cut off", ""], ProcessUsage(1.0, PAGE),
                 id="one that ends while it is read"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), TREES)
def test_a_tree(tmp_path: Path, lines: list[str], expected: ProcessUsage) -> None:
    (tmp_path / "meminfo").write_text("")
    for place, line in enumerate(lines):
        folder = tmp_path / (line.split(" ")[0] or str(500 + place))
        folder.mkdir()
        (folder / "stat").write_text(line)
    assert tree_usage(10, tmp_path) == expected


def test_where_nothing_can_be_read_nothing_is_known(tmp_path: Path) -> None:
    assert tree_usage(10, tmp_path / "none") == ProcessUsage()


def test_a_process_without_proc_says_what_it_can(tmp_path: Path) -> None:
    found = own_usage(tmp_path)
    assert found.cpu_s is not None
    assert found.rss_bytes is None or found.rss_bytes > 1 << 20


def test_this_process_is_measured_between_two_looks() -> None:
    meter = ResourceMeter()
    first = meter.measure() or {}
    assert "cpu" not in first
    assert first["rss_bytes"] > 1 << 20
    busy_until = time.monotonic() + 0.3
    while time.monotonic() < busy_until:
        pass
    second = meter.measure() or {}
    assert 0 < second["cpu"] < 64


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
def test_a_command_is_measured_with_what_it_started() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY, "with a child"]) as command:
        try:
            meter = ResourceMeter(wraps=True)
            assert "rss_bytes" not in (meter.measure() or {}), "it has not begun"
            meter.root = command.pid

            def measured() -> dict[str, float]:
                time.sleep(0.2)
                return meter.measure() or {}

            found = until(lambda: found if (found := measured()).get("cpu", 0) > 0 else None)
            assert found
            until(lambda: measured()["rss_bytes"] > 50_000_000)
        finally:
            for number in (*children(command.pid), command.pid):
                os.kill(number, 9)
    assert "rss_bytes" not in (meter.measure() or {})


FORKED = """
import os, signal, subprocess, sys, time
program = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
worker = os.fork()
while not worker: time.sleep(0.01)
def told(number, frame):
    ended = program.wait(300)
    time.sleep(0.2)
    print(ended, os.waitpid(worker, os.WNOHANG)[0] == 0, flush=True)
    os.kill(worker, 9)
    sys.exit(0)
signal.signal(signal.SIGTERM, told)
print('ready', flush=True)
while True: time.sleep(0.01)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("forks", [True, False])
def test_a_signal_to_a_command_may_spare_the_workers_that_it_forked(forks: bool) -> None:
    arguments = [sys.executable, "-c", FORKED]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, start_new_session=True) as command:
        try:
            assert command.stdout is not None
            assert command.stdout.readline() == "ready\n"
            send_to_tree(command.pid, signal.SIGTERM, forks=forks)
            assert command.stdout.readline() == f"-15 {not forks}\n", (
                "how its program ended, and whether the worker lives"
            )
        finally:
            os.killpg(command.pid, 9)


def children(parent: int) -> list[int]:
    found = []
    for stat_file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat_file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(stat_file.parent.name))
    return found
