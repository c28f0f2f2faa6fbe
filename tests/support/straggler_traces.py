"""Simulated step times of a large training, with the kinds of noise that healthy clusters have.

What a rank's steps take of its own, relative to the median rank:

- GPUs of one kind are not alike: 1.5 % standard deviation, and 0.7 % between nodes (P. Sinha et al., "Not All GPUs Are
  Created Equal", SC 2022, find 8 % between the slowest and the fastest of a cluster on average, 22 % at most).
- Temperature makes clocks wander: 1 % up and down over hours, each node in a rhythm of its own.
- Single steps vary: 3 %, log-normal; one of a hundred takes twice as long.
- Something disturbs a rank now and then (a log rotation, a checkpoint's upload, a noisy neighbour): once an hour,
  for one second to two minutes (log-uniform), and makes it up to twice as slow. What lasts for longer than a window is
  no noise: then the rank is slow.
- The work changes for all ranks together: longer sequences, an evaluation.
"""

import math
import random
from collections.abc import Callable, Iterator
from statistics import median

from lastbeat.model.stragglers import RankWindow

WINDOW_S = 300.0
_RANKS_A_NODE = 8
_STEPS = 25
"""So many steps of a window are drawn: fewer than it has, so medians are noisier than real ones."""
_HICCUPS_AN_HOUR = 1.0
_HICCUP_S = (1.0, 120.0)


def windows(
    ranks: int, count: int, seed: int, slowed: Callable[[int, int], float] = lambda _rank, _window: 1.0
) -> Iterator[list[RankWindow]]:
    """Window after window of all ranks. ``slowed``: rank and window → so many times as long as it would take."""
    draw = random.Random(seed)
    nodes = [draw.gauss(0, 0.007) for _ in range(-(-ranks // _RANKS_A_NODE))]
    phases = [draw.uniform(0, 2 * math.pi) for _ in nodes]
    own = [1 + draw.gauss(0, 0.015) + nodes[rank // _RANKS_A_NODE] for rank in range(ranks)]
    best_own, best_step = [math.inf] * ranks, math.inf
    quiet_until = [draw.expovariate(_HICCUPS_AN_HOUR / 3600) for _ in range(ranks)]
    hiccup = [(0.0, 0.0, 1.0)] * ranks
    for window in range(count):
        begins = window * WINDOW_S
        work_s = 0.4 * (1 + 0.05 * math.sin(window / 40))
        times = list[float]()
        for rank in range(ranks):
            node = rank // _RANKS_A_NODE
            usual_s = work_s * own[rank] * (1 + 0.01 * math.sin(begins / 7200 + phases[node])) * slowed(rank, window)
            drawn = list[float]()
            for step in range(_STEPS):
                at = begins + step * WINDOW_S / _STEPS
                if at >= quiet_until[rank]:
                    ends = at + math.exp(draw.uniform(*map(math.log, _HICCUP_S)))
                    hiccup[rank] = (at, ends, draw.uniform(1.1, 2.0))
                    quiet_until[rank] = ends + draw.expovariate(_HICCUPS_AN_HOUR / 3600)
                factor = hiccup[rank][2] if hiccup[rank][0] <= at < hiccup[rank][1] else 1.0
                factor *= 2.0 if draw.random() < 0.01 else 1.0
                drawn.append(usual_s * factor * math.exp(draw.gauss(0, 0.03)))
            times.append(median(drawn))
        # All of them wait for the slowest.
        step_s = max(times) * 1.1
        best_step = min(best_step, step_s)
        best_own = [min(best, now) for best, now in zip(best_own, times, strict=True)]
        yield [
            RankWindow(
                rank,
                window + 1,
                int(WINDOW_S / step_s),
                step_s,
                times[rank],
                best_step,
                best_own[rank],
                "compute",
                f"h100-{rank // _RANKS_A_NODE:03}",
            )
            for rank in range(ranks)
        ]
