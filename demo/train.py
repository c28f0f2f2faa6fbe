"""A small real training run that reports itself: the lines with ``run`` in them are all that it takes.

    PYTHONPATH=core python demo/train.py --run-dir training-runs/spirals-1

A network of two layers learns to tell three spirals apart. ``--growth`` multiplies the learning rate after
each step; much above 1 the run diverges and numpy raises, as it does when a schedule has lost its brake.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

import lastbeat

if TYPE_CHECKING:
    from lastbeat.training.sdk.run import Run

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CLASSES, POINTS_A_CLASS, HIDDEN, BATCH = 3, 300, 64, 60
WEIGHT_DECAY = 0.002
SEED = 7
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


def train(run: "Run", *, steps: int, growth: float, seconds_a_step: float) -> None:
    """``steps`` times over the data. Raises FloatingPointError when the loss is no number."""
    rng = np.random.default_rng(SEED)
    with run.phase("setup", detail="spirals"):
        points, labels = spirals(rng)
        network = Network(rng)
    learning_rate = 0.3
    for step in range(1, steps + 1):
        began = time.monotonic()
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            losses = [
                network.descend(points[i : i + BATCH], labels[i : i + BATCH], learning_rate)
                for i in range(0, labels.size, BATCH)
            ]
        loss = float(np.mean(losses))
        run.step(step, loss=loss, learning_rate=learning_rate, tokens=labels.size)
        if step == 1 or step % LOG_EVERY == 0:
            print(f"step {step}/{steps}  loss {loss:.3f}  learning rate {learning_rate:.3g}", flush=True)
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
    root, run_id = str(args.run_dir.parent), args.run_dir.name
    try:
        with lastbeat.run(run_id, total_steps=args.steps, root=root, capture=True) as run:
            print(f"{run_id} starts on {os.cpu_count()} cores, process {os.getpid()}", flush=True)
            train(run, steps=args.steps, growth=args.growth, seconds_a_step=args.seconds_a_step)
    except FloatingPointError as error:
        # The watcher knows already, and the stack trace lies in _error.
        print(f"{type(error).__name__}: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
