"""A store that fails, and a directory that is full or read-only, while training goes on: training never feels it, and
what it said arrives later."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.proxy import FaultProxy, Stall, s3_error
from support.training import Site
from support.waiting import LIMIT_S, until

LOOP = """\
import os, time
import lastbeat
n = 0
with lastbeat.run("run-1") as run:
    while not os.path.exists("stop"):
        n += 1
        run.step(n, loss=1.0 / n, learning_rate=3e-4, tokens=512, grad_norm=0.5)
        with open("steps", "a") as steps:
            steps.write(".")
        time.sleep(0.005)
"""


def step(site: Site) -> int:
    """The step that the store knows of."""
    document = site.read("progress.json")
    return int(json.loads(document)["step"]) if document else 0


def made(site: Site) -> int:
    """The steps that training has made."""
    path = site.folder / "steps"
    return path.stat().st_size if path.exists() else 0


def test_a_store_that_takes_requests_and_never_answers_and_comes_back(in_s3: Site, fault_proxy: FaultProxy) -> None:
    with in_s3.running(LOOP, AWS_ENDPOINT_URL=fault_proxy.url) as process:
        until(lambda: step(in_s3))
        fault_proxy.inject(Stall())
        before = fault_proxy.count("PUT")
        until(lambda: fault_proxy.count("PUT") > before)
        # Training goes on meanwhile: the request that hangs would hold it up for ten seconds a step.
        steps = made(in_s3)
        until(lambda: made(in_s3) > steps + 20)
        fault_proxy.clear()
        known = step(in_s3)
        until(lambda: step(in_s3) > known)
        (in_s3.folder / "stop").touch()
        assert process.wait(LIMIT_S) == 0, in_s3.said()
    found = in_s3.look()
    assert (found["status"], found["step"]) == ("SUCCEEDED", made(in_s3))


def test_a_store_that_nobody_serves(in_s3: Site) -> None:
    script = """\
    import pathlib, time, lastbeat
    run = lastbeat.run("run-1")
    for n in range(1000):
        run.step(n)
    while "cannot write its heartbeat" not in pathlib.Path("training.log").read_text():
        time.sleep(0.05)
    assert not run.complete(wait_s=0.2)
    """
    site = replace(in_s3, env={**in_s3.env, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    trained = site.train(script)
    assert trained.exit == 0, trained.said
    assert trained.said.count("lastbeat cannot write its heartbeat") == 1
    # Not "keeps trying" as the last word of a process that ends, and with what to do about it.
    (last,) = [line for line in trained.said.splitlines() if "lastbeat could not write the end of this run" in line]
    assert "no connection" in last, last
    assert "AWS_ENDPOINT_URL" in last, last


def test_an_end_that_nobody_wrote_is_said_however_soon_it_comes(in_s3: Site) -> None:
    site = replace(in_s3, env={**in_s3.env, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    trained = site.train('import lastbeat\nlastbeat.run("run-1").complete(wait_s=0)\n')
    assert trained.exit == 0, trained.said
    assert trained.said.count("lastbeat could not write the end of this run before its process ended") == 1


def test_memory_does_not_grow_while_the_store_is_down(in_s3: Site, fault_proxy: FaultProxy) -> None:
    script = """\
    import json, time, tracemalloc, gc
    import lastbeat
    run = lastbeat.run("run-1", total_steps=10**9)
    def steps(first, last):
        failures = run._reporter._failures
        for n in range(first, last):
            run.step(n, loss=1.0 / (n + 1), learning_rate=3e-4, tokens=512, grad_norm=0.5)
        while run._reporter._failures == failures:
            time.sleep(0.01)
    steps(0, 5_000)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    steps(5_000, 35_000)
    gc.collect()
    print(json.dumps({"grown": tracemalloc.get_traced_memory()[0] - before}))
    run.complete(wait_s=0.1)
    """
    fault_proxy.inject(s3_error(503, "SlowDown"))
    trained = in_s3.train(script, AWS_ENDPOINT_URL=fault_proxy.url)
    assert trained.exit == 0, trained.said
    (told,) = [line for line in trained.said.splitlines() if line.startswith("{")]
    assert json.loads(told)["grown"] < 100_000, "three bytes a step"


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
    assert len(site.said().splitlines()) == 1, "one warning an outage"
    found = site.look()
    assert (found["status"], found["step"]) == ("SUCCEEDED", made(site))


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
