"""The runs that the fleet's benchmarks watch: what training writes of them, as S3 keys and bodies."""

import json
from collections.abc import Iterator
from datetime import datetime

Files = Iterator[tuple[str, bytes]]

_STARTED = "2026-01-01T06:00:00Z"
_LOG = b"".join(b"step %6d loss 2.31 lr 3e-4 12.4 it/s\n" % step for step in range(50))


def run_id(number: int, kind: str = "run") -> str:
    return f"{kind}-{number:06}"


def beat(run: str, step: int, now: datetime) -> Files:
    """Both heartbeats."""
    said = now.isoformat().replace("+00:00", "Z")
    metadata = {
        "run_id": run,
        "status": "RUNNING",
        "phase": "training",
        "last_update": said,
        "instance_id": "i-0abc1234def567890",
        "start_time": _STARTED,
    }
    progress = {"step": step, "total_steps": 100_000, "loss": 2.31, "learning_rate": 3e-4, "last_updated": said}
    yield f"{run}/metadata.json", json.dumps(metadata).encode()
    yield f"{run}/progress.json", json.dumps(progress).encode()


def active(run: str, step: int, now: datetime) -> Files:
    """All that training writes while it runs."""
    yield from beat(run, step, now)
    yield f"{run}/logs/training_log_latest.txt", _LOG


def finished(run: str, now: datetime) -> Files:
    yield from active(run, 10_000, now)
    yield f"{run}/_complete", b""


def leftover(run: str, now: datetime) -> Files:
    """The two files of a finished run that tell most, where a server takes too long to be given all of them."""
    yield next(beat(run, 10_000, now))
    yield f"{run}/_complete", b""
