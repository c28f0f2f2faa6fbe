"""``lastbeat exec``: a command that the kernel's OOM killer ends, in a memory cgroup of its own."""

import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import LIMIT_S
from support.wrapped import left, python, run_exec, start_exec, watched

LIMIT_BYTES = 160 * 1024 * 1024
V1, V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
EATS = """
print('eats', flush=True)
whole = []
for _ in range(256): whole.append(b'x' * 4 * 1024 * 1024)
print('had enough')
"""


@pytest.fixture
def cgroup() -> Iterator[Path]:
    name = f"lastbeat-test-{uuid.uuid4().hex[:8]}"
    version_1 = (V1 / "memory.limit_in_bytes").exists()
    folder = (V1 if version_1 else V2) / name
    try:
        folder.mkdir()
        limits = ("limit_in_bytes", "memsw.limit_in_bytes") if version_1 else ("max", "swap.max")
        for limit in limits:
            path = folder / f"memory.{limit}"
            if path.exists():
                path.write_text("0" if limit == "swap.max" else str(LIMIT_BYTES))
        if not (folder / f"memory.{limits[0]}").exists():
            folder.rmdir()
            pytest.skip("the memory controller of cgroup v2 is not handed down to a group of our own here")
    except OSError as refused:
        pytest.skip(f"no memory cgroup can be made here, which takes root and a writable /sys/fs/cgroup: {refused}")
    yield folder
    folder.rmdir()


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
