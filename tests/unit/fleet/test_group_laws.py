"""Random histories of time-outs, returns, passes, crashes and two sweeps at once: what groups promise holds."""

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lastbeat.model.alert import Alert
from lastbeat.model.group import LEDGER, Group
from lastbeat.model.policy import FleetPolicy
from lastbeat.stores.port import UnreachableError
from lastbeat.watch.effects.deferral import GROUPED
from support.channel import down
from support.groups import Grouper, GroupWorld
from support.laws import examples
from support.memory import Killed

RUNS = 6
some_runs = st.sets(st.integers(0, RUNS - 1), min_size=1)
sweepers = st.integers(0, 1)


class Sweeping(RuleBasedStateMachine):
    """Two sweeps over one fleet. ``crashed``: something may have been told twice, nothing may have been lost."""

    @initialize(repeat=st.booleans())
    def begin(self, repeat: bool) -> None:
        self.world = GroupWorld(RUNS, FleetPolicy(group_runs=3, repeat_s=1800.0 if repeat else None))
        self.sweepers = [Grouper(self.world), Grouper(self.world)]
        self.crashed = False
        self.told_at: dict[int, list[Any]] = {}
        self.alerts: dict[tuple[str, int], Alert] = {}
        self.sweepers[0].sweep()

    @rule(seconds=st.sampled_from([1.0, 30.0, 60.0, 120.0, 400.0, 2000.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.after(seconds)

    @rule(which=some_runs)
    def runs_fall_silent(self, which: set[int]) -> None:
        self.world.silence([self.world.run_ids[number] for number in which])

    @rule(which=some_runs)
    def runs_come_back(self, which: set[int]) -> None:
        self.world.wake([self.world.run_ids[number] for number in which])

    @rule(which=st.integers(0, RUNS - 1))
    def a_run_fails(self, which: int) -> None:
        self.world.after(1)
        self.world.run(self.world.run_ids[which]).error("boom")

    @rule(which=sweepers, listed=st.booleans())
    def a_pass(self, which: int, listed: bool) -> None:
        self.sweepers[which].sweep(listed=listed)
        self.nothing_is_held_but_for_a_notice()

    @rule(which=sweepers)
    def a_sweep_is_restarted(self, which: int) -> None:
        self.sweepers[which] = Grouper(self.world)

    @rule(which=sweepers)
    def the_channel_is_down_for_a_pass(self, which: int) -> None:
        self.world.channel.fault = down
        self.sweepers[which].sweep()
        self.world.channel.fault = lambda _message: None

    @rule(which=sweepers, call=st.integers(0, 60), before=st.booleans())
    def a_pass_is_killed(self, which: int, call: int, before: bool) -> None:
        self.world.store.die_at(call, before=before)
        try:
            self.sweepers[which].sweep()
        except Killed:
            self.crashed = True
        self.world.store.heal()
        self.sweepers[which] = Grouper(self.world)

    @rule(which=sweepers, write=st.integers(0, 12), only_ledger=st.booleans())
    def both_sweep_at_once(self, which: int, write: int, only_ledger: bool) -> None:
        """One does a whole pass right before some write of the other."""
        left = write % 3 if only_ledger else write
        busy = False

        def meanwhile(operation: str, key: str) -> None:
            nonlocal left, busy
            if busy or operation != "write" or (only_ledger and key != LEDGER):
                return
            left -= 1
            if left == -1:
                busy = True
                self.sweepers[1 - which].sweep()

        self.world.store.before = meanwhile
        self.sweepers[which].sweep()
        self.world.store.heal()

    @rule(which=sweepers, call=st.integers(0, 60), before=st.booleans())
    def an_answer_is_lost(self, which: int, call: int, before: bool) -> None:
        left = call

        def fail_once(_operation: str, _key: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise UnreachableError("connection reset")

        if before:
            self.world.store.before = fail_once
        else:
            self.world.store.after = fail_once
        self.sweepers[which].sweep()
        self.world.store.heal()
        # What could not be written down is held, so the next pass comes for it as long as it comes in time.
        self.sweepers[which].sweep()

    def nothing_is_held_but_for_a_notice(self) -> None:
        ledger = self.world.ledger()
        groups = ledger.groups if ledger is not None else ()
        waiting = {
            (run_id, number)
            for group in groups
            for run_id, member in group.members.items()
            for number in (*member.waiting, *member.back)
        }
        held = {
            (run_id, number)
            for run_id, number in self.world.unsettled()
            if all(d.not_before is not None and not d.tries for d in self._alert(run_id, number).deliveries.values())
        }
        assert held <= waiting, "what no group is going to tell is sent by the pass that saw it"

    def _alert(self, run_id: str, number: int) -> Alert:
        record = self.world.run(run_id).record
        assert record is not None
        return next(alert for alert in record.outbox if alert.number == number)

    @invariant()
    def remember_and_look_at_groups(self) -> None:
        if not hasattr(self, "world"):
            return
        for run_id in self.world.run_ids:
            record = self.world.run(run_id).record
            self.alerts |= {(run_id, alert.number): alert for alert in (record.outbox if record else ())}
        ledger = self.world.ledger()
        for group in ledger.groups if ledger is not None else ():
            assert len(group.members) >= self.world.fleet.group_runs, "no group below the threshold"
            self._notices_keep_their_distance(group)

    def _notices_keep_their_distance(self, group: Group) -> None:
        seen = self.told_at.setdefault(group.number, [])
        if group.told_at is not None and group.told_at not in seen:
            assert not seen or (group.told_at - seen[-1]).total_seconds() >= self.world.fleet.group_s
            seen.append(group.told_at)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for _ in range(30):
            self.world.after(120)
            self.sweepers[0].sweep()
        assert self.world.unsettled() == set(), "nothing waits for ever"
        self.remember_and_look_at_groups()
        self.everything_was_told()

    def everything_was_told(self) -> None:
        sent = Counter(message.key for message in self.world.channel.sent)
        notices = {message.key: message for message in self.world.channel.sent if message.member_count}
        listed = Counter((run_id, key) for key, message in notices.items() for run_id in message.members)
        for (run_id, number), alert in self.alerts.items():
            (delivery,) = alert.deliveries.values()
            by = delivery.told_by
            if by is not None:
                assert by in notices
                assert run_id in notices[by].members
                assert alert.event in GROUPED
                assert notices[by].event is alert.event
            times = sent[alert.message.key] + (by is not None)
            assert times >= 1, f"{run_id} {number} {alert.event} was never told"
            assert times == 1 or self.crashed, f"{run_id} {number} {alert.event} was told {times} times"
        if not self.crashed:
            assert not [key for key, count in sent.items() if count > 1]
            told = {(run_id, d.told_by) for (run_id, _), a in self.alerts.items() for d in a.deliveries.values()}
            repeats = {key for key, message in notices.items() if "still are" in message.reason}
            assert {each for each in listed if each[1] not in repeats} <= told, "a notice told of what was told alone"


TestSweeping = Sweeping.TestCase
TestSweeping.settings = settings(
    max_examples=examples(15, 5000),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
