"""A store that fails in all ways while training goes on: training never feels it, and what it said arrives later."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.proxy import DropAnswer, Fault, FaultProxy, Reset, Stall, s3_error
from support.s3 import S3Server
from support.training import LIMIT_S, Site, end, s3_site
from support.waiting import until

LOOP = """\
import json, os, sys, time
import lastbeat
longest, n = 0.0, 0
with lastbeat.run("run-1") as run:
    while not os.path.exists("stop"):
        n += 1
        began = time.perf_counter()
        run.step(n, loss=1.0 / n, learning_rate=3e-4, tokens=512, grad_norm=0.5)
        longest = max(longest, time.perf_counter() - began)
        time.sleep(0.001)
    if os.path.exists("fail"):
        run.fail("as told")
print(json.dumps({"longest": longest, "steps": n}))
"""


@pytest.fixture
def site(tmp_path: Path, s3_server: S3Server) -> Site:
    return s3_site(tmp_path, s3_server)


@contextmanager
def training(site: Site, proxy: FaultProxy, script: str = LOOP) -> "Iterator[subprocess.Popen[str]]":
    """Training that sees the store through ``proxy``."""
    process = site.start(script, AWS_ENDPOINT_URL=proxy.url)
    try:
        yield process
    finally:
        end(process)


def step(site: Site) -> int:
    """The step that the store knows of."""
    document = site.read("progress.json")
    return int(json.loads(document)["step"]) if document else 0


def stop(site: Site, process: "subprocess.Popen[str]") -> dict[str, Any]:
    """End training as it ends when all is well; what it measured."""
    (site.folder / "stop").touch()
    assert process.wait(LIMIT_S) == 0, site.said()
    measured: dict[str, Any] = json.loads(site.said().splitlines()[-1])
    return measured


FAULTS = [
    pytest.param(Stall(), id="a store that takes requests and never answers"),
    pytest.param(Reset(), id="a store that breaks connections"),
    pytest.param(DropAnswer(), id="a store whose answers get lost"),
    pytest.param(s3_error(503, "SlowDown"), id="a store that throttles"),
    pytest.param(s3_error(403, "AccessDenied"), id="a store that refuses"),
    pytest.param(s3_error(400, "ExpiredToken"), id="a store that calls the credentials expired"),
    pytest.param(s3_error(404, "NoSuchBucket"), id="a store whose bucket is gone"),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_store_that_fails_and_comes_back(site: Site, fault_proxy: FaultProxy, fault: Fault) -> None:
    with training(site, fault_proxy) as process:
        until(lambda: step(site))
        fault_proxy.inject(fault)
        before = fault_proxy.count("PUT")
        until(lambda: fault_proxy.count("PUT") > before)
        fault_proxy.clear()
        known = step(site)
        until(lambda: step(site) > known)
        measured = stop(site, process)
    # A request that hangs takes ten; a busy machine gets slack.
    assert measured["longest"] < 5.0
    found = site.look()
    assert (found["status"], found["step"]) == ("SUCCEEDED", measured["steps"])


@pytest.mark.parametrize("fault", FAULTS[1:])
def test_a_store_that_fails_from_the_start_on(site: Site, fault_proxy: FaultProxy, fault: Fault) -> None:
    fault_proxy.inject(fault)
    with training(site, fault_proxy) as process:
        until(lambda: fault_proxy.count() >= 2)
        fault_proxy.clear()
        until(lambda: step(site))
        measured = stop(site, process)
    found = site.look()
    assert (found["status"], found["step"], found["attempt"]) == ("SUCCEEDED", measured["steps"], 1)


def test_a_store_that_comes_back_while_the_end_waits(site: Site, fault_proxy: FaultProxy) -> None:
    with training(site, fault_proxy) as process:
        until(lambda: step(site))
        fault_proxy.inject(s3_error(503, "SlowDown"))
        (site.folder / "fail").touch()
        (site.folder / "stop").touch()
        before = fault_proxy.count("PUT")
        until(lambda: fault_proxy.count("PUT") >= before + 2)
        assert process.poll() is None
        fault_proxy.clear()
        assert process.wait(LIMIT_S) == 0
    found = site.look()
    assert (found["status"], found["reason"]) == ("FAILED", "as told")
    assert found["step"] == json.loads(site.said().splitlines()[-1])["steps"]


@pytest.mark.parametrize("fault", [FAULTS[0], FAULTS[3]])
def test_a_store_that_does_not_come_back_holds_the_end_up_for_so_long_and_no_longer(
    site: Site, fault_proxy: FaultProxy, fault: Fault
) -> None:
    script = """\
    import os, sys, time, lastbeat
    run = lastbeat.run("run-1")
    run.step(1)
    while not os.path.exists("stop"):
        run.step(2)
        time.sleep(0.01)
    began = time.monotonic()
    assert not run.complete(wait_s=0.5)
    took = time.monotonic() - began
    assert 0.5 <= took < 10.0, took
    sys.exit(6)
    """
    with training(site, fault_proxy, script) as process:
        until(lambda: step(site))
        fault_proxy.inject(fault)
        (site.folder / "stop").touch()
        assert process.wait(LIMIT_S) == 6, site.said()
    # The watchdog has seen heartbeats and no end: it waits for the next one in vain.
    assert site.look_until("TIMED_OUT")["step"] == 2


def test_a_store_that_nobody_serves(site: Site) -> None:
    script = """\
    import pathlib, time, lastbeat
    run = lastbeat.run("run-1")
    for n in range(1000):
        run.step(n)
    while "cannot write its heartbeat" not in pathlib.Path("training.log").read_text():
        time.sleep(0.05)
    assert not run.complete(wait_s=0.2)
    """
    site = replace(site, env={**site.env, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    trained = site.train(script)
    assert trained.exit == 0, trained.said
    assert trained.said.count("lastbeat cannot write its heartbeat") == 1
    # Not "keeps trying" as the last word of a process that ends, and with what to do about it.
    (last,) = [line for line in trained.said.splitlines() if "lastbeat could not write the end of this run" in line]
    assert "no connection" in last, last
    assert "AWS_ENDPOINT_URL" in last, last


def test_an_end_that_nobody_wrote_is_said_however_soon_it_comes(site: Site) -> None:
    site = replace(site, env={**site.env, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    trained = site.train('import lastbeat\nlastbeat.run("run-1").complete(wait_s=0)\n')
    assert trained.exit == 0, trained.said
    assert trained.said.count("lastbeat could not write the end of this run before its process ended") == 1


NARROW = [
    pytest.param("DELETE", "", id="that may not delete: an old _error counts for nothing all the same"),
    pytest.param("GET", "", id="that may not read"),
    pytest.param("PUT", "progress.json", id="that may not write one of the files"),
]


@pytest.mark.parametrize(("method", "contains"), NARROW)
def test_credentials(site: Site, fault_proxy: FaultProxy, method: str, contains: str) -> None:
    fault_proxy.inject(s3_error(403, "AccessDenied"), method=method, contains=contains)
    env = {"AWS_ENDPOINT_URL": fault_proxy.url}
    fails = 'import lastbeat\nwith lastbeat.run("run-1") as run:\n    run.step(1)\n    raise ValueError("%s")\n'
    completes = 'import lastbeat\nwith lastbeat.run("run-1") as run:\n    run.step(2)\n'
    assert site.train(fails % "first", **env).exit == 1
    assert site.look()["reason"] == "ValueError: first"
    assert site.train(completes, **env).exit == 0
    assert site.look()["status"] == "SUCCEEDED"
    assert site.train(fails % "third", **env).exit == 1
    found = site.look()
    assert (found["status"], found["reason"]) == ("FAILED", "ValueError: third")


def test_memory_does_not_grow_while_the_store_is_down(site: Site, fault_proxy: FaultProxy) -> None:
    script = """\
    import json, time, tracemalloc, gc
    import lastbeat
    run = lastbeat.run("run-1", total_steps=10**9)
    def steps(first, last):
        for n in range(first, last):
            run.step(n, loss=1.0 / (n + 1), learning_rate=3e-4, tokens=512, grad_norm=0.5)
            if n % 10_000 == 0:
                time.sleep(0.3)
    steps(0, 20_000)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    steps(20_000, 120_000)
    gc.collect()
    print(json.dumps({"grown": tracemalloc.get_traced_memory()[0] - before, "failures": run._reporter._failures}))
    run.complete(wait_s=0.1)
    """
    fault_proxy.inject(s3_error(503, "SlowDown"))
    with training(site, fault_proxy, script) as process:
        assert process.wait(LIMIT_S) == 0, site.said()
    (told,) = [line for line in site.said().splitlines() if line.startswith("{")]
    measured = json.loads(told)
    assert measured["failures"] >= 2
    assert measured["grown"] < 200_000
