"""Step times of trainings, as recordings of real ones look: warm-up, steps with heavy tails, data that stalls, slow
saves, evaluations, drift, attempts that die early. Made by chance from a seed, the same each time, without a clock.

A trace is a sequence of :class:`Span`, one after the other in every attempt. At known places a :class:`Hang` precedes
one: were it never to end, after how long would somebody be told? The span itself then ends as ever.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

STEP, SAVE, EVALUATE, SETUP = "step", "checkpointing", "evaluation", "setup"
_WARM_UP = 3
_TAIL, _STALLS, _SLOW_SAVES = 0.01, 1 / 4000, 0.03
"""So often a step has a heavy tail or waits for its data, and a save is slow."""
_LONG_ATTEMPT = 5000
"""Attempts of fewer steps were killed."""
_LEARNING = 3000
"""No hang in an attempt's first steps;"""
_STEPS_A_HANG = 2003
"""then one in each so many steps,"""
_EVENTS_A_HANG, _HANGS_FROM = 7, 3
"""and in each so many saves and each so many evaluations, from the third time on."""


class Span(NamedTuple):
    """What all ranks do now, one way or the other."""

    kind: str
    """``section``; or out of all sections: ``between`` steps that are none, ``outside``, ``starting``."""
    name: str
    seconds: tuple[float, ...]
    """Of each rank."""


class Hang(NamedTuple):
    """The next span never ends, on this rank."""

    rank: int
    usual_s: float
    """How long it takes in the middle."""


class Begin(NamedTuple):
    """An attempt begins."""

    attempt: int


class End(NamedTuple):
    """It ends: in time, by itself (a job's time is over), or it is killed."""

    clean: bool


Event = Span | Hang | Begin | End


@dataclass(frozen=True)
class Training:
    """One kind of training."""

    name: str
    attempts: tuple[int, ...]
    """How many steps each lives for."""
    step_s: float
    ranks: int = 2
    spread: float = 0.08
    """Of the logarithms of step times."""
    tail: float = 0.0
    """One step in a hundred is longer by Pareto's law with this exponent, up to 30 times. 0: none is."""
    drift: float = 1.0
    """Steps take so many times as long at the end, as with sequences that grow."""
    warm_up_s: float = 20.0
    """The first step of an attempt, which compiles; the second takes half, the third a quarter."""
    stall_s: float = 0.0
    """The longest that one step in 4,000 waits for its data."""
    save_each: int = 500
    save_s: float = 20.0
    save_spread: float = 0.2
    saves_alone: bool = False
    """Rank 0 saves, and the others wait for it in their next step."""
    evaluate_each: int = 1000
    evaluate_s: float = 60.0
    sections: bool = True
    """It says what it does; else it makes steps, and no more is known."""

    @property
    def steps(self) -> int:
        """In all attempts."""
        return sum(self.attempts)


TRAININGS = (
    Training("a small model whose data stalls", (200_000, 300, 100_000), 0.4, stall_s=45.0),
    Training("a large model, short attempts among long ones", (9_000, 650, 450, 250, 450, 250, 450, 8_000), 18.0,
             save_each=200, save_s=140.0, evaluate_each=400, evaluate_s=600.0, ranks=4),
    Training("steps alone; the first evaluation, of 22 minutes, comes late", (600, 700, 900, 120_000), 1.2,
             save_each=1000, save_s=50.0, evaluate_each=4000, evaluate_s=1320.0, sections=False),
    Training("steps alone, in one attempt", (100_000,), 0.8, save_s=30.0, evaluate_s=240.0, sections=False),
    Training("sequences that grow", (60_000, 40_000, 60_000), 0.5, drift=12.0),
    Training("steps with heavy tails", (90_000, 60_000), 1.0, tail=1.3, spread=0.3),
    Training("rank 0 saves alone", (50_000, 30_000), 2.0, save_s=90.0, saves_alone=True),
    Training("long compilation in each attempt", (30_000, 500, 20_000, 8_000), 0.6, warm_up_s=400.0),
    Training("many ranks, saves of very different lengths", (12_000, 7_000), 1.5, ranks=32,
             save_s=25.0, save_spread=0.6),
)  # fmt: skip


class _Recorder:
    """Makes the trace of one training, attempt after attempt."""

    def __init__(self, training: Training, seed: int) -> None:
        self._of = training
        self._dice = random.Random(f"{seed} {training.name}")
        self._made = 0
        """Steps of all attempts."""
        self._events = {SAVE: 0, EVALUATE: 0}
        """How many there were."""
        self._waiting_s = 0.0
        """The others have waited for rank 0 since the last step."""
        self._untold_s = 0.0
        """What was neither a step nor told of."""

    def attempt(self, steps: int) -> Iterator[Event]:
        """The next one."""
        of, ranks = self._of, self._of.ranks
        # Ranks differ by a little, and the slowest is another at times; all wait for it.
        shares = [tuple(self._dice.uniform(0.97, 1.0) for _ in range(ranks)) for _ in range(64)]
        load_s = self._dice.lognormvariate(math.log(30.0), 0.3)
        if of.sections:
            yield Span("section", SETUP, (load_s,) * ranks)
        self._waiting_s, self._untold_s = 0.0, 0.0 if of.sections else load_s
        for number in range(1, steps + 1):
            self._made += 1
            middle_s = of.step_s * (1 + (of.drift - 1) * self._made / of.steps)
            step_s = self._step_s(middle_s, number)
            spent = tuple([step_s * each for each in shares[self._made & 63]])
            idle = "starting" if number == 1 else "outside" if of.sections else "between"
            if of.sections:
                yield Span(idle, "", (0.002,) * ranks)
            if number > _LEARNING and self._made % _STEPS_A_HANG == 0:
                yield Hang(self._made % ranks, middle_s)
            if of.sections:
                waited_s = self._waiting_s
                yield Span("section", STEP, (spent[0], *[each + waited_s for each in spent[1:]]) if waited_s else spent)
            else:
                yield Span(idle, "", tuple([each + self._untold_s for each in spent]))
            self._waiting_s = self._untold_s = 0.0
            if self._made % of.save_each == 0:
                yield from self._event(SAVE)
            if self._made % of.evaluate_each == 0:
                yield from self._event(EVALUATE)

    def _step_s(self, middle_s: float, number: int) -> float:
        of, chance = self._of, self._dice.random()
        step_s = middle_s * math.exp(self._dice.gauss(0.0, of.spread))
        if of.tail and chance < _TAIL:
            step_s *= min(30.0, self._dice.paretovariate(of.tail))
        if number <= _WARM_UP:
            step_s += of.warm_up_s / 2 ** (number - 1)
        elif of.stall_s and chance > 1 - _STALLS:
            step_s += self._dice.uniform(0.1, 1.0) * of.stall_s
        return step_s

    def _event(self, name: str) -> Iterator[Event]:
        of = self._of
        usual_s, spread = (of.save_s, of.save_spread) if name == SAVE else (of.evaluate_s, 0.1)
        took_s = usual_s * math.exp(self._dice.gauss(0.0, spread))
        if name == SAVE and self._dice.random() < _SLOW_SAVES:
            took_s *= self._dice.uniform(2.0, 3.5)
        self._events[name] += 1
        if not of.sections:
            self._untold_s += took_s
            return
        alone = name == SAVE and of.saves_alone
        hangs, rest = divmod(self._events[name], _EVENTS_A_HANG)
        if hangs >= _HANGS_FROM and rest == 0:
            yield Hang(0 if alone else hangs % of.ranks, usual_s)
        if alone:
            self._waiting_s += took_s
        yield Span("section", name, (took_s,) * (1 if alone else of.ranks))


def trace(training: Training, seed: int = 17) -> Iterator[Event]:
    """All attempts of ``training``."""
    recorder = _Recorder(training, seed)
    for attempt, steps in enumerate(training.attempts, 1):
        yield Begin(attempt)
        yield from recorder.attempt(steps)
        yield End(steps >= _LONG_ATTEMPT)
