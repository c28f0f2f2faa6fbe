"""How long steps take, and what of that is a rank's own: told by training with each step, summed up in windows by the
beat thread.

In synchronous training every rank's steps take as long as the slowest rank's, which the others wait for. So a rank's
own time counts: that of its section ``compute``, or what is left of the step without its collectives, as far as anybody
tells of either. Nothing here blocks, and what training does to it costs some hundred nanoseconds.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from lastbeat.model.numbers import median
from lastbeat.model.stragglers import LEAST_STEPS, Basis, RankWindow

COMPUTE: Final = "compute"
"""The section in which a rank waits for no other."""
_BETWEEN_BEATS: Final = 8192
"""So many steps are held between two beats, and as many spans."""
MOST_STEPS: Final = 8192
"""So many steps of a window count: of more, every other one."""
_LEAST_S: Final = 1e-9


class SpanTimer(Protocol):
    """Measures the spans of ``compute`` in place of the host's clock: by events of a GPU, say. Raises nothing."""

    def begin(self) -> None:
        """Training enters one."""
        ...

    def end(self) -> None:
        """Training leaves it."""
        ...


class StepTimes:
    """What training tells. Its methods are for training's threads; what they leave here the beat thread takes away.

    ``every``: only each so many-th step is measured.
    """

    __slots__ = ("_every", "count", "ends", "hears_collectives", "inside", "own", "timer", "waits")

    def __init__(self, every: int = 1) -> None:
        self._every = max(1, every)
        self.count = 0
        """Steps so far."""
        self.inside = 0
        """So many sections ``compute`` are open."""
        self.ends: deque[tuple[int, float]] = deque(maxlen=_BETWEEN_BEATS)
        """Number of a step and when it ended, by the monotonic clock."""
        self.own: deque[tuple[int, float]] = deque(maxlen=_BETWEEN_BEATS)
        """Number of the step before, and how long training was in ``compute``, in s."""
        self.waits: deque[tuple[int, float, bool]] = deque(maxlen=_BETWEEN_BEATS)
        """The same of a collective, and whether it was within ``compute``."""
        self.hears_collectives = False
        """Somebody tells of collectives."""
        self.timer: SpanTimer | None = None
        """None: the host's clock is what counts."""

    def step(self, now: float) -> None:
        """A step has ended."""
        self.count = count = self.count + 1
        if count % self._every < 2:
            self.ends.append((count, now))

    @property
    def measured(self) -> bool:
        """Whether the present step is one of those that are."""
        return self.count % self._every == 0

    def enter(self) -> None:
        """Training enters ``compute``."""
        self.inside += 1
        if self.timer is not None:
            self.timer.begin()

    def leave(self, seconds: float) -> None:
        """Training leaves it, after so long."""
        self.inside -= 1
        if self.timer is not None:
            self.timer.end()
        elif self.count % self._every == 0:
            self.own.append((self.count, seconds))

    def waited(self, seconds: float) -> None:
        """Training was in a collective."""
        if self.count % self._every == 0:
            self.waits.append((self.count, seconds, self.inside > 0))


class StepWindows:
    """Makes windows of what training tells of ``rank``. For the beat thread."""

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
        """Take what training has told since."""
        # Training goes on adding meanwhile, so nothing is walked through. Ends first: then all that belongs to a step
        # which has ended is here, too.
        with suppress(IndexError):
            while True:
                self._end(*self._times.ends.popleft())
        with suppress(IndexError):
            while True:
                self._add(self._own, *self._times.own.popleft())
        with suppress(IndexError):
            while True:
                number, seconds, inside = self._times.waits.popleft()
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
        """End the window: what it was. None while it has fewer than :data:`LEAST_STEPS` steps: it goes on then, so that
        steps that take longer than a window are summed up, too."""
        self.gather()
        if len(self._steps) < LEAST_STEPS:
            return None
        steps, own, waits, inside = (dict(each) for each in (self._steps, self._own, self._waits, self._waits_inside))
        # What training has told of the step that it is in belongs to the next window.
        present = self._last[0] if self._last is not None else 0
        self._keep(lambda number: number >= present)
        self._stride = self._every
        basis: Basis = "step"
        times = [*steps.values()]
        # Of the last steps a GPU may not have told yet.
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
