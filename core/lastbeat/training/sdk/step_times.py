"""Measures the duration of steps and a rank's own share of it. The beat thread sums them up in windows.

In synchronous training every rank's steps take as long as the slowest rank's, which the others wait for. So a rank's
own time counts: that of its section ``compute``, or the rest of the step without its collectives, if either is
reported. Nothing here blocks, and a call from training costs some hundred nanoseconds.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from lastbeat.model.json_values import median
from lastbeat.model.stragglers import LEAST_STEPS, Basis, RankWindow
from lastbeat.training.sdk.curves import emptied

COMPUTE: Final = "compute"
"""The section in which a rank waits for no other."""
_BETWEEN_BEATS: Final = 8192
"""Most steps that are held between two beats, and most spans."""
MOST_STEPS: Final = 8192
"""Most steps that a window counts. When there are more, it counts every other one."""
_LEAST_S: Final = 1e-9


class SpanTimer(Protocol):
    """Measures the spans of ``compute`` in place of the host's clock, for example by events of a GPU. Raises
    nothing."""

    def begin(self) -> None:
        """Called when training enters ``compute``."""

    def end(self) -> None:
        """Called when training leaves ``compute``."""


class StepTimes:
    """Durations of steps, spans of ``compute`` and collectives. Training's threads add them, and the beat thread takes
    them.

    Only one step in ``every`` is measured.
    """

    __slots__ = ("_every", "count", "ends", "hears_collectives", "inside", "own", "timer", "waits")

    def __init__(self, every: int = 1) -> None:
        self._every = max(1, every)
        self.count = 0
        """Steps so far."""
        self.inside = 0
        """Number of open sections ``compute``."""
        self.ends: deque[tuple[int, float]] = deque(maxlen=_BETWEEN_BEATS)
        """Number of a step, and its end by the monotonic clock."""
        self.own: deque[tuple[int, float]] = deque(maxlen=_BETWEEN_BEATS)
        """Number of the step before a span of ``compute``, and the span's duration in s."""
        self.waits: deque[tuple[int, float, bool]] = deque(maxlen=_BETWEEN_BEATS)
        """Number of the step before a collective, its duration in s, and whether it was within ``compute``."""
        self.hears_collectives = False
        """Whether collectives are reported."""
        self.timer: SpanTimer | None = None
        """The timer for ``compute``; None for the host's clock."""

    def step(self, now: float) -> None:
        """Note that a step ended at ``now``."""
        self.count = count = self.count + 1
        if count % self._every < 2:
            self.ends.append((count, now))

    @property
    def measured(self) -> bool:
        """Whether the current step is measured."""
        return self.count % self._every == 0

    def enter(self) -> None:
        """Note that training enters ``compute``."""
        self.inside += 1
        if self.timer is not None:
            self.timer.begin()

    def leave(self, seconds: float) -> None:
        """Note that training leaves ``compute`` after ``seconds``."""
        self.inside -= 1
        if self.timer is not None:
            self.timer.end()
        elif self.count % self._every == 0:
            self.own.append((self.count, seconds))

    def waited(self, seconds: float) -> None:
        """Note that training was in a collective for ``seconds``."""
        if self.count % self._every == 0:
            self.waits.append((self.count, seconds, self.inside > 0))


class StepWindows:
    """Sums up the steps of ``rank`` in windows. For the beat thread."""

    def __init__(self, times: StepTimes, rank: int, node: str, every: int = 1) -> None:
        self._times, self._rank, self._node = times, rank, node
        self._stride = max(1, every)
        self._last: tuple[int, float] | None = None
        self._steps: dict[int, float] = {}
        self._own: dict[int, float] = {}
        self._waits: dict[int, float] = {}
        self._waits_inside: dict[int, float] = {}
        self._every = self._stride
        self._number = 0
        self._best_step_s = float("inf")
        self._best_own_s: dict[Basis, float] = {}

    def gather(self) -> None:
        """Take the durations that training has added since the last call."""
        # Training goes on adding meanwhile, so the deques cannot be iterated over. Ends of steps are taken first: then
        # all durations of an ended step have been added already.
        for end in emptied(self._times.ends):
            self._end(*end)
        for span in emptied(self._times.own):
            self._add(self._own, *span)
        for number, seconds, inside in emptied(self._times.waits):
            self._add(self._waits_inside if inside else self._waits, number, seconds)

    def _end(self, number: int, at: float) -> None:
        before, self._last = self._last, (number, at)
        if before is None or before[0] != number - 1 or before[0] % self._stride:
            return
        self._steps[before[0]] = at - before[1]
        if len(self._steps) > MOST_STEPS:
            self._stride *= 2
            self._keep(lambda number: number % self._stride == 0)

    def _add(self, to: dict[int, float], number: int, seconds: float) -> None:
        if number % self._stride == 0:
            to[number] = to.get(number, 0.0) + seconds

    def _keep(self, wanted: Callable[[int], bool]) -> None:
        for known in (self._steps, self._own, self._waits, self._waits_inside):
            for number in [each for each in known if not wanted(each)]:
                del known[number]

    def close(self) -> RankWindow | None:
        """End the window and return it. With fewer than :data:`LEAST_STEPS` steps, return None and continue the window,
        so that steps longer than a window are summed up too."""
        self.gather()
        if len(self._steps) < LEAST_STEPS:
            return None
        steps, own, waits, inside = (dict(each) for each in (self._steps, self._own, self._waits, self._waits_inside))
        # Durations within the current step belong to the next window.
        present = self._last[0] if self._last is not None else 0
        self._keep(lambda number: number >= present)
        self._stride = self._every
        basis: Basis = "step"
        times = [*steps.values()]
        # A GPU may not have reported the last steps yet.
        computed = [own[each] - inside.get(each, 0.0) for each in steps if each in own]
        if len(computed) >= LEAST_STEPS:
            basis, times = "compute", computed
        elif self._times.hears_collectives:
            basis = "outside_collectives"
            times = [step_s - waits.get(each, 0.0) - inside.get(each, 0.0) for each, step_s in steps.items()]
        step_s, own_s = max(_LEAST_S, median(steps.values())), max(_LEAST_S, median(times))
        self._number += 1
        self._best_step_s = min(self._best_step_s, step_s)
        best_own_s = self._best_own_s[basis] = min(self._best_own_s.get(basis, own_s), own_s)
        return RankWindow(
            self._rank, self._number, len(steps), step_s, own_s, self._best_step_s, best_own_s, basis, self._node
        )
