"""Where the processes of a command hang, as Linux and py-spy tell it."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lastbeat.training.exec.child.waiting import LIMIT_BYTES, MOST_PROCESSES, dump_waiting
from lastbeat.watch.observe.run import innermost
from support.waiting import until

HEAD = "No new step for 2m, at step 50"
DUMP = """Process 102: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 7 (idle): "pin_memory"
    wait (threading.py:327)
Thread 102 (idle): "MainThread"
    acquire (threading.py:200)
    wait_for_turn (hang.py:4)
    <module> (hang.py:8)
"""


class Machine:
    """A /proc made by hand."""

    def __init__(self, folder: Path) -> None:
        self.processes = folder / "proc"

    def process(
        self, number: int, name: str, parent: int, state: str = "S", program: str = "/bin/x", **files: str
    ) -> None:
        folder = self.processes / str(number)
        for place in (folder, folder / "task" / str(number)):
            place.mkdir(parents=True, exist_ok=True)
            (place / "stat").write_text(f"{number} ({name}) {state} {parent} 1 1 0\n")
            for file, text in files.items():
                (place / file).write_text(text)
        (folder / "exe").symlink_to(program)

    def thread(self, of: int, number: int, name: str, **files: str) -> None:
        place = self.processes / str(of) / "task" / str(number)
        place.mkdir(parents=True)
        (place / "stat").write_text(f"{number} ({name}) S {of} 1 1 0\n")
        for file, text in files.items():
            (place / file).write_text(text)

    def dump(self, *numbers: int, py_spy: str = "/nowhere/py-spy") -> str:
        return dump_waiting(101, numbers, HEAD, self.processes, py_spy).decode()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.process(101, "torchrun", 1, wchan="do_epoll_wait")
    made.process(102, "python", 101, program="/usr/bin/python3.11", wchan="futex_do_wait")
    made.process(103, "sleep", 101, wchan="0", syscall="230 0x1\n")
    return made


def script(folder: Path, text: str) -> str:
    """A py-spy that does as it is told."""
    path = folder / "py-spy"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_without_py_spy_the_kernel_says_what_each_waits_for(machine: Machine) -> None:
    machine.thread(
        102, 110, "pt_main_thread", wchan="poll_schedule_timeout", stack="[<0>] do_poll+0x1/0x2\n[<0>] sys_poll+0x3"
    )
    told = machine.dump(102, 103)
    assert told.startswith(f"{HEAD}\n\n")
    assert innermost(told)[:3] == (
        "101 torchrun: sleeping in do_epoll_wait",
        "102 python: sleeping in futex_do_wait",
        "103 sleep: sleeping in (system call clock_nanosleep)"
        if os.uname().machine == "x86_64"
        else "103 sleep: sleeping",
    )
    assert 'Thread "pt_main_thread 110":\n  110 pt_main_thread: sleeping in poll_schedule_timeout\n' in told
    assert "  sys_poll (in the kernel)\n  do_poll (in the kernel)" in told, "the innermost is the last"


def test_with_py_spy_an_alert_ends_in_the_innermost_frame_of_python(machine: Machine, tmp_path: Path) -> None:
    told = machine.dump(102, 103, py_spy=script(tmp_path, f"cat <<'END'\n{DUMP}END"))
    assert innermost(told)[-3:] == (
        'File "hang.py", line 8, in <module>',
        'File "hang.py", line 4, in wait_for_turn',
        'File "threading.py", line 200, in acquire',
    )
    assert told.index('Thread "MainThread" of process 102') < told.index('Thread "pin_memory" of process 102')
    assert 'Thread "python 102":' not in told, "what py-spy has told is not told again"


@pytest.mark.parametrize(
    "does",
    [
        pytest.param("exec sleep 600", id="hangs"),
        pytest.param("yes 'Thread 1 (idle): \"x\"'", id="never ends"),
        pytest.param("head -c 100000 /dev/zero", id="prints no text"),
    ],
)
def test_a_py_spy_that_fails_costs_some_seconds_and_nothing_else(machine: Machine, tmp_path: Path, does: str) -> None:
    told = machine.dump(102, 103, py_spy=script(tmp_path, does))
    assert "102 python: sleeping in futex_do_wait" in told


def test_whatever_the_machine_runs_it_is_bounded_and_harmless(machine: Machine) -> None:
    for number in range(200, 200 + 3 * MOST_PROCESSES):
        machine.process(
            number, "x\n\x1b[31m) S 1 (\n" + "y" * 100, number - 1 if number > 200 else 101, state="D", wchan="z" * 9999
        )
    told = machine.dump(*range(102, 104), *range(200, 200 + 3 * MOST_PROCESSES))
    assert len(told.encode()) <= LIMIT_BYTES
    assert "\x1b" not in told
    assert "more processes" in told
    assert all(len(line) <= 200 for line in told.split("\n"))


def test_a_tree_that_bites_its_own_tail_and_a_command_that_is_gone(machine: Machine) -> None:
    machine.process(104, "a", 105)
    machine.process(105, "b", 104)
    assert "101 torchrun" in machine.dump(102, 104, 105, 999)
    assert "which has ended" in dump_waiting(7, [], HEAD, machine.processes, "/nowhere/py-spy").decode()


def test_a_real_process_that_waits_for_a_lock(tmp_path: Path) -> None:
    code = "import threading; l = threading.Lock(); l.acquire(); print(1, flush=True); l.acquire()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)

        def dumped() -> str:
            return dump_waiting(process.pid, [process.pid], HEAD, py_spy=str(tmp_path / "none")).decode()

        told = until(dumped, lambda told: "sleeping" in told)
        process.kill()
    assert f"{process.pid} python" in told
