"""``lastbeat exec``: a command that the kernel's OOM killer ends, in a memory cgroup of its own."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cgroup import memory_cgroup
from support.waiting import LIMIT_S
from support.wrapped import left, python, run_exec, start_exec, watched

LIMIT_BYTES = 160 * 1024 * 1024
EATS = """
print('eats', flush=True)
whole = []
for _ in range(256): whole.append(b'x' * 4 * 1024 * 1024)
print('had enough')
"""


@pytest.fixture
def cgroup() -> Iterator[Path]:
    with memory_cgroup(LIMIT_BYTES) as folder:
        yield folder


def test_the_oom_killer_is_named(tmp_path: Path, cgroup: Path) -> None:
    # As in a job or a container: both are in the group, and the kernel takes the larger one.
    wrapper = start_exec(
        tmp_path, *python(EATS), preexec_fn=lambda: (cgroup / "cgroup.procs").write_text(str(os.getpid()))
    )
    out, err = wrapper.communicate(timeout=LIMIT_S)
    assert (wrapper.returncode, out, err) == (-signal.SIGKILL, b"eats\n", b"")
    first = (left(tmp_path, "_error") or "").splitlines()[0]
    assert "the kernel's OOM killer (oom-kill) killed it" in first
    said = watched(tmp_path)
    assert (said["status"], said["cause"]) == ("FAILED", "oom")
    assert "memory" in said["action"]


def test_a_group_that_the_command_moves_to_counts_as_well(tmp_path: Path, cgroup: Path) -> None:
    script = f'echo $$ > "{cgroup}/cgroup.procs"; sleep 1.5; "$@"; exit $?'
    done = run_exec(tmp_path, "sh", "-c", script, "sh", *python(EATS))
    assert done.returncode == 128 + signal.SIGKILL
    first = (left(tmp_path, "_error") or "").splitlines()[0]
    assert "exit status 137" in first
    assert "OOM killer (oom-kill)" in first
    assert watched(tmp_path)["cause"] == "oom"
