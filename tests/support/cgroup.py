"""A memory cgroup of one's own, of version 1 or 2, where root may make one."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lastbeat.training.exec.child.exit_reason import OomKillCounter

V1, V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


def counts_oom_kills() -> bool:
    """Whether this machine's kernel tells how many there were among our processes."""
    counter = OomKillCounter()
    counter.watch("self")
    return counter.count is not None


@contextmanager
def memory_cgroup(limit_bytes: int) -> Iterator[Path]:
    """Its folder; skips the test where none can be made."""
    name = f"lastbeat-test-{uuid.uuid4().hex[:8]}"
    version_1 = (V1 / "memory.limit_in_bytes").exists()
    folder = (V1 if version_1 else V2) / name
    try:
        folder.mkdir()
        limits = ("limit_in_bytes", "memsw.limit_in_bytes") if version_1 else ("max", "swap.max")
        for limit in limits:
            path = folder / f"memory.{limit}"
            if path.exists():
                path.write_text("0" if limit == "swap.max" else str(limit_bytes))
        if not (folder / f"memory.{limits[0]}").exists():
            folder.rmdir()
            pytest.skip("the memory controller of cgroup v2 is not handed down to a group of our own here")
    except OSError as refused:
        pytest.skip(f"no memory cgroup can be made here, which takes root and a writable /sys/fs/cgroup: {refused}")
    yield folder
    folder.rmdir()
