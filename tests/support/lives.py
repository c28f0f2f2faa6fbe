"""Scripted lives of trainings, and what people have to be told of each: known from the script alone.

Nothing here knows how lastbeat decides. The script leaves room where no watchdog could be sure of seeing something:
a silence is either clearly shorter than the limit of ten minutes or clearly longer, and what happens next happens at
least 25 minutes later.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from support.memory import START
from support.world import TrainingRun

HOUR = 3600.0
DAY = 24 * HOUR
LAST_DEED_S = 5 * HOUR
"""No life of :func:`lives` does anything later than this."""

Do = Callable[[TrainingRun], object]
Told = Counter[tuple[str, int]]
"""(event, attempt) → how often people are told of it."""


@dataclass
class Life:
    """What one training does, and when, in seconds from the beginning of the watch."""

    run_id: str
    chance: random.Random = field(repr=False)
    skew_s: float = 0.0
    deeds: list[tuple[float, Do]] = field(default_factory=list, repr=False)
    told: Told = field(default_factory=Counter)
    perhaps: Told = field(default_factory=Counter)
    """What people may be told or not: both are right."""
    steps: int = 0

    def at(self, when_s: float, do: Do) -> None:
        self.deeds.append((when_s, do))

    def beat(self, begin_s: float, end_s: float, *, attempt: int = 1, began_s: float | None = None) -> float:
        """Both heartbeats now and then, the last one at ``end_s``."""
        started = START + timedelta(seconds=(begin_s if began_s is None else began_s) + self.skew_s)
        every_s = self.chance.choice((30, 60, 110))
        times = [begin_s + n * every_s for n in range(int((end_s - begin_s) // every_s) + 1)]
        for when_s in [*times, end_s]:
            self.steps += 1
            self.at(when_s, _both(self.steps, attempt, started.isoformat()))
        return end_s

    def tell(self, *events: str, attempt: int = 1) -> None:
        self.told.update((event, attempt) for event in events)

    def end(self, when_s: float, *, attempt: int = 1) -> None:
        """Complete or fail."""
        if self.chance.random() < 0.5:
            self.at(when_s, lambda run: run.complete())
            self.tell("SUCCEEDED", attempt=attempt)
        else:
            text = self.chance.choice(("RuntimeError: CUDA out of memory", "", "\x00\xff<!channel>", "x" * 100_000))
            self.at(when_s, lambda run: run.error(text))
            self.tell("FAILED", attempt=attempt)

    def begin_s(self) -> float:
        """Mostly after the watch began, and never so long before it that something else happened first."""
        return self.chance.uniform(-0.1, 1.0) * HOUR

    def span_s(self) -> float:
        return self.chance.uniform(0.5, 0.9) * HOUR

    def silence_s(self) -> float:
        """Clearly longer than the limit."""
        return self.chance.uniform(25, 45) * 60


def _both(step: int, attempt: int, started: str) -> Do:
    def do(run: TrainingRun) -> None:
        # lastbeat's own SDK says how far its clock is behind; a run that does not say so is taken for late.
        offset = {"clock_offset_s": -run.skew_s} if run.skew_s < 0 else {}
        run.beat(attempt=attempt, start_time=started, **offset)
        run.progress(step)

    return do


def ends(life: Life) -> None:
    life.end(life.beat(begin := life.begin_s(), begin + 2 * life.span_s()) + 5)


def starts_late(life: Life) -> None:
    begin = life.chance.uniform(2, 3) * HOUR
    life.end(life.beat(begin, begin + life.span_s()) + 5)


def goes_silent(life: Life) -> None:
    life.beat(begin := life.begin_s(), begin + 2 * life.span_s())
    life.tell("TIMED_OUT")


def comes_back(life: Life) -> None:
    began = life.begin_s()
    silent = life.beat(began, began + life.span_s())
    again = silent + life.silence_s()
    life.end(life.beat(again, again + life.span_s(), began_s=began) + 5)
    life.tell("TIMED_OUT", "RECOVERED")


def pauses(life: Life) -> None:
    """For less than the limit, again and again: nobody is told."""
    began = begin = life.begin_s()
    for _ in range(4):
        begin = life.beat(begin, begin + 15 * 60, began_s=began) + life.chance.uniform(5, 8) * 60
    life.end(life.beat(begin, begin + 60, began_s=began) + 5)


def fails_and_restarts(life: Life) -> None:
    failed = life.beat(begin := life.begin_s(), begin + life.span_s()) + 5
    life.at(failed, lambda run: run.error("RuntimeError: first life"))
    again = failed + life.silence_s()
    if life.chance.random() < 0.5:
        life.at(again - 1, lambda run: run.delete("_error"))
    life.end(life.beat(again, again + life.span_s(), attempt=2) + 5, attempt=2)
    life.tell("FAILED")
    life.tell("RESTARTED", attempt=2)


def restarts_at_once(life: Life) -> None:
    stopped = life.beat(begin := life.begin_s(), begin + life.span_s())
    again = stopped + life.chance.uniform(30, 240)
    life.end(life.beat(again, again + life.span_s(), attempt=2) + 5, attempt=2)
    life.tell("RESTARTED", attempt=2)


def times_out_and_restarts(life: Life) -> None:
    silent = life.beat(begin := life.begin_s(), begin + life.span_s())
    again = silent + life.silence_s()
    life.end(life.beat(again, again + life.span_s(), attempt=2) + 5, attempt=2)
    life.tell("TIMED_OUT")
    life.tell("RECOVERED", attempt=2)


def loses_its_files(life: Life) -> None:
    """All but the watchdog's record, in the middle of its life."""
    gone = life.beat(begin := life.begin_s(), begin + life.span_s()) + 5
    life.at(gone, lambda run: run.delete("metadata.json", "progress.json"))
    life.tell("TIMED_OUT")


def loses_its_folder(life: Life) -> None:
    """The record with it: somebody cleaned up, or everything is lost. Whoever says so once is right."""
    gone = life.beat(begin := life.begin_s(), begin + life.span_s()) + 5
    life.at(gone, lambda run: run.delete())
    life.perhaps.update([("TIMED_OUT", 1)])


def is_cleaned_up(life: Life) -> None:
    """Once it has ended, and everybody knows: that is no news."""
    ended = life.beat(begin := life.begin_s(), begin + life.span_s()) + 5
    life.end(ended)
    life.at(ended + 2 * HOUR, lambda run: run.delete())


def writes_garbage(life: Life) -> None:
    began = life.begin_s()
    odd = life.beat(began, began + life.span_s()) + 60
    text = life.chance.choice(("{", "\x00\x01", "[]", "", "nul", '{"a":' * 5000, "x" * 300_000))
    name = life.chance.choice(("metadata.json", "progress.json"))
    other = "progress.json" if name == "metadata.json" else "metadata.json"

    def scribble(run: TrainingRun) -> None:
        run.put(name, text)
        run.put(other, "{}")

    for n in range(40):
        life.at(odd + 60 * n, scribble)
    life.end(life.beat(odd + 40 * 60, odd + 80 * 60, began_s=began) + 5)
    life.tell("WARNING")


def is_over_already(life: Life) -> None:
    """Ended within the last hours before anybody looked: that is news."""
    end = -life.chance.uniform(0.5, 3) * HOUR
    life.end(life.beat(end - HOUR, end) + 5)


def is_history(life: Life) -> None:
    """Ended, or died, days before anybody looked."""
    end = life.beat(-2 * DAY - HOUR, -2 * DAY)
    if life.chance.random() < 0.7:
        life.at(end + 5, life.chance.choice((lambda run: run.complete(), lambda run: run.error())))


def has_a_clock_of_its_own(life: Life) -> None:
    life.skew_s = life.chance.choice((-1, 1)) * life.chance.uniform(0.5, 2) * HOUR
    life.end(life.beat(begin := life.chance.uniform(0.1, 1) * HOUR, begin + 2 * life.span_s()) + 5)
    life.tell("WARNING")


KINDS: tuple[tuple[Callable[[Life], None], int], ...] = (
    (ends, 30), (starts_late, 10), (goes_silent, 12), (comes_back, 14), (pauses, 12), (fails_and_restarts, 20),
    (restarts_at_once, 12), (times_out_and_restarts, 10), (loses_its_files, 8), (loses_its_folder, 4),
    (is_cleaned_up, 8), (writes_garbage, 10), (is_over_already, 8), (is_history, 10), (has_a_clock_of_its_own, 12),
)  # fmt: skip
"""Kinds of lives, and how many of 200 lead them; the others share a zone."""
_ALL = 200
_ZONE = _ALL - sum(many for _, many in KINDS)


def zone(chance: random.Random, members: int, begin_s: float = HOUR, dark_s: float = 40 * 60) -> Iterator[Life]:
    """Runs of one zone that goes dark, and comes back."""
    for number in range(members):
        life = Life(f"zone-b-{number:03}", chance)
        begin = begin_s - chance.uniform(0.5, 0.9) * HOUR
        life.beat(begin, begin_s)
        again = begin_s + dark_s + chance.uniform(0, 60)
        life.end(life.beat(again, again + life.span_s(), began_s=begin) + 5)
        life.tell("TIMED_OUT", "RECOVERED")
        yield life


def lives(seed: int, runs: int = _ALL) -> tuple[Life, ...]:
    """``runs`` lives, of each kind its part, and one zone."""
    chance = random.Random(seed)
    led: list[Life] = []
    for lead, many in KINDS:
        for number in range(max(1, round(many * runs / _ALL))):
            life = Life(f"{lead.__name__.replace('_', '-')}-{number:03}", chance)
            lead(life)
            led.append(life)
    led += zone(chance, max(6, round(_ZONE * runs / _ALL)))
    late = [life.run_id for life in led if max(when for when, _ in life.deeds) > LAST_DEED_S]
    if late:
        raise AssertionError(f"these lives last too long: {late}")
    return tuple(led)


def faults(life: Life, told: Told, twice: Counter[str]) -> Iterable[str]:
    """What is wrong with what people were ``told`` of this life, each alert counted once. Attempt 0 stands for any.
    ``twice``: how often an event may have been told both by itself and by a group."""
    told = _with_attempts(life, told)
    for what in sorted({*life.told, *life.perhaps, *told}):
        least, most = life.told[what], life.told[what] + life.perhaps[what]
        if told[what] < least:
            yield f"{life.run_id}: {what[0]} of attempt {what[1]} told {told[what]} times instead of {least}"
        if told[what] > most + (min(twice[what[0]], 1) if most else 0):
            yield f"{life.run_id}: {what[0]} of attempt {what[1]} told {told[what]} times, which is {most} at most"


def _with_attempts(life: Life, told: Told) -> Told:
    """``told``, where what names no attempt counts for the first that people still have to be told of."""
    whole = Counter({what: times for what, times in told.items() if what[1]})
    for (event, attempt), times in told.items():
        for _ in range(times if attempt == 0 else 0):
            open_ = [what for what, wanted in life.told.items() if what[0] == event and whole[what] < wanted]
            whole[min(open_, default=(event, 1))] += 1
    return whole
