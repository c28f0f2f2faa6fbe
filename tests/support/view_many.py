"""A large fleet, as mixed as fleets are, written in a few seconds."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from lastbeat.stores.port import Store
from support.view_places import Place, place_of
from support.view_world import HOUR, MINUTE, SdkWorld, sweep

FAMILIES = ("llama3-8b", "llama3-70b", "mistral-7b", "qwen2-72b", "phi-3-mini", "gemma-2b", "vit-l", "whisper-small",
            "t5-xxl", "bert-base", "sdxl-unet", "mixtral-8x7b")  # fmt: skip
TASKS = ("pretrain", "sft", "dpo", "eval", "sweep", "distill", "ablation")
PHASES = ("training", "training", "training", "evaluating", "checkpointing", "loading data")
_POINTS = 60
_ERRORS = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.15 GiB",
    "RuntimeError: NCCL communicator was aborted on rank 0",
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/shard-00417.tar'",
    "ValueError: Expected input batch_size (32) to match target batch_size (31)",
)


@dataclass
class _Run:
    run_id: str
    chance: random.Random
    began_s: float
    """Relative to now."""
    ends_s: float
    end: str
    """``_complete``, ``_error``, or empty: it only stops to write."""
    nan: bool
    total: int
    step_s: float
    error: str

    def step_at(self, when_s: float) -> int:
        return max(0, int((min(when_s, self.ends_s) - self.began_s) / self.step_s))


def many(at: Path | Store | Place, now: datetime, count: int = 5000, seed: int = 3, *, history: bool = True) -> None:
    """``count`` runs of which two in five run, and the others ended within a day: the same for the same seed. With
    ``history`` a pass looked at them five hours ago, too, which takes a third of the time."""
    runs = [_run(random.Random(f"{seed}/{number}"), number) for number in range(count)]
    world = SdkWorld(now, seed)
    for when_s in (-5 * HOUR, -20.0) if history else (-20.0,):
        world.at(when_s, _written(world, runs, when_s))
    if history:
        world.passes((-5 * HOUR, -5 * HOUR, 1.0))
    place = place_of(at)
    world.play().lay(place)
    sweep(place)


def _run(chance: random.Random, number: int) -> _Run:
    began_s = -chance.uniform(1, 23) * HOUR
    kind = chance.random()
    ends_s, end = 0.0, ""
    if kind < 0.5:
        ends_s, end = chance.uniform(began_s + 0.5 * HOUR, -60), "_complete"
    elif kind < 0.55:
        ends_s, end = chance.uniform(began_s + 0.5 * HOUR, -60), "_error"
    elif kind < 0.585:
        ends_s = chance.uniform(began_s + 0.5 * HOUR, -15 * MINUTE)
    return _Run(
        f"{chance.choice(FAMILIES)}-{chance.choice(TASKS)}-{number:05}",
        chance,
        began_s,
        ends_s,
        end,
        nan=chance.random() < 0.04,
        total=chance.choice((2_000, 10_000, 50_000, 120_000)),
        step_s=chance.uniform(0.5, 5.0),
        error=chance.choice(_ERRORS),
    )


def _written(world: SdkWorld, runs: list[_Run], when_s: float) -> Any:
    def write() -> None:
        for run in runs:
            if run.began_s <= when_s:
                for name, text, modified_s in _files(run, when_s, world.origin):
                    modified = world.origin + timedelta(seconds=modified_s)
                    world.store.put_text(f"{run.run_id}/{name}", text, modified=modified)

    return write


def _files(run: _Run, when_s: float, now: datetime) -> Iterator[tuple[str, str, float]]:
    """What it has written by then: name, text, when."""
    beat_s = min(when_s - run.chance.uniform(0, 25), run.ends_s)
    second = now.timestamp() + beat_s
    step = run.step_at(beat_s)
    beat = {
        "run_id": run.run_id, "status": "running", "phase": run.chance.choice(PHASES), "last_update": _iso(second),
        "start_time": _iso(now.timestamp() + run.began_s), "attempt": 1, "host": f"ip-10-0-{step % 250}-17",
        "instance_id": f"i-{run.chance.getrandbits(68):017x}", "zone": run.chance.choice(("us-east-1a", "us-east-1b")),
        "instance_type": "p5.48xlarge",
    }  # fmt: skip
    # What is written again before anybody looks needs no points.
    points = list(_points(run, beat_s, now.timestamp())) if when_s > -HOUR else []
    loss = points[-1][2] if points else None
    progress = {
        "run_id": run.run_id, "step": step, "total_steps": max(run.total, step), "loss": loss, "learning_rate": 3e-4,
        "steps_per_second": round(1 / run.step_s, 3), "tokens_per_second": round(131_072 / run.step_s, 1),
        "eta_s": round((max(run.total, step) - step) * run.step_s), "recent": points, "last_updated": _iso(second),
    }  # fmt: skip
    yield "metadata.json", json.dumps(beat), beat_s
    yield "progress.json", json.dumps(progress), beat_s
    if run.end and run.ends_s <= when_s:
        text = f"{run.error}\n" if run.end == "_error" else ""
        yield run.end, text, run.ends_s + 2


def _points(run: _Run, until_s: float, now: float) -> Iterator[list[Any]]:
    """Points of a walk at random that goes down on the whole."""
    chance = random.Random(run.run_id)
    loss = chance.uniform(4, 11)
    span_s = until_s - run.began_s
    for number in range(_POINTS):
        at_s = run.began_s + span_s * number / (_POINTS - 1)
        loss = max(0.3, loss * 0.97 + 0.25 * (chance.random() - 0.5))
        shown = "NaN" if run.nan and number > _POINTS - 5 else round(loss, 4)
        yield [round(now + at_s, 1), run.step_at(at_s), shown, 3e-4]


def _iso(second: float) -> str:
    return datetime.fromtimestamp(second, tz=timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
