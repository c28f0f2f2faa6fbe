"""Random histories of writes, outages, clock jumps, crashes and passes: the rules that never bend hold."""

from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import DEFAULT_ALERT_ON, Policy
from lastbeat.model.status import Event, Status
from lastbeat.stores.port import UnreachableError
from support.channel import ListChannel, down
from support.flaps import wrongly_told
from support.laws import examples
from support.memory import Killed
from support.world import World

STALE_S = 600.0
CRASH = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 210, in <module>\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)


class Watching(RuleBasedStateMachine):
    """Two watchers over one run. The model knows what training really did; the watchers only see the store."""

    @initialize(skew_s=st.sampled_from([0.0, -3600.0, 3600.0, 20.0, -20.0]), says_offset=st.booleans())
    def begin(self, skew_s: float, says_offset: bool) -> None:
        self.world = World(Policy(stale_s=STALE_S, alert_on=DEFAULT_ALERT_ON - {Event.WARNING}), skew_s=skew_s)
        self.says_offset = says_offset
        # A clock slower than the limit that does not say so is known for slow at the second document of it.
        self.unlearned = skew_s == -3600.0 and not says_offset
        self.first_recorded: datetime | None = None
        self.channel: ListChannel = self.world.channel
        self.watches = [self.world.fresh_watch(), self.world.fresh_watch()]
        self.outage = False
        self.crashed = False
        self.attempt = 1
        self.step = 0
        self.last_beat = self.world.now
        self.started = self.world.instance_now
        self.sentinel: Status | None = None
        self.leftovers = False
        self.died = False
        self.seen_attempt = 0
        self.log = ""
        self._beat()
        self._look(0)

    def _beat(self) -> None:
        self.step += 1
        told = {"clock_offset_s": -self.world.skew_s} if self.says_offset else {}
        self.world.beat(attempt=self.attempt, start_time=self.started.isoformat(), **told)
        self.world.progress(self.step)
        self.last_beat = self.world.now

    @rule(seconds=st.sampled_from([1.0, 30.0, 60.0, 300.0, 900.0, 7200.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.after(seconds)

    def _print(self, text: str) -> None:
        self.log += text
        self.world.log(self.log)

    @precondition(lambda self: self.sentinel is None and not self.died)
    @rule(silently=st.booleans())
    def training_prints_its_step(self, silently: bool) -> None:
        self.world.after(1)
        if not silently:
            self._beat()
        self._print(f"step {self.step}/1000 loss 2.5\n")

    @precondition(lambda self: self.sentinel is None and not self.died)
    @rule()
    def training_gets_over_an_error(self) -> None:
        self.world.after(1)
        self._beat()
        self._print(f"{CRASH}retrying\n")
        for _ in range(5):
            self.step += 1
            self._print(f"step {self.step}/1000 loss 2.5\n")

    @rule()
    def the_log_is_uploaded_again(self) -> None:
        self.world.after(1)
        self._print("")

    @precondition(lambda self: self.sentinel is None and not self.died)
    @rule()
    def training_dies_and_only_its_log_says_so(self) -> None:
        self.world.after(1)
        self._print(CRASH)
        self.died = True
        # Of a log that goes on from attempt to attempt nobody can tell whose crash it is that ends it at first sight.
        self.died_unseen = self.seen_attempt != self.attempt

    @precondition(lambda self: self.sentinel is None and not self.died)
    @rule()
    def training_beats(self) -> None:
        self.world.after(1)
        self._beat()

    @precondition(lambda self: self.sentinel is None and not self.died)
    @rule(which=st.integers(0, 1), silent_s=st.sampled_from([660.0, 1500.0, 4000.0]))
    def training_falls_silent_for_a_while(self, which: int, silent_s: float) -> None:
        self.world.after(silent_s)
        self._look(which)
        self.world.after(1)
        self._beat()
        self._look(1 - which)

    @precondition(lambda self: self.sentinel is None and not self.died)
    @rule(failed=st.booleans())
    def training_ends(self, failed: bool) -> None:
        self.world.after(1)
        self.world.put("_error" if failed else "_complete", "RuntimeError: boom" if failed else "")
        self.sentinel = Status.FAILED if failed else Status.SUCCEEDED

    @rule()
    def a_new_attempt_starts_and_leaves_the_old_sentinels(self) -> None:
        self.world.after(3)
        self.leftovers = self.leftovers or self.sentinel is not None
        self.died = False
        self.attempt += 1
        self.started = self.world.instance_now
        self.sentinel = None
        self._beat()

    @precondition(lambda self: self.sentinel is None and not self.died)
    @rule()
    def training_writes_both_sentinels(self) -> None:
        self.world.after(1)
        self.world.complete()
        self.training_ends(failed=True)

    @precondition(lambda self: self.sentinel is not None)
    @rule()
    def the_sentinel_is_written_again(self) -> None:
        self.world.after(1)
        if self.sentinel is Status.FAILED:
            self.world.error("RuntimeError: boom\nand its trace")
        else:
            self.world.put("_complete", "done")

    @precondition(lambda self: self.sentinel is None and not self.leftovers and not self.died)
    @rule(skew_s=st.sampled_from([0.0, -3600.0, 3600.0, 86400.0]))
    def the_instance_clock_jumps(self, skew_s: float) -> None:
        self.world.skew_s = skew_s
        self.world.after(1)
        self._beat()

    @precondition(lambda self: not self.outage)
    @rule(which=st.integers(0, 1))
    def a_look_that_can_read_and_not_write(self, which: int) -> None:
        self.world.store.refuse("write", UnreachableError("503 for PUT"))
        seen, self.seen_attempt = self.seen_attempt, 0
        self._look(which)
        self.seen_attempt = seen
        self.world.store.before = lambda _operation, _key: None
        # What was kept elsewhere has the time of this look, and is followed by what the next decides.
        self.world.after(1)

    @rule()
    def the_store_goes_away_and_comes_back(self) -> None:
        self.outage = not self.outage

        def unreachable(_operation: str, _key: str) -> None:
            raise UnreachableError("503")

        self.world.store.before = unreachable if self.outage else lambda _operation, _key: None

    @rule()
    def the_channel_goes_down_and_comes_back(self) -> None:
        self.channel.fault = (lambda _message: None) if self.channel.fault is down else down

    @rule(which=st.integers(0, 1))
    def a_watcher_is_restarted(self, which: int) -> None:
        self.watches[which] = self.world.fresh_watch()

    @precondition(lambda self: not self.outage)
    @rule(which=st.integers(0, 1), call=st.integers(0, 8), before=st.booleans())
    def a_watcher_is_killed_in_the_middle(self, which: int, call: int, before: bool) -> None:
        self.world.store.die_at(call, before=before)
        try:
            self.watches[which].tick()
        except Killed:
            self.crashed = True
        self.world.store.heal()
        self.watches[which] = self.world.fresh_watch()

    @rule(which=st.integers(0, 1))
    def a_watcher_looks(self, which: int) -> None:
        self._look(which)

    def _look(self, which: int) -> Outcome:
        outcome = self.watches[which].tick()
        if self.outage:
            assert outcome.status is Status.UNKNOWN, "what cannot be seen is unknown"
            return outcome
        age = self.world.now - self.last_beat
        if self.sentinel is not None:
            assert outcome.status is self.sentinel, "a sentinel of this attempt decides"
        elif self.died and self.died_unseen:
            assert outcome.status is not Status.SUCCEEDED
        elif self.died:
            assert outcome.status is Status.FAILED, "what ended with a crash has failed"
            assert outcome.cause == "oom", "and it is known why"
        elif self._may_be_thought_old(outcome):
            assert outcome.status in {Status.RUNNING, Status.TIMED_OUT}
        elif age < timedelta(seconds=STALE_S):
            assert outcome.status is Status.RUNNING, "no false alarm"
        elif age > timedelta(seconds=STALE_S + 1):
            assert outcome.status is Status.TIMED_OUT, "no missed one"
        self.seen_attempt = self.attempt
        return outcome

    def _may_be_thought_old(self, outcome: Outcome) -> bool:
        """Whether this look may have believed the first time that a slow clock told."""
        if not self.unlearned:
            return False
        if self.first_recorded is None and outcome.recorded:
            self.first_recorded = self.last_beat
        self.unlearned = self.first_recorded in {None, self.last_beat}
        return self.unlearned

    @invariant()
    def each_transition_is_decided_once(self) -> None:
        keys: dict[str, Any] = {}
        for message in self.channel.sent:
            if message.event in {Event.BLIND, Event.SIGHTED}:
                continue
            assert keys.setdefault(message.key, message) == message
        if not self.crashed:
            sent = [m.key for m in self.channel.sent if m.event not in {Event.BLIND, Event.SIGHTED}]
            assert len(sent) == len(set(sent)), "no crash, no repetition"

    @invariant()
    def everything_is_bounded(self) -> None:
        for key, held in self.world.store.held.items():
            if key.endswith("_watchdog.json"):
                assert len(held.body) < 400_000

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.outage = False
        self.world.store.before = self.world.store.after = lambda _operation, _key: None
        self.channel.fault = lambda _message: None
        outcome = self._look(0)
        for _ in range(12):
            self.world.after(1000)
            if self.sentinel is None and not self.died:
                self._beat()
            outcome = self._look(0)
        assert outcome.pending == 0, "nothing is lost"
        record = outcome.record
        assert record is not None
        told = {m.key for m in self.channel.sent if m.event not in {Event.BLIND, Event.SIGHTED}}
        assert len(told) + record.dropped >= record.alerts, "every decided alert reached the channel"
        if record.dropped or len(record.history) == 50:
            return
        at = {m.at: m.event for m in self.channel.sent if m.event not in {Event.BLIND, Event.SIGHTED}}
        assert len(at) == record.alerts, "one look, one alert"
        assert wrongly_told(record.history, at) == [], "every transition that people want to hear of is an alert"
        assert record.flapping_since is None, "what has been steady for hours does not flap"


TestWatching = Watching.TestCase
TestWatching.settings = settings(
    max_examples=examples(30, 5000),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
