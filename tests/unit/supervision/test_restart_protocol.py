"""The laws of restarts, whoever acts, dies, answers late or not at all: two supervisors, an agent, a Lambda, a person.

Never two jobs at once. Never a restart lost, once everybody is well again. Never one too many. Each ruling is told
once. A Lambda decides about no restart.
"""

import contextlib
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.supervision.lease import SupervisorLease
from lastbeat.model.job import JobState
from lastbeat.model.status import Status
from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.watch.effects.runner import ACTION_LEASE_S
from support.laws import examples
from support.memory import Killed
from support.restart_protocol import CRASHES, GONE, STALLS, ModelMachine, ProtocolScene

ACTORS = st.sampled_from(["supervisor 1", "supervisor 2", "agent", "lambda"])
ENDS = st.sampled_from(
    [
        (JobState.FAILED, 1, None),
        (JobState.FAILED, 1, "_error"),
        # It says that it failed, and runs on.
        (JobState.RUNNING, None, "_error"),
        (JobState.CANCELLED, None, None),
        (JobState.TIMEOUT, None, None),
        (JobState.NODE_LOST, None, None),
        (JobState.GONE, None, None),
        (JobState.SUCCEEDED, 0, None),
        (JobState.SUCCEEDED, 0, "_complete"),
    ]
)


class RestartProtocol(RuleBasedStateMachine):
    """Everybody who acts on one run, in any order.

    On ``one_machine``, supervisors are processes of it. Whoever takes the lease of a dead one knows that its claims are
    dead, too, and that what it was starting has happened, holds its name, or never will."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = ProtocolScene.new()
        self.actors: dict[str, Callable[[], object]] = {}
        self.dead: set[int] = set()
        self.pids: dict[str, int] = {}

    @initialize(one_machine=st.booleans())
    def begin(self, *, one_machine: bool) -> None:
        self.one_machine = self.scene.scheduler.locks = one_machine
        self.scene.begin()

    # Whoever acts.

    def _act(self, actor: str) -> None:
        if actor not in self.actors:
            self.actors[actor] = self._made(actor)
        with self.scene.written_by(actor):
            self.actors[actor]()

    def _made(self, actor: str) -> Callable[[], object]:
        if actor == "agent":
            return self.scene.agent().run
        if actor == "lambda":
            return self.scene.remote_watch().tick
        return self._leased(actor) if self.one_machine else self.scene.watch().tick

    def _leased(self, actor: str) -> Callable[[], object]:
        scene = self.scene
        pid = self.pids[actor] = 1 + len(self.dead) + 1000 * int(actor[-1])
        machine = ModelMachine("here", "boot", "pid:[1]", pid, self.dead)
        lease = SupervisorLease("ada@here", f"{actor}, process {pid}", machine)
        watch = scene.watch(lease=lease)
        seated = False

        def act() -> None:
            nonlocal seated
            if not seated:
                with contextlib.suppress(StoreError):
                    seated = lease.take(scene.repository(), scene.store.now)[1] is None
            if seated:
                # Also when another one has the lease meanwhile: it may have slept.
                watch.tick()

        return act

    def _is_gone(self, actor: str) -> None:
        """Its process is dead."""
        self.actors.pop(actor, None)
        if actor in self.pids:
            self.dead.add(self.pids.pop(actor))

    @rule(actor=ACTORS)
    def looks(self, actor: str) -> None:
        self._act(actor)

    @rule(actor=ACTORS, call=st.integers(0, 14), before=st.booleans(), of_store=st.booleans())
    def dies(self, actor: str, call: int, *, before: bool, of_store: bool) -> None:
        """At one of its calls; another process takes its part."""
        scene = self.scene
        if of_store:
            scene.store.die_at(call, before=before)
        else:
            scene.launcher.die_at(call % 5, Killed, before=before)
        with contextlib.suppress(Killed):
            self._act(actor)
        scene.heal()
        self._is_gone(actor)

    @rule(actor=ACTORS)
    def dies_as_a_submission_is_on_its_way(self, actor: str) -> None:
        """The scheduler's own command goes on without whoever called it."""
        scene, before = self.scene, len(self.scene.scheduler.on_the_way)
        scene.scheduler.late = True

        def hook(_operation: str, _key: str) -> None:
            if len(scene.scheduler.on_the_way) > before:
                raise Killed

        scene.store.before = hook
        with contextlib.suppress(Killed):
            self._act(actor)
        scene.heal()
        scene.scheduler.late = False
        self._is_gone(actor)

    @rule(actor=ACTORS, call=st.integers(0, 14), before=st.booleans(), of_store=st.booleans())
    def gets_no_answer(self, actor: str, call: int, *, before: bool, of_store: bool) -> None:
        """To one of its calls, which happened or did not."""
        scene, left = self.scene, call if of_store else call % 5

        def hook(_operation: str, _key: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise UnreachableError("no answer") if of_store else LauncherError("no answer")

        on = scene.store if of_store else scene.launcher
        setattr(on, "before" if before else "after", hook)
        self._act(actor)
        scene.heal()

    @rule(actor=ACTORS, other=ACTORS, call=st.integers(0, 14), of_store=st.booleans())
    def is_overtaken(self, actor: str, other: str, call: int, *, of_store: bool) -> None:
        """Between two of its calls another one makes a whole pass."""
        scene, left = self.scene, call if of_store else call % 5
        if actor == other:
            return

        def hook(_operation: str, _key: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                scene.heal()
                self._act(other)

        (scene.store if of_store else scene.launcher).before = hook
        self._act(actor)
        scene.heal()

    # What the world does.

    @rule(seconds=st.sampled_from([1.0, 30.0, 120.0, ACTION_LEASE_S + 1, 700.0]), beats=st.booleans())
    def time_passes(self, seconds: float, *, beats: bool) -> None:
        self.scene.store.pass_time(seconds)
        self.scene.scheduler.arrive()
        if beats:
            self.scene.beat()

    @rule(end=ENDS)
    def the_job_ends(self, end: tuple[JobState, int | None, str | None]) -> None:
        self.scene.ends(*end)

    @rule(what=st.sampled_from(["silent", "slow_to_die", "queues", "late"]), on=st.booleans())
    def the_scheduler_is(self, what: str, *, on: bool) -> None:
        setattr(self.scene.scheduler, what, on)

    @rule()
    def what_was_cancelled_dies(self) -> None:
        self.scene.scheduler.die()

    @precondition(lambda self: self.scene.job is not None)
    @rule()
    def a_queued_job_begins(self) -> None:
        job = self.scene.launcher.jobs[str(self.scene.job)]
        if job.state is JobState.PENDING:
            job.state, job.started_at = JobState.RUNNING, self.scene.store.now

    @rule()
    def a_person_stops_it(self) -> None:
        self.scene.stop()

    # The laws.

    @invariant()
    def no_two_jobs_live_and_none_starts_in_vain(self) -> None:
        assert self.scene.broken == []

    @invariant()
    def budgets_hold(self) -> None:
        assert len(self.scene.scheduler.started) <= 1 + CRASHES + STALLS + GONE
        record = self.scene.as_written()
        if record is not None:
            begun = sum(each.done_at is not None for each in record.actions)
            assert begun <= 1 + len(record.restarts), "each restart that was made counts"

    def teardown(self) -> None:
        scene = self.scene
        scene.heal()
        for what in ("silent", "slow_to_die", "queues", "late"):
            setattr(scene.scheduler, what, False)
        scene.scheduler.die()
        for actor in list(self.actors):
            self._is_gone(actor)
        for _ in range(12):
            for _ in range(3):
                self._act("supervisor 1")
                scene.store.pass_time(100.0)
                scene.scheduler.arrive()
                if scene.job is not None and scene.launcher.jobs[scene.job].state is JobState.PENDING:
                    self.a_queued_job_begins()
                scene.beat()
        assert scene.broken == []
        record = scene.as_written()
        assert record is not None
        assert all(each.settled for each in record.actions), "what was decided is carried out"
        if scene.lives:
            assert record.status is Status.RUNNING
            return
        ruling = record.ruling
        assert ruling is not None, "what ended is ruled on"
        assert not ruling.restart, f"a restart was lost: {ruling}"
        good = scene.job in scene.ended_well or scene.job in scene.stopped
        assert good or "retry budget exhausted" in ruling.reason, ruling.reason


TestRestartProtocol = RestartProtocol.TestCase
TestRestartProtocol.settings = settings(max_examples=examples(30, 4000), stateful_step_count=40, deadline=None)
