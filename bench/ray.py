"""Supervised jobs on a real Ray: from the death of one to the next one RUNNING, and what that asks of the dashboard."""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bench.server import CHECKOUT

if TYPE_CHECKING:
    from support.proxy import FaultProxy
    from support.ray_cluster import RayCluster

INTERVAL_S = 2
USUAL_S = 30
"""The interval of ``lastbeat supervise`` where nobody says one."""
FAULTS = 3
"""Of one run: what the budget of megatron_transient allows."""
LOOKS = 60
_LIMIT_S = 300.0
_JOB = "i=0; while :; do i=$((i + 1)); echo step $i/1000000 loss 2.5; sleep 0.2; done"


def tables(progress: Callable[[str], None], runs: int) -> Iterator[str]:
    """``runs``: supervised runs, each with FAULTS faults."""
    sys.path.insert(0, str(CHECKOUT / "tests"))
    from support import ray_cluster as ray  # noqa: PLC0415 - the tests' own cluster, and how it is started
    from support.proxy import run_proxy  # noqa: PLC0415 - as above

    if ray.WHY_NOT is not None:
        yield f"Not measured: {ray.WHY_NOT}."
        return
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lb-", dir="/tmp")))
        progress("a cluster of Ray")
        cluster = stack.enter_context(ray.cluster())
        progress("from the death of a job of Ray's to the next one")
        waits = [wait for number in range(runs) for wait in _recoveries(scratch / f"run-{number}", cluster)]
        yield f"| Ray stopped a job, to the next one RUNNING, a look every {INTERVAL_S} s | median | least | most |"
        yield "|---|---:|---:|---:|"
        figures = " | ".join(f"{each:.1f} s" for each in (statistics.median(waits), min(waits), max(waits)))
        yield f"| ray ({len(waits)} times) | {figures} |"
        yield ""
        progress(f"{LOOKS} looks at a job of Ray's")
        proxy = stack.enter_context(run_proxy(cluster.address))
        yield from _looks(scratch / "looks", proxy)


def _recoveries(folder: Path, cluster: "RayCluster") -> list[float]:
    """Seconds from each end of a job, by Ray's clock, to the next one RUNNING."""
    waits = []
    supervisor = _supervise(folder, cluster.address, INTERVAL_S)
    try:
        for number in range(FAULTS):
            job = _running(folder, cluster, number)
            time.sleep(1.5 + 0.7 * number)
            cluster.ask(f"/api/jobs/{job}/stop", {})
            _until(lambda job=job: cluster.ask(f"/api/jobs/{job}")["end_time"])  # type: ignore[misc]
            ended = cluster.ask(f"/api/jobs/{job}")["end_time"] / 1000
            _running(folder, cluster, number + 1)
            waits.append(time.time() - ended)
        return waits
    finally:
        _end(supervisor, folder, cluster.ask)


def _looks(folder: Path, proxy: "FaultProxy") -> Iterator[str]:
    """What the looks at a job that runs cost, and what that is in an hour."""
    supervisor = _supervise(folder, proxy.url, 1)
    try:
        _until(lambda: (_job(folder) or {}).get("state") == "RUNNING")
        lines = folder / "supervisor.log"
        before, seen, used_s = proxy.count(), _passes(lines), _cpu_s(supervisor.pid)
        _until(lambda: _passes(lines) >= seen + LOOKS)
        looks = _passes(lines) - seen
        asked, used_s = (proxy.count() - before) / looks, (_cpu_s(supervisor.pid) - used_s) / looks
        an_hour = 3600 / USUAL_S
        yield f"| an hour of supervision, a look every {USUAL_S} s, by {looks} looks | requests | CPU |"
        yield "|---|---:|---:|"
        # The GPUs of a cluster are counted once in 30 s: with each look there, and hardly ever in these.
        yield f"| `lastbeat supervise --launcher ray` | {(asked + 1) * an_hour:.0f} | {used_s * an_hour:.1f} s |"
    finally:
        _end(supervisor, folder, None)


def _supervise(folder: Path, address: str, interval_s: float) -> "subprocess.Popen[bytes]":
    (folder / "runs").mkdir(parents=True)
    command = (sys.executable, "-m", "lastbeat_cli", "supervise", "--run-id", folder.name, "--launcher", "ray")
    ends = ("--ray-address", address, "--policy", "megatron_transient", "--interval", str(interval_s), "--json")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("LASTBEAT_", "RAY_"))},
        "PYTHONPATH": f"{CHECKOUT}/core:{CHECKOUT}/cli",
        "MONITORING_ROOT": str(folder / "runs"),
        "LASTBEAT_STATE_DIR": str(folder / "state"),
        "LASTBEAT_RESTART_DELAY_SECONDS": "0",
    }
    with (folder / "supervisor.log").open("wb") as said:
        return subprocess.Popen(
            [*command, *ends, "--cancel-on-exit", "--", "sh", "-c", _JOB],
            cwd=folder,
            env=environment,
            stdout=said,
            stderr=subprocess.DEVNULL,
        )


def _end(supervisor: "subprocess.Popen[bytes]", folder: Path, ask: Callable[..., object] | None) -> None:
    supervisor.send_signal(signal.SIGINT)
    try:
        supervisor.wait(60)
    except subprocess.TimeoutExpired:
        supervisor.kill()
        supervisor.wait()
    job = _job(folder)
    if ask is not None and job:
        ask(f"/api/jobs/{job['id'].partition('@session_')[0]}/stop", {})


def _job(folder: Path) -> dict[str, str] | None:
    record = folder / "runs" / folder.name / "_watchdog.json"
    found: dict[str, str] | None = json.loads(record.read_text()).get("job") if record.exists() else None
    return found


def _running(folder: Path, cluster: "RayCluster", number: int) -> str:
    """The id of that job, once Ray says that it runs."""

    def look() -> str | None:
        job = _job(folder)
        if not job or int(job["number"]) != number:
            return None
        submission_id = job["id"].partition("@session_")[0]
        return submission_id if cluster.ask(f"/api/jobs/{submission_id}")["status"] == "RUNNING" else None

    return _until(look) or ""


def _passes(log: Path) -> int:
    return log.read_bytes().count(b"\n")


def _until(look: Callable[[], object]) -> str | None:
    end = time.monotonic() + _LIMIT_S
    while not (found := look()):
        if time.monotonic() > end:
            raise RuntimeError(f"not so within {_LIMIT_S:g} s")
        time.sleep(0.05)
    return found if isinstance(found, str) else None


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
