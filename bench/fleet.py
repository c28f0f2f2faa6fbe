"""A fleet watched by a sweep and by what today's scripts do: requests and dollars, wall and CPU time, memory."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from bench import fleet_counts, fleet_runs
from bench.fleet_counts import FINISHED_S, Fleet
from bench.fleet_servers import Server, moto, seaweed
from bench.server import BUCKET, CHECKOUT, PREFIX

COUNTED = (Fleet(10), Fleet(100), Fleet(1000), Fleet(10_000), Fleet(100, 100_000))
COUNTED_PASSES = 60
TRADED = (Fleet(10, 3000), Fleet(100, 10_000), Fleet(100, 100_000))
TRADED_MINUTES = (5.0, 15.0, 60.0)
MEASURED = {
    # moto sorts all of its keys for each page of a listing, so that many keys take it minutes.
    "moto": (Fleet(10), Fleet(1000), Fleet(10_000), Fleet(100, 10_000)),
    "SeaweedFS": (Fleet(10), Fleet(1000), Fleet(10_000), Fleet(100, 100_000)),
}
PASSES, PASSES_OF_MANY = 15, 6
"""Of a sweep, after the first: all that lie between two readings of a heartbeat that only moves on. Of ten thousand
runs there are fewer, each of which reads more."""
SETTLE_S = 1.1
"""Between the beats and a pass: a file that is younger than the store's clock can tell is recorded, which is rare."""
LEAST_PERIOD_S = 0.5
NEWS_S = 20.0
"""What ended so long ago is history here, instead of a day."""


@dataclass(frozen=True)
class Measured:
    """Seconds and megabytes. ``first`` is the pass that finds everything, in a process that has just begun."""

    server: str
    fleet: Fleet
    first: Mapping[str, Any]
    each: Sequence[Mapping[str, Any]]
    poller: Mapping[str, Any]

    @property
    def wall_s(self) -> float:
        return statistics.fmean(one["wall_s"] for one in self.each)

    @property
    def cpu_s(self) -> float:
        return statistics.fmean(one["cpu_s"] for one in self.each)

    @property
    def peak_mb(self) -> float:
        return float(max(one["peak_mb"] for one in (self.first, *self.each)))


@contextmanager
def child(what: str, environment: Mapping[str, str], *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "bench.fleet_child", what, *arguments]
    paths = {"PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'core'}"}
    with tempfile.TemporaryDirectory(prefix="lastbeat-bench-") as folder, subprocess.Popen(
        command, cwd=folder, env={**environment, **paths}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait(timeout=60)


def one_pass(process: "subprocess.Popen[str]") -> dict[str, Any]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the process has no pipes")
    process.stdin.write("\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a process ended in the middle of a pass: {process.args!r}")
    took: dict[str, Any] = json.loads(line)
    return took


def measure(server: Server, fleet: Fleet) -> Measured:
    """Passes one after the other while the runs beat, then one pass of the poller."""
    begin(server, fleet)
    # The whole is played faster than it is: each pass stands for a minute, and every limit is as much shorter.
    with tempfile.TemporaryDirectory(prefix="lastbeat-bench-") as folder:
        period_s, passes = _period_s(server, fleet), PASSES if fleet.active < 5000 else PASSES_OF_MANY
        minutes = period_s / 60
        environment = {
            **server.environment,
            "MONITORING_ROOT": f"s3://{BUCKET}/{PREFIX}",
            "LASTBEAT_STATE_DIR": folder,
            "LASTBEAT_INTERVAL_SECONDS": f"{period_s:.4f}",
            "LASTBEAT_SWEEP": f"read_minutes:{passes * minutes:.4f},discover_minutes:{5 * minutes:.4f}"
            + (f",news_hours:{NEWS_S / 3600:.4f}" if fleet.finished else ""),
        }
        with child("sweep", environment) as process:
            first = one_pass(process)
            each = []
            for step in range(1, passes + 1):
                due = time.monotonic() + period_s
                server.fill(_beats(fleet, step))
                time.sleep(SETTLE_S)
                each.append(one_pass(process))
                time.sleep(max(0.0, due - time.monotonic()))
        wanted = Path(folder, "runs")
        wanted.write_text("\n".join(fleet.runs), encoding="utf-8")
        with child("poller", server.environment, str(wanted)) as process:
            server.fill(_beats(fleet, PASSES + 1))
            poller = one_pass(process)
    for found in (first, *each, poller):
        if found["statuses"].get("RUNNING") != fleet.active:
            raise RuntimeError(f"{fleet.name} on {server.name}: not all were seen to run: {found}")
    return Measured(server.name, fleet, first, each, poller)


def begin(server: Server, fleet: Fleet) -> None:
    now = datetime.now(timezone.utc)
    old = now - timedelta(seconds=FINISHED_S)
    server.fill(file for run in fleet.over for file in fleet_runs.leftover(run, old))
    if fleet.finished:
        # No server lets a file be older than it is.
        time.sleep(NEWS_S + 1)
    server.fill(file for run in fleet.runs for file in fleet_runs.active(run, 0, now))


def _beats(fleet: Fleet, step: int) -> Iterator[tuple[str, bytes]]:
    now = datetime.now(timezone.utc)
    return (file for run in fleet.runs for file in fleet_runs.beat(run, step, now))


def _period_s(server: Server, fleet: Fleet) -> float:
    """Long enough for a pass and for what beats before it."""
    began = time.monotonic()
    server.fill(_beats(fleet, 0))
    return LEAST_PERIOD_S + SETTLE_S + 2 * (time.monotonic() - began) + fleet.active / 1000


def counted() -> Iterator[str]:
    yield from fleet_counts.table(COUNTED, COUNTED_PASSES)
    yield ""
    yield from fleet_counts.trade(TRADED, TRADED_MINUTES, COUNTED_PASSES)


def measured(progress: Callable[[str], None]) -> Iterator[str]:
    yield "| passes after the first, on average | first | wall | poller | CPU | poller | poller ÷ sweep | peak memory |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for found in _all_measured(progress):
        poller = found.poller
        times = (found.first["wall_s"], found.wall_s, poller["wall_s"], found.cpu_s, poller["cpu_s"])
        shown = " | ".join(f"{seconds:.3g} s" for seconds in times)
        share = poller["cpu_s"] / found.cpu_s
        yield f"| {found.server}, {found.fleet.name} | {shown} | {share:.0f} | {found.peak_mb:.0f} MB |"


def _all_measured(progress: Callable[[str], None]) -> Iterator[Measured]:
    for start in (moto, seaweed):
        with start() as tried:
            wanted = MEASURED[tried.name] if tried is not None else ()
        for fleet in wanted:
            with start() as server:
                if server is not None:
                    progress(f"{fleet.name} on {server.name}")
                    yield measure(server, fleet)
