"""Runs whose numbers are simulated beat by beat, and the conditions that a watch finds, look by look."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from random import Random

from lastbeat.model.curve import Curve, read_curve
from lastbeat.model.document_field import Reading
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.observation import Seen
from lastbeat.model.policy import Policy
from lastbeat.model.record import Attempt, Record
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.training.sdk.curves import RecentPoints, sampled
from lastbeat.watch.decide import numbers
from lastbeat.watch.decide.conditions import numbers as rows
from lastbeat.watch.decide.conditions.condition import Check
from lastbeat.watch.decide.conditions.table import raised
from lastbeat.watch.decide.evidence import AttemptEvidence

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
LOOK_S = 60.0
BEAT_S = 30.0
_MOST_A_BEAT = 30
Row = tuple[float, int, float, float]


@dataclass
class Looks:
    """The looks of a watch at one run. Between them only the record remembers."""

    record: Record = field(default_factory=lambda: Record("run", State(Status.RUNNING)))
    attempt: Attempt = field(default_factory=Attempt)

    def look(self, curve: Curve, now: float, total: int | None = None) -> dict[str, str]:
        """The conditions that this look finds, by name."""
        at = datetime.fromtimestamp(now, timezone.utc)
        points = curve.points
        last = points[-1] if points else None
        beat = Heartbeat(at, "", step=last.step if last else None, total_steps=total, curve=curve)
        shown = Seen(progress=beat, curve=curve)
        before = self.record
        found = numbers.judged(before, self.attempt, shown, is_new=False)
        evidence = AttemptEvidence(shown, before, None, None, START, attempt=self.attempt, numbers=found)
        conditions = {name: each.text for name, each in raised(rows.CONDITIONS, Check(evidence, Policy(), at)).items()}
        self.record = replace(
            before,
            state=State(Status.RUNNING, conditions=conditions),
            numbers=found.usual,
            earlier_numbers=found.earlier,
        )
        return conditions


@dataclass
class SimulatedRun:
    """A run that writes ``recent`` as the SDK does. Subclasses and tests change its functions of time and step."""

    seed: int
    hours: float = 8.0
    step_s: float = 1.0
    start_loss: float = 10.8
    end_loss: float = 2.2
    noise: float = 0.03
    correlation: float = 0.0
    heavy: bool = False
    report_every: int = 1
    """Steps between two reports of the loss."""
    spike_hours: float = 4.0
    """Usual time between two spikes that come back."""
    pause_minutes: float = 0.0
    """How long an evaluation takes."""
    pause_every_minutes: float = 60.0
    jitter: float = 0.05
    norm: bool = False
    slower: Callable[[float], float] = lambda _hours: 1.0
    """Hours → how many times as long a step takes."""
    higher: Callable[[float], float] = lambda _hours: 1.0
    """Hours → how many times as high the loss is."""

    @property
    def steps(self) -> int:
        return int(self.hours * 3600 / self.step_s)

    def looks(self, every_s: float = LOOK_S) -> Iterator[tuple[float, float, Curve]]:
        """Unix time, how many times as high the loss is, and the curve, at each look."""
        recent, norms, origin = RecentPoints(), RecentPoints(60), START.timestamp()
        next_beat, next_look, points = BEAT_S, every_s, list[Row]()
        for at, row in self._made():
            while at >= next_beat:
                self._beat(origin + next_beat, points, recent, norms)
                points = []
                if next_beat >= next_look:
                    yield origin + next_beat, self.higher(next_beat / 3600), self._curve(recent, norms)
                    next_look += every_s
                next_beat += BEAT_S
            points.append(row)

    def _made(self) -> Iterator[tuple[float, Row]]:
        """Time and row of each step."""
        chance, at, step, stray, spike, shown = Random(self.seed), 0.0, 0, 0.0, 0.0, 0.0
        next_pause = 60 * self.pause_every_minutes
        while at < self.hours * 3600:
            at += self.step_s * self.slower(at / 3600) * chance.lognormvariate(0, self.jitter)
            if self.pause_minutes and at >= next_pause:
                at += 60 * self.pause_minutes * chance.uniform(0.5, 1)
                next_pause = at + 60 * self.pause_every_minutes
            step += 1
            share = step / self.steps
            if self.spike_hours and chance.random() < self.step_s / (3600 * self.spike_hours):
                spike = chance.uniform(0.2, 1.2)
            spike *= chance.uniform(0.85, 0.97)
            own = chance.gauss(0, 1) if not self.heavy else chance.gauss(0, 1) / math.sqrt(chance.gammavariate(1.5, 1))
            stray = self.correlation * stray + math.sqrt(1 - self.correlation**2) * self.noise * own
            level = self.end_loss + (self.start_loss - self.end_loss) * (1 + 300 * share) ** -0.7
            if step % self.report_every == 0 or not shown:
                shown = level * self.higher(at / 3600) * math.exp(stray + spike)
            rate = 3e-4 * min(1.0, share / 0.02) * (0.1 + 0.9 * (1 + math.cos(math.pi * share)) / 2)
            yield at, (START.timestamp() + at, step, round(shown, 6), rate)

    def _beat(self, at: float, points: list[Row], recent: RecentPoints, norms: RecentPoints) -> None:
        for point in sampled(_few(points)):
            recent.add(point)
        known = points or recent.points[-1:]
        if not known:
            return
        newest = (at, *known[-1][1:])
        recent.add(newest)
        if self.norm and points:
            norm = Random(f"{self.seed} {newest[1]}").lognormvariate(-0.7, 0.3)
            norms.add((at, newest[1], norm, None))

    def _curve(self, recent: RecentPoints, norms: RecentPoints) -> Curve:
        document: dict[str, object] = {"recent": [list(point) for point in recent.points]}
        if self.norm:
            document["metric_points"] = {"grad_norm": [list(point[:3]) for point in norms.points]}
        return read_curve(document, Reading(START + timedelta(hours=self.hours), str), 0.0)


def _few(points: list[Row]) -> list[Row]:
    """Few of the points of a beat, with the extremes: a shortcut of what a sampler does."""
    if len(points) <= _MOST_A_BEAT:
        return points
    chosen = points[:: len(points) // _MOST_A_BEAT + 1]
    ends = {points[0], points[-1], min(points, key=lambda p: p[2]), max(points, key=lambda p: p[2])}
    return sorted({*chosen, *ends})


def healthy(seed: int) -> SimulatedRun:
    """A healthy run, unlike the others."""
    chance = Random(seed * 7919 + 1)
    shift, shift_at = chance.uniform(0.95, 1.08), chance.uniform(2, 20)
    wander, period = chance.uniform(0, 0.08), chance.uniform(0.3, 6)
    hiccup_at, hiccup_s = chance.uniform(1, 10), chance.uniform(60, 400)
    noise, correlation = (
        math.exp(chance.uniform(math.log(0.01), math.log(0.3))),
        chance.choice([0.0, 0.0, 0.5, 0.9, 0.98]),
    )
    return SimulatedRun(
        seed,
        hours=chance.choice([4.0, 8.0, 16.0, 24.0]),
        step_s=math.exp(chance.uniform(math.log(0.3), math.log(20))),
        # A mean over many steps strays slowly, and less than single steps do.
        noise=noise * (1 - correlation) ** 0.25,
        correlation=correlation,
        heavy=correlation < 0.5 and chance.random() < 0.3,
        report_every=chance.choice([1, 1, 1, 10, 50]),
        spike_hours=chance.choice([0.0, 1.0, 4.0]),
        pause_minutes=chance.choice([0.0, 0.5, 3.0, 8.0, 15.0]),
        pause_every_minutes=chance.choice([20.0, 60.0, 180.0]),
        jitter=chance.choice([0.02, 0.1, 0.3]),
        norm=chance.random() < 0.5,
        slower=lambda hours: (
            (1 + wander * math.sin(hours / period)) * (2.0 if 0 <= (hours - hiccup_at) * 3600 < hiccup_s else 1.0)
        ),
        higher=lambda hours: shift if hours > shift_at else 1.0,
    )


def watched(run: SimulatedRun, every_s: float = LOOK_S) -> Iterator[tuple[float, float, dict[str, str]]]:
    """Hours, the loss over what it would be, and the conditions, at each look."""
    looks = Looks()
    for now, ratio, curve in run.looks(every_s):
        yield (now - START.timestamp()) / 3600, ratio, looks.look(curve, now, run.steps)
