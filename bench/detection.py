"""From the death of a process to the alert about it: ``lastbeat exec`` round a child that is killed, a loop that looks
once a second, and a server that takes the alert as Slack does."""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.server import BUCKET, CHECKOUT, PREFIX, S3

_LIMIT_S = 60.0
_CHILD = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(600)"


@contextmanager
def _slack() -> Iterator[tuple[str, list[float]]]:
    """Its address, and when alerts came, by ``time.monotonic()``."""
    came: list[float] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(time.monotonic())
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/services/T/B/X", came
    finally:
        server.shutdown()
        server.server_close()


def delays_s(server: S3, times: int) -> list[float]:
    """Seconds from SIGKILL of the child to the alert, ``times`` times, each with a run of its own."""
    with _slack() as (url, came):
        own = {"SLACK_WEBHOOK_URL": url, "MONITORING_ROOT": f"s3://{BUCKET}/{PREFIX}"}
        environment = {**server.environment, **own, "PYTHONPATH": f"{CHECKOUT}/core:{CHECKOUT}/cli"}
        with tempfile.TemporaryDirectory(prefix="lastbeat-bench-") as folder:
            return [_one(f"killed-{number}", Path(folder), environment, came) for number in range(times)]


def _one(run_id: str, folder: Path, environment: dict[str, str], came: list[float]) -> float:
    lastbeat = (sys.executable, "-m", "lastbeat_cli")
    wrapper = subprocess.Popen(
        [*lastbeat, "exec", "--run-id", run_id, "--", sys.executable, "-c", _CHILD],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert wrapper.stdout is not None
    child = int(wrapper.stdout.readline())
    watch = [sys.executable, str(Path(CHECKOUT, "cli", "monitor.py")), "--run-id", run_id, "--interval", "1", "--json"]
    # The run is there before it is looked for, and the loop is in its stride before the child dies.
    time.sleep(2)
    watcher = subprocess.Popen(watch, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert watcher.stdout is not None
    for _ in range(2):
        watcher.stdout.readline()
    before = len(came)
    # Anywhere between two looks.
    time.sleep(0.2 + 0.17 * (os.getpid() + int(run_id.split("-")[1])) % 1)
    os.kill(child, signal.SIGKILL)
    killed = time.monotonic()
    while len(came) == before and time.monotonic() - killed < _LIMIT_S:
        time.sleep(0.002)
    for process in (watcher, wrapper):
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    return came[before] - killed if len(came) > before else float("inf")


def table(server: S3, times: int) -> Iterator[str]:
    delays = delays_s(server, times)
    yield "| from SIGKILL of a child of `lastbeat exec` to the alert, the loop looking each second | median | longest |"
    yield "|---|---:|---:|"
    yield f"| moto, {times} times | {statistics.median(delays):.2f} s | {max(delays):.2f} s |"
