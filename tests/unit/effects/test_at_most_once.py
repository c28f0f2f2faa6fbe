"""Executors that die at any moment, two at once, answers that get lost: what changes the world happens exactly once, as
long as somebody lives on, and people are told at least once."""

import contextlib
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lastbeat.model.action import Action
from lastbeat.model.alert import Message
from lastbeat.model.record import Record
from lastbeat.model.status import Event, Status
from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.watch.effects.actions import ExecutorError, NotDoneError, request
from lastbeat.watch.effects.outbox import enqueue
from lastbeat.watch.effects.runner import ACTION_LEASE_S, EffectRunner
from lastbeat.watch.record.repository import RecordRepository
from support.channel import ListChannel
from support.cluster import Cluster, ClusterExecutor
from support.laws import examples
from support.memory import START, Killed, MemoryStore
from support.there import there

KEY = "mistral/_watchdog.json"


@dataclass
class World:
    """A store, a cluster and a channel, and whoever acts on them."""

    store: MemoryStore = field(default_factory=MemoryStore)
    cluster: Cluster = field(default_factory=Cluster)
    channel: ListChannel = field(default_factory=ListChannel)
    executors: int = 0

    def executor(self) -> "Supervisor":
        self.executors += 1
        return Supervisor(self, f"token-{self.executors}")

    def pass_time(self, seconds: float) -> None:
        self.store.pass_time(seconds)

    def steady(self) -> float:
        return (self.store.now - START).total_seconds()

    def heal(self) -> None:
        self.store.heal()
        self.cluster.heal()

    def settle_everything(self) -> Record:
        """Nothing goes wrong any more: what becomes of it all."""
        self.heal()
        survivor = self.executor()
        for _ in range(8):
            survivor.round("r1")
            self.pass_time(ACTION_LEASE_S)
        return there(survivor.repository.reload())


class Supervisor:
    """One process: reads the record, asks for what it wants, carries out what it may."""

    def __init__(self, world: World, token: str) -> None:
        self.world = world
        store = world.store
        self.repository = RecordRepository(store, KEY, token, proven=True)
        self.runner = EffectRunner(
            self.repository,
            [world.channel],
            60.0,
            store.clock,
            [ClusterExecutor(world.cluster)],
            sleep=store.pass_time,
            steady=world.steady,
        )

    def round(self, *names: str) -> None:
        """Decide, record, carry out, settle; a lost race or a store that fails is the next round's affair."""
        try:
            record = self.repository.reload() or Record("mistral", conditional_writes=True)
            for name in names:
                if any(action.name == name for action in record.actions):
                    continue
                now = self.world.store.now
                record = request(record, Action(name, "restart", now, "policy", "hang"))
                record = enqueue(record, Message("mistral", Event.FAILED, Status.FAILED, name, now), ["list:1"])
            self.runner.round(record, self.world.store.now, must_write=bool(names))
        except StoreError:
            pass


def test_what_was_done_and_could_not_be_written_down_is_written_by_the_next_round() -> None:
    world = World()
    supervisor = world.executor()

    def refuse(operation: str, _key: str) -> None:
        if operation == "write" and world.cluster.submitted:
            raise UnreachableError("503")

    world.store.before = refuse
    supervisor.round("r1")
    world.heal()
    supervisor.round()
    assert there(supervisor.repository.reload()).actions[0].result == "job-1"
    assert world.cluster.asked["r1"] == 1, "it knew: nobody had to be asked"


def test_the_world_is_asked_before_the_first_try_too() -> None:
    world = World()
    world.cluster.jobs["r1"] = "job-of-a-record-that-was-lost"
    record = world.settle_everything()
    assert world.cluster.submitted.total() == 0
    assert record.actions[0].result == "job-of-a-record-that-was-lost"


NAMES = st.sampled_from([f"r{number}" for number in range(8)])
"""Each deed may be of a new one: whatever goes wrong, goes wrong while something is to be done."""


class Protocol(RuleBasedStateMachine):
    """Three executors, any order of deeds, deaths, outages and silences."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.supervisors = [self.world.executor() for _ in range(3)]
        self.wanted: set[str] = set()

    def _acts(self, which: int, *names: str) -> None:
        self.wanted.update(names)
        self.supervisors[which].round(*names)

    @rule(which=st.integers(0, 2), name=NAMES)
    def somebody_decides_and_acts(self, which: int, name: str) -> None:
        self._acts(which, name)

    @rule(which=st.integers(0, 2))
    def somebody_carries_out_what_others_recorded(self, which: int) -> None:
        self.supervisors[which].round()

    @rule(which=st.integers(0, 2), call=st.integers(0, 5), before=st.booleans(), name=NAMES)
    def somebody_is_killed(self, which: int, call: int, before: bool, name: str) -> None:
        self.world.store.die_at(call, before=before)
        with contextlib.suppress(Killed):
            self._acts(which, name)
        self.world.store.heal()
        self.supervisors[which] = self.world.executor()

    @rule(
        which=st.integers(0, 2),
        operation=st.sampled_from(["find", "perform"]),
        side=st.sampled_from(["before", "after"]),
        how=st.sampled_from([Killed, ExecutorError, ZeroDivisionError]),
        name=NAMES,
    )
    def the_world_does_not_answer(
        self, which: int, operation: str, side: str, how: type[BaseException], name: str
    ) -> None:
        def fail(doing: str, _name: str) -> None:
            if doing == operation:
                raise how("no answer")

        setattr(self.world.cluster, side, fail)
        try:
            self._acts(which, name)
        except Killed:
            self.supervisors[which] = self.world.executor()
        self.world.cluster.heal()

    @rule(which=st.integers(0, 2), name=NAMES)
    def the_world_has_no_room(self, which: int, name: str) -> None:
        def refuse(doing: str, _name: str) -> None:
            if doing == "perform":
                raise NotDoneError("the queue is full")

        self.world.cluster.before = refuse
        self._acts(which, name)
        self.world.cluster.heal()

    @rule(one=st.integers(0, 2), other=st.integers(0, 2), at=st.sampled_from(["write", "find", "perform"]), name=NAMES)
    def two_act_at_once(self, one: int, other: int, at: str, name: str) -> None:
        started = False

        def interrupt(doing: str, _name: str) -> None:
            nonlocal started
            if doing == at and not started:
                started = True
                self.supervisors[other].round(name)

        if one != other:
            self.world.store.before = self.world.cluster.before = interrupt
            self._acts(one, name)
            self.world.heal()

    @rule(
        which=st.integers(0, 2),
        slow_s=st.sampled_from([30.0, 290.0, 400.0]),
        other=st.integers(0, 2),
        side=st.sampled_from(["before", "after"]),
        name=NAMES,
    )
    def somebody_is_slow_while_others_go_on(self, which: int, slow_s: float, other: int, side: str, name: str) -> None:
        stalled = False

        def stall(doing: str, _name: str) -> None:
            nonlocal stalled
            if doing == "find" and not stalled:
                stalled = True
                self.world.pass_time(slow_s)
                if other != which:
                    self.supervisors[other].round()

        setattr(self.world.cluster, side, stall)
        # Of the second one the time is over before it begins.
        self._acts(which, name, "r8", "r9")
        self.world.cluster.heal()

    @rule(seconds=st.sampled_from([1.0, 61.0, 301.0, 4000.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(lost=st.booleans(), which=st.integers(0, 2), name=NAMES)
    def the_store_fails_at_a_write(self, lost: bool, which: int, name: str) -> None:
        def fail(doing: str, _key: str) -> None:
            if doing == "write":
                raise UnreachableError("503")

        setattr(self.world.store, "after" if lost else "before", fail)
        self._acts(which, name)
        self.world.store.heal()

    @invariant()
    def nothing_happens_twice(self) -> None:
        assert all(count == 1 for count in self.world.cluster.submitted.values())

    def teardown(self) -> None:
        self.world.heal()
        survivor = self.world.executor()
        for _ in range(10):
            survivor.round(*self.wanted)
            self.world.pass_time(700)
        record = survivor.repository.reload() or Record("mistral")
        done = {action.name: (action.result, action.failed) for action in record.actions}
        for name in self.wanted:
            assert self.world.cluster.submitted[name] == 1, "and what was wanted has happened"
            assert done[name] == (self.world.cluster.jobs[name], None), "and it is known what came of it"
        deliveries = [each for alert in record.outbox for each in alert.deliveries.values()]
        assert len(deliveries) >= len(self.wanted)
        assert all(delivery.sent_at for delivery in deliveries), "and people were told"


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(max_examples=examples(30, 3000), stateful_step_count=30, deadline=None)
