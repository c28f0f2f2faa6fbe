"""A fleet as people look at it: runs that live, and runs that ended today, with all that the SDK writes of them."""

import json
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

Files = Iterator[tuple[str, bytes]]
POINTS = 120
_TOTAL = 100_000
_FAMILIES = ("llama3-8b", "mistral-7b", "qwen2-72b", "vit-l", "t5-xxl", "whisper-small", "bert-base")
_PHASES = ("training", "training", "training", "evaluating", "checkpointing")
_ERRORS = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB", "ValueError: batch of size 31")


def run_id(number: int) -> str:
    """The same for the same number, and spread over the alphabet."""
    chance = random.Random(number)
    return f"{chance.choice(_FAMILIES)}-{chance.randrange(16**6):06x}-{number:05}"


def lives(number: int) -> bool:
    """Two in five do; the others ended today."""
    return number % 5 < 2


def beat(number: int, step: int, now: datetime) -> Files:
    """Both heartbeats of a run at its ``step``-th beat."""
    chance = random.Random(f"{number}/{step}")
    run, at, loss = run_id(number), now.timestamp(), 10 ** chance.uniform(-1, 1)
    told = now.isoformat().replace("+00:00", "Z")
    # Losses as noisy as any, so that they pack no better than real ones.
    recent = [
        [round(at - 60 * back, 3), 1000 + step * 50 - back, loss * chance.uniform(0.9, 1.1) * (1 + back / 60), 3e-4]
        for back in range(POINTS - 1, -1, -1)
    ]
    speed = float(f"{chance.uniform(0.5, 20):.4g}")
    progress: dict[str, Any] = {
        "run_id": run, "phase": chance.choice(_PHASES), "step": recent[-1][1], "total_steps": _TOTAL,
        "loss": recent[-1][2], "learning_rate": 3e-4, "steps_per_second": speed,
        "tokens_per_second": round(speed * 131_072), "eta_s": round(_TOTAL / speed), "recent": recent,
        "last_updated": told,
    }  # fmt: skip
    metadata = {
        "run_id": run, "status": "running", "phase": progress["phase"], "last_update": told,
        "start_time": (now - timedelta(hours=20)).isoformat(), "attempt": 1,
        "instance_id": f"i-{chance.randrange(16**17):017x}", "host": f"ip-10-0-{number % 250}-{number % 199}",
    }  # fmt: skip
    yield f"{run}/metadata.json", json.dumps(metadata).encode()
    yield f"{run}/progress.json", json.dumps(progress).encode()


def whole(number: int, now: datetime) -> Files:
    """All that lies there of a run."""
    yield from beat(number, 0, now)
    run = run_id(number)
    yield f"{run}/logs/training_log_latest.txt", b"".join(b"step %6d loss 2.31\n" % step for step in range(50))
    if not lives(number):
        error = _ERRORS[number % 2]
        yield (f"{run}/_error", error.encode()) if number % 5 == 2 else (f"{run}/_complete", b"")
