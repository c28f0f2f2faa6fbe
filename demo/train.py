"""A small real training run that leaves the files lastbeat looks for, with nothing but numpy and ``open``.

    python demo/train.py --run-dir training-runs/spirals-1

A network of two layers learns to tell three spirals apart. ``--growth`` multiplies the learning rate after
each step; much above 1 the run diverges and numpy raises, as it does when a schedule has lost its brake.
"""

import argparse
import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CLASSES, POINTS_A_CLASS, HIDDEN, BATCH = 3, 300, 64, 60
WEIGHT_DECAY = 0.002
SEED = 7
LOG_LINES = 200
LOG_EVERY = 25


def spirals(rng: np.random.Generator) -> tuple[Floats, Ints]:
    """Points of shape (900, 2), shuffled, and the class of each."""
    labels = np.repeat(np.arange(CLASSES), POINTS_A_CLASS)
    radius = np.tile(np.linspace(0.05, 1.0, POINTS_A_CLASS), CLASSES)
    angle = 4.0 * radius + labels * (2 * np.pi / CLASSES) + rng.normal(0.0, 0.15, labels.size)
    points = np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1)
    order = rng.permutation(labels.size)
    return points[order], labels[order]


class Network:
    """tanh between two linear layers, softmax and cross-entropy on top, plain gradient descent."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.w1 = rng.normal(0.0, 1.0, (2, HIDDEN))
        self.b1 = np.zeros(HIDDEN)
        self.w2 = rng.normal(0.0, 1.0 / np.sqrt(HIDDEN), (HIDDEN, CLASSES))
        self.b2 = np.zeros(CLASSES)

    def descend(self, points: Floats, labels: Ints, learning_rate: float) -> float:
        """One step down the gradient of one batch; its loss before the step."""
        hidden = np.tanh(points @ self.w1 + self.b1)
        scores = hidden @ self.w2 + self.b2
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances = odds / odds.sum(axis=1, keepdims=True)
        rows = np.arange(labels.size)
        loss = float(-np.log(chances[rows, labels]).mean())

        by_score = chances.copy()
        by_score[rows, labels] -= 1.0
        by_score /= labels.size
        by_hidden = (by_score @ self.w2.T) * (1.0 - hidden**2)
        self.w2 -= learning_rate * (hidden.T @ by_score + WEIGHT_DECAY * self.w2)
        self.b2 -= learning_rate * by_score.sum(axis=0)
        self.w1 -= learning_rate * (points.T @ by_hidden + WEIGHT_DECAY * self.w1)
        self.b1 -= learning_rate * by_hidden.sum(axis=0)
        return loss


def write_whole(path: Path, text: str) -> None:
    """Readers see the old file or the new one, never a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def now() -> str:
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


@dataclass
class Beats:
    """The run's files. A step that takes long would want the metadata heartbeat in a thread of its own."""

    folder: Path
    total_steps: int
    started: str = field(default_factory=now)
    log: list[str] = field(default_factory=list)

    def alive(self, phase: str) -> None:
        document = {
            "run_id": self.folder.name,
            "status": "RUNNING",
            "phase": phase,
            "last_update": now(),
            "start_time": self.started,
            "instance_id": socket.gethostname(),
        }
        write_whole(self.folder / "metadata.json", json.dumps(document))

    def progress(self, step: int, loss: float, learning_rate: float) -> None:
        document = {
            "step": step,
            "total_steps": self.total_steps,
            "loss": loss,
            "learning_rate": learning_rate,
            "last_updated": now(),
        }
        write_whole(self.folder / "progress.json", json.dumps(document))

    def note(self, line: str) -> None:
        print(line, flush=True)
        self.log = [*self.log[-LOG_LINES:], f"{now()[11:19]} {line}"]
        write_whole(self.folder / "logs" / "training_log_latest.txt", "\n".join(self.log) + "\n")

    def complete(self) -> None:
        write_whole(self.folder / "_complete", "")

    def error(self, error: Exception) -> None:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.note(f"{type(error).__name__}: {error}")
        write_whole(self.folder / "_error", f"{type(error).__name__}: {error}\n\n{trace}")


def train(beats: Beats, *, growth: float, seconds_a_step: float) -> None:
    """``beats.total_steps`` times over the data. Raises FloatingPointError when the loss is no number."""
    rng = np.random.default_rng(SEED)
    points, labels = spirals(rng)
    network = Network(rng)
    learning_rate = 0.3
    for step in range(1, beats.total_steps + 1):
        began = time.monotonic()
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            losses = [
                network.descend(points[i : i + BATCH], labels[i : i + BATCH], learning_rate)
                for i in range(0, labels.size, BATCH)
            ]
        loss = float(np.mean(losses))
        beats.progress(step, loss, learning_rate)
        beats.alive("training")
        if step == 1 or step % LOG_EVERY == 0:
            beats.note(f"step {step}/{beats.total_steps}  loss {loss:.3f}  learning rate {learning_rate:.3g}")
        learning_rate *= growth
        # So small a network would be done before anyone could watch it.
        time.sleep(max(0.0, seconds_a_step - (time.monotonic() - began)))


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run-dir", type=Path, required=True, help="FLEET-ROOT/RUN-ID")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--growth", type=float, default=1.0)
    parser.add_argument("--seconds-a-step", type=float, default=0.04)
    args = parser.parse_args(argv)
    beats = Beats(args.run_dir, args.steps)
    beats.alive("setup")
    beats.note(f"{args.run_dir.name} starts on {os.cpu_count()} cores, process {os.getpid()}")
    try:
        train(beats, growth=args.growth, seconds_a_step=args.seconds_a_step)
    except Exception as error:
        # Whatever ended training, the watcher is to know; the stack trace lies in _error.
        beats.error(error)
        raise SystemExit(1) from error
    beats.complete()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
