"""A directory that may not be written, and one that is full: with a real other user and a real small file system."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lastbeat.stores.directory import DirectoryStore
from lastbeat.stores.port import StoreError

_AS_NOBODY = """
import os, sys
from pathlib import Path
from lastbeat.stores.directory import DirectoryStore
from lastbeat.stores.port import DeniedError
os.setgid(65534); os.setuid(65534)  # who may then not even read the standard library
store = DirectoryStore(Path(sys.argv[1]))
assert store.read("run-1/metadata.json", 10).body == b"{}"
for call in (
    lambda: store.write("run-1/x", b""),
    lambda: store.write("run-2/x", b""),
    lambda: store.delete("run-1/metadata.json"),
    lambda: store.read("closed/x", 1),
    lambda: store.list("closed/"),
):
    try:
        call()
    except DeniedError as error:
        assert "not allowed to" in str(error), error
    else:
        raise AssertionError("allowed")
assert [(e.key, e.fault is None) for e in store.list("").entries] == [("closed/", False), ("run-1/metadata.json", True)]
store.clock()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_who_may_only_read_reads_and_is_told_what_is_denied() -> None:
    # Not in tmp_path, which pytest closes to other users.
    place = Path(f"/tmp/lastbeat-test-{os.getpid()}-{time.monotonic_ns()}")
    (place / "closed").mkdir(parents=True)
    try:
        store = DirectoryStore(place)
        store.write("run-1/metadata.json", b"{}")
        (place / "closed" / "x").write_text("")
        (place / "closed").chmod(0o700)
        command = [sys.executable, "-c", _AS_NOBODY, str(place)]
        core = str(Path(__file__).parents[3] / "core")
        done = subprocess.run(
            command, env={"PYTHONPATH": core}, capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
    finally:
        for path in sorted(place.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        place.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_full_disk_is_said_to_be_full(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("may not mount")
    try:
        store = DirectoryStore(tmp_path)
        version = store.write("run-1/x", b"kept")
        with pytest.raises(StoreError, match="No space left") as raised:
            store.write("run-1/x", b"x" * 1_000_000, version)
        assert "make room" in raised.value.advice
        blob = store.read("run-1/x", 10)
        assert blob is not None
        assert (blob.body, blob.version) == (b"kept", version)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
