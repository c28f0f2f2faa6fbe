"""A directory that is full, or not ours, while training goes on."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.training import LIMIT_S, Site
from support.waiting import until

LOOP = """\
import json, os, time
import lastbeat
n = 0
with lastbeat.run("run-1") as run:
    while not os.path.exists("stop"):
        n += 1
        run.step(n, loss=1.0 / n)
        time.sleep(0.001)
print(json.dumps(n))
"""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system to fill it up")
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "lastbeat-test", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def step(site: Site) -> int:
    document = site.read("progress.json")
    return int(json.loads(document)["step"]) if document else 0


def fill(path: Path) -> None:
    """Take all the room that there is."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


def test_a_full_disk(tmp_path: Path, small: Path) -> None:
    site = Site(tmp_path / "work", str(small / "runs"))
    with site.running(LOOP) as process:
        until(lambda: step(site))
        fill(small / "ballast")
        until(lambda: "No space left on device" in site.said())
        known = step(site)
        (small / "ballast").unlink()
        until(lambda: step(site) > known)
        (site.folder / "stop").touch()
        assert process.wait(LIMIT_S) == 0
    lines = site.said().splitlines()
    assert len(lines) == 2, "one warning an outage, and what the script prints"
    found = site.look()
    assert (found["status"], found["step"]) == ("SUCCEEDED", int(lines[-1]))


def test_a_disk_that_turns_read_only(tmp_path: Path, small: Path) -> None:
    site = Site(tmp_path / "work", str(small / "runs"))
    with site.running(LOOP) as process:
        until(lambda: step(site))
        _remount(small, "ro")
        until(lambda: "not allowed to" in site.said())
        _remount(small, "rw")
        known = step(site)
        until(lambda: step(site) > known)
        (site.folder / "stop").touch()
        assert process.wait(LIMIT_S) == 0
    assert site.look()["status"] == "SUCCEEDED"


def _remount(folder: Path, mode: str) -> None:
    def done() -> bool:
        # Busy for as long as a beat has a file open for writing.
        command = ["mount", "-o", f"remount,{mode}", str(folder)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    until(done)


def test_a_directory_that_is_not_ours(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    root = tmp_path / "runs"
    root.mkdir(mode=0o555)
    site = Site(tmp_path / "work", str(root))
    with site.running(LOOP) as process:
        until(lambda: "not allowed to" in site.said())
        root.chmod(0o777)
        until(lambda: step(site))
        (site.folder / "stop").touch()
        assert process.wait(LIMIT_S) == 0
    assert site.look()["status"] == "SUCCEEDED"
