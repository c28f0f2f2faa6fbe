"""Two to five sweeps with different limits over one fleet, for simulated days: no status changes without evidence."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from lastbeat.fleet.sweep import Sweep
from lastbeat.model.learned_limits import IDLE_FLOOR_S
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.model.record import LimitName
from lastbeat.model.status import Event, Status
from support.laws import examples
from support.world import TrainingRun, World

RUNS = 3
HOUR_S, DAY_S = 3600.0, 86_400.0
LIMITS = st.builds(
    Policy,
    stale_s=st.sampled_from([300.0, 600.0, 3600.0, 6 * HOUR_S]),
    stall_s=st.sampled_from([None, 600.0, 1800.0, 4 * HOUR_S]),
    learns=st.booleans(),
    alert_on=st.just(frozenset(Event)),
)
RHYTHMS = st.sampled_from([60.0, 240.0, 900.0, HOUR_S])
some_runs = st.sets(st.integers(0, RUNS - 1), min_size=1)


@dataclass
class Truth:
    """What one training really does, and has done since its status last changed."""

    run: TrainingRun
    step: int = 1
    beats: bool = True
    steps: bool = True
    lived_at: datetime | None = None
    got_on_at: datetime | None = None
    status: Status | None = None
    changed_at: datetime | None = None
    stood_still: bool = False

    def write(self, now: datetime) -> None:
        if self.steps:
            self.step += 1
            self.run.both(self.step)
            self.lived_at = self.got_on_at = now
        elif self.beats:
            self.run.beat()
            self.lived_at = now


class ManyWatchers(RuleBasedStateMachine):
    """The model knows what each training does; the sweeps see the store alone, and each remembers what it saw."""

    @initialize(limits=st.lists(LIMITS, min_size=2, max_size=5))
    def begin(self, limits: list[Policy]) -> None:
        # What groups tell is another law's affair.
        self.world = World(fleet=FleetPolicy(group_runs=100))
        self.limits = limits
        self.sweeps = [self._sweep(policy) for policy in limits]
        self.truths = [Truth(self.world.run(f"run-{number}")) for number in range(RUNS)]
        self.began = self.world.now
        self.alerts = 0
        self._write()
        for which in range(len(limits)):
            self._pass(which)

    def _sweep(self, policy: Policy) -> Sweep:
        self.world.policy = policy
        return self.world.fresh_sweep()

    def _write(self) -> None:
        for truth in self.truths:
            truth.write(self.world.now)

    @rule(which=some_runs, beats=st.booleans(), steps=st.booleans())
    def trainings_change(self, which: set[int], beats: bool, steps: bool) -> None:
        for number in which:
            self.truths[number].beats, self.truths[number].steps = beats, steps

    @rule(rhythm_s=RHYTHMS, times=st.integers(1, 12), order=st.permutations(range(5)))
    def time_passes(self, rhythm_s: float, times: int, order: list[int]) -> None:
        """Each training does as it does, and every sweep makes its passes."""
        for _ in range(times):
            self.world.after(rhythm_s)
            self._write()
            for which in order:
                if which < len(self.sweeps):
                    self._pass(which)

    @rule(which=st.integers(0, 4), rhythm_s=RHYTHMS, times=st.integers(1, 12))
    def one_alone_watches(self, which: int, rhythm_s: float, times: int) -> None:
        for _ in range(times):
            self.world.after(rhythm_s)
            self._write()
            self._pass(which % len(self.sweeps))

    @rule(which=st.integers(0, 4))
    def a_sweep_is_restarted(self, which: int) -> None:
        which %= len(self.sweeps)
        self.sweeps[which] = self._sweep(self.limits[which])

    @rule()
    def nobody_watches_for_a_day(self) -> None:
        for _ in range(4):
            self.world.after(DAY_S / 4)
            self._write()

    def _pass(self, which: int) -> None:
        self.world.after(1)
        self.sweeps[which].run()
        changes = 0
        for truth in self.truths:
            record = truth.run.record
            assert record is not None
            if record.status is not truth.status:
                changes += truth.status is not None
                self._has_its_evidence(truth, record)
                truth.status, truth.changed_at = record.status, self.world.now
        beside = {Event.WARNING, Event.FLAPPING}
        told = [message for message in self.world.channel.sent if message.event not in beside]
        # A run that flaps is told of in one alert in place of several.
        assert len(told) - self.alerts <= changes, "nothing is told but what changed"
        self.alerts = len(told)

    def _has_its_evidence(self, truth: Truth, record: Any) -> None:
        now = self.world.now
        if record.status is Status.TIMED_OUT:
            assert record.exceeded is not None
            truth.stood_still = record.exceeded.name is LimitName.STALL
            still_s = [2 * policy.stall_s for policy in self.limits if policy.stall_s]
            still_s += [IDLE_FLOOR_S for policy in self.limits if policy.learns_steps]
            last, limit_s = (
                (truth.got_on_at, min(still_s))
                if truth.stood_still
                else (truth.lived_at, min(policy.stale_s for policy in self.limits))
            )
            assert (now - (last or self.began)).total_seconds() >= limit_s, "no watcher's limit was exceeded"
        else:
            assert record.status is Status.RUNNING
            shown = truth.got_on_at if truth.stood_still else truth.lived_at
            assert shown is not None
            assert truth.changed_at is None or shown > truth.changed_at, "a laxer limit is no sign of life"

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        # All of it once more, for two days in which nothing happens at all: what was decided stands.
        for truth in self.truths:
            truth.beats = truth.steps = False
        for _ in range(2):
            self.time_passes(2 * HOUR_S, 6, list(range(5)))
        statuses = [truth.status for truth in self.truths]
        self.nobody_watches_for_a_day()
        self.time_passes(2 * HOUR_S, 6, list(reversed(range(5))))
        assert statuses == [Status.TIMED_OUT] * RUNS
        assert [truth.status for truth in self.truths] == statuses


TestManyWatchers = ManyWatchers.TestCase
TestManyWatchers.settings = settings(
    max_examples=examples(6, 2000),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
