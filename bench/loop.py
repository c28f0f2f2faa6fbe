"""What a pass over one healthy run asks of the store, counted at the store."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone

from bench.server import BUCKET, CHECKOUT, PREFIX, S3, Counts

WARM_PASSES = 3


@dataclass(frozen=True)
class Passes:
    """The requests of ``count`` passes together."""

    count: int
    counts: Counts

    @property
    def requests(self) -> float:
        return self.counts.total / self.count

    @property
    def bytes(self) -> float:
        return self.counts.bytes / self.count

    @property
    def kinds(self) -> str:
        return ", ".join(f"{n / self.count:g} {kind}" for kind, n in sorted(self.counts.requests.items()))


def beat(server: S3, run_id: str, step: int) -> None:
    """Both heartbeats, as training writes them."""
    now = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
    metadata = {"run_id": run_id, "status": "RUNNING", "phase": "training", "last_update": now, "instance_id": "i-1"}
    progress = {"step": step, "total_steps": 10_000, "loss": 2.0 - step / 10_000, "last_updated": now}
    server.put(f"{run_id}/metadata.json", json.dumps(metadata).encode())
    server.put(f"{run_id}/progress.json", json.dumps(progress | {"learning_rate": 3e-4}).encode())


def healthy(server: S3, run_id: str, passes: int, *, beating: bool) -> Passes:
    """Watch ``run_id`` for some passes. ``beating``: both heartbeats are new at each pass."""
    beat(server, run_id, 0)
    with _watch(server, run_id) as next_pass:
        for _ in range(WARM_PASSES):
            next_pass()
        before = server.counts()
        for step in range(1, passes + 1):
            if beating:
                beat(server, run_id, step)
            status = next_pass()
            if status != "RUNNING":
                raise RuntimeError(f"the healthy run is {status}")
        return Passes(passes, server.counts().since(before))


@contextmanager
def _watch(server: S3, run_id: str) -> Iterator[Callable[[], str]]:
    command = [sys.executable, str(CHECKOUT / "cli" / "monitor.py"), "--run-id", run_id]
    command += ["--root", f"s3://{BUCKET}/{PREFIX}", "--interval", "0.5", "--json"]
    with subprocess.Popen(
        command, cwd=CHECKOUT / "bench", env=server.environment, stdout=subprocess.PIPE, text=True
    ) as child:

        def next_pass() -> str:
            line = child.stdout.readline() if child.stdout is not None else ""
            if not line:
                raise RuntimeError(f"the watch ended: {' '.join(command)}")
            return str(json.loads(line)["status"])

        try:
            yield next_pass
        finally:
            child.terminate()
