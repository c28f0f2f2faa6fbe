"""A launcher in memory, and supervised runs on it. It counts what nobody may do twice."""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

import pytest

from lastbeat.jobs.checkpoints.survey import survey
from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.restarts.loading import load
from lastbeat.jobs.supervision.agent import Agent
from lastbeat.jobs.supervision.beginning import begin
from lastbeat.jobs.supervision.commands import Commands
from lastbeat.jobs.supervision.lease import SupervisorLease
from lastbeat.jobs.supervision.pass_reports import PassReports
from lastbeat.jobs.supervision.reactions import Reactions
from lastbeat.jobs.supervision.restarting import RestartExecutor, StopExecutor, last_written, spec_of
from lastbeat.jobs.supervision.supervisor import Supervisor
from lastbeat.model.job import GpuUse, JobReport, JobSpec, JobState
from lastbeat.model.policy import Policy
from lastbeat.model.record import Record
from lastbeat.model.restart import RestartPolicy, RestartRuling, Supervision
from lastbeat.model.signal import Catalogue
from lastbeat.stores.port import Store
from lastbeat.watch.observe.log_observer import LogSettings, default_catalogue
from lastbeat.watch.record.repository import RecordRepository
from lastbeat.watch.watchdog import Watch, WatchContext
from support.channel import ListChannel
from support.memory import Killed, MemoryStore

RUN = "run"


@dataclass
class FakeJob:
    """A job as the launcher knows it."""

    spec: JobSpec
    state: JobState = JobState.RUNNING
    exit_code: int | None = None
    signal: int | None = None
    said: str = ""
    restarts: int = 0
    reason: str = ""
    outputs: tuple[str, ...] = ()
    started_at: datetime | None = None
    gpus: GpuUse | None = None


@dataclass
class FakeLauncher:
    """``before`` and ``after`` are called with (operation, name) around each call and may raise: before means that
    nothing happened, after that it happened and the answer got lost."""

    kind: str = "local"
    limit_s: float = 20.0
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    submitted: list[str] = field(default_factory=list)
    alive_at_once: int = 0
    calls: list[tuple[str, str]] = field(default_factory=list)
    before: Callable[[str, str], None] = lambda _operation, _name: None
    after: Callable[[str, str], None] = lambda _operation, _name: None
    ends_when_cancelled: bool = True
    place_name: str = "here"
    nodes: tuple[str, ...] = ("n1",)
    written: bytes | None = None
    """What the jobs have written, where that is asked for."""

    def place(self) -> str:
        self._enter("place", "")
        return self.place_name

    def submit(self, spec: JobSpec, name: str, since: datetime) -> str:
        self._enter("submit", name)
        self.submitted.append(name)
        self.jobs[name] = FakeJob(spec)
        alive = sum(not job.state.ended for job in self.jobs.values())
        self.alive_at_once = max(self.alive_at_once, alive)
        self.after("submit", name)
        return name

    def find(self, name: str, since: datetime) -> str | None:
        self._enter("find", name)
        found = name if name in self.jobs else None
        self.after("find", name)
        return found

    def state(self, job: str) -> JobReport:
        try:
            self._enter("state", job)
            self.after("state", job)
        except LauncherError as error:
            return JobReport(JobState.UNKNOWN, reason=str(error))
        return self._report(job)

    def states(self, jobs: Collection[str]) -> Mapping[str, JobReport]:
        """As Slurm answers: of jobs that have ended it has to be asked one by one."""
        try:
            self._enter("states", " ".join(sorted(jobs)))
            self.after("states", "")
        except LauncherError as error:
            return dict.fromkeys(jobs, JobReport(JobState.UNKNOWN, reason=str(error)))
        return {job: self._report(job) for job in jobs if job in self.jobs and not self.jobs[job].state.ended}

    def _report(self, job: str) -> JobReport:
        found = self.jobs.get(job)
        if found is None:
            return JobReport(JobState.GONE, "gone", "nobody knows it")
        return JobReport(
            found.state,
            found.said or found.state.value,
            exit_code=found.exit_code,
            signal=found.signal,
            nodes=self.nodes,
            started_at=found.started_at,
            restarts=found.restarts,
            reason=found.reason,
            outputs=found.outputs,
            gpus=found.gpus,
        )

    def output(self, job: str, most: int) -> bytes | None:
        if self.written is None:
            return None
        self._enter("output", job)
        return self.written[-most:]

    def files(self, path: str) -> Store | None:
        return None

    def cancel(self, job: str) -> None:
        self._enter("cancel", job)
        if self.ends_when_cancelled and not self.jobs[job].state.ended:
            self.jobs[job].state = JobState.CANCELLED
        self.after("cancel", job)

    def _enter(self, operation: str, name: str) -> None:
        self.calls.append((operation, name))
        self.before(operation, name)

    def refuse(self, operation: str, error: BaseException | type[BaseException]) -> None:
        """Raise ``error`` at every call of ``operation``, or of "any"."""

        def hook(asked: str, _name: str) -> None:
            if operation in {"any", asked}:
                raise error

        self.before = hook

    def die_at(self, call: int, error: Callable[[], BaseException], *, before: bool) -> None:
        """Raise ``error`` before, or after, the call with this number, counted from 0, and at every one after."""
        left = call

        def hook(_operation: str, _name: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise error()

        if before:
            self.before = hook
        else:
            self.after = hook

    def heal(self) -> None:
        self.before = self.after = lambda _operation, _name: None


@dataclass
class SupervisedScene:
    """A store, a launcher, a channel, and as many supervisors as a test wants."""

    store: MemoryStore = field(default_factory=MemoryStore)
    launcher: FakeLauncher = field(default_factory=FakeLauncher)
    channel: ListChannel = field(default_factory=ListChannel)
    policy: RestartPolicy | None = field(default_factory=lambda: load("default"))
    limits: Policy = field(default_factory=Policy)
    waited_s: list[float] = field(default_factory=list)
    """How long starts of jobs slept."""
    delay_s: float = 0.0
    checkpoints: MemoryStore | None = None
    log_places: tuple[str, ...] = ()
    """Patterns of logs on this machine."""
    commands: FakeLauncher = field(default_factory=FakeLauncher)
    """Runs the commands of the policy."""
    place: str = "here:state"
    since: datetime | None = None
    """When the supervision began."""

    def begin(self, lease: SupervisorLease | None = None) -> None:
        """As ``lastbeat supervise`` does."""
        found = survey(self.checkpoints, settle_s=0).chosen if self.checkpoints is not None else None
        resume = None if found is None else (found.url, found.step)
        begin(self.repository(), RUN, self.supervision, self.launcher, self.store.now, resume, lease=lease)

    def repository(self) -> RecordRepository:
        """The run's record, as another process has it."""
        return RecordRepository(self.store, f"{RUN}/_watchdog.json", os.urandom(6).hex())

    @property
    def supervision(self) -> Supervision:
        return Supervision(self.launcher.kind, JobSpec(("train",), "/tmp"), by="ada@here", compiled=self.policy)

    def remote_watch(self) -> Watch:
        """A watcher that cannot ask the launcher, as a sweep or a Lambda has it."""
        return Watch(RUN, WatchContext(self.store, (self.channel,), self.limits, self.store.clock))

    def watch(
        self, *, supervises: bool = True, lease: SupervisorLease | None = None, reports: PassReports | None = None
    ) -> Watch:
        """A watcher of its own, as another process has it."""
        place = self.checkpoints
        opened = None if place is None else lambda: place
        supervisor = Supervisor(RUN, self.store, self.launcher, self.policy, opened, self.delay_s, lambda: 0.5, lease)
        supervisor.reactions = self._reactions(opened)
        supervisor.reports = reports
        supervisor.starts = RestartExecutor(
            self.launcher,
            lambda action: spec_of(self.supervision, action, RUN, "memory://"),
            self.store.clock,
            lambda: last_written(self.store, RUN),
            sleep=self._sleep,
        )
        more: dict[str, Any] = {}
        if supervises:
            more = {"supervisor": supervisor, "executors": supervisor.executors}
        named = (
            frozenset().union(*self.policy.reaction_signals.values()) if self.policy is not None else frozenset[str]()
        )
        more["signals"] = LogSettings(lambda: _noticing(named), str(sorted(named)), self.log_places)
        token = None if lease is None else lease.token
        context = WatchContext(self.store, (self.channel,), self.limits, self.store.clock, token=token, **more)
        return Watch(RUN, context)

    def agent(self, *, trusts: bool = True) -> Agent:
        """An agent of its own, as another login node has it."""
        reports = PassReports(self.launcher, self.store.clock)
        return Agent(
            self.store,
            reports,
            lambda _run_id, _supervision: self.watch(reports=reports),
            trusts=lambda _run_id: trusts,
            by="ada@login",
            interval_s=30.0,
        )

    def _reactions(self, opened: Callable[[], Store] | None) -> Reactions | None:
        policy = self.policy
        if policy is None or not policy.reactions:
            return None
        return Reactions(
            policy,
            Commands(RUN, self.store, self.commands, policy, "/tmp", self.place, lambda _: b"its output"),
            StopExecutor(self.launcher),
            opened,
            self.since,
            self.limits.alert_on,
            lambda name: next((each for each in default_catalogue().signals if each.name == name), None),
        )

    def _sleep(self, seconds: float) -> None:
        self.waited_s.append(seconds)
        self.store.pass_time(seconds)

    def record(self) -> Record:
        """As it stands beside the run."""
        found = RecordRepository(self.store, f"{RUN}/_watchdog.json", "look").reload()
        assert found is not None
        return found

    def ruling(self) -> RestartRuling:
        """What is decided about a restart, as the record has it."""
        found = self.record().ruling
        assert found is not None
        return found

    def end(self, name: str, state: JobState, exit_code: int | None = None) -> None:
        self.launcher.jobs[name].state, self.launcher.jobs[name].exit_code = state, exit_code

    def die_at(self, which: str, call: int, *, before: bool) -> None:
        """Whoever acts dies before, or after, that call of the store, the launcher or the commands."""
        if which == "store":
            self.store.die_at(call, before=before)
        else:
            getattr(self, which).die_at(call, Killed, before=before)

    def heal(self) -> None:
        self.store.heal()
        self.launcher.heal()
        self.commands.heal()


@lru_cache
def _noticing(named: frozenset[str]) -> Catalogue:
    """One catalogue for all watchers of a policy, as a supervisor has it: what matches its patterns is made once."""
    return default_catalogue()._replace(noticed=named)


def _look(scene: SupervisedScene) -> object:
    return scene.watch().tick()


def call_points(
    story: Callable[[], SupervisedScene], *which: str, act: Callable[[SupervisedScene], object] = _look
) -> list[Any]:
    """Before and after each call that ``act``, or one look of a supervisor, makes of those parts of the story's scene:
    rows of the part, the number of the call and whether it is before it."""

    def calls_of(part: str) -> int:
        scene = story()
        getattr(scene, part).calls.clear()
        act(scene)
        return len(getattr(scene, part).calls)

    return [
        pytest.param(part, call, before, id=f"{'before' if before else 'after'} call {call} of the {part}")
        for part in which
        for call in range(calls_of(part))
        for before in (True, False)
    ]
