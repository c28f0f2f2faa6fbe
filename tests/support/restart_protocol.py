"""A scheduler that answers late or not at all, and everybody who acts on one run: for the laws of restarts."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.launchers.processes import ProcessIdentity
from lastbeat.jobs.stopping import TooLateError, call_off
from lastbeat.jobs.supervision.lease import Machine
from lastbeat.model.job import JobReport, JobSpec, JobState
from lastbeat.model.policy import Policy
from lastbeat.model.record import Record
from lastbeat.model.restart import Mode, RestartPolicy, RestartRule
from lastbeat.model.status import Status
from lastbeat.model.stop_request import StopRequest, encode_request
from lastbeat.watch.record.codec import decode_record
from support.channel import ListChannel
from support.jobs import RUN, FakeJob, FakeLauncher, SupervisedScene
from support.memory import MemoryStore

CRASHES, STALLS, GONE = 2, 2, 1
POLICY = RestartPolicy(
    "model",
    {
        Mode.CRASH: RestartRule("always", CRASHES),
        Mode.STALL: RestartRule("always", STALLS),
        Mode.TIMEOUT: RestartRule("always", GONE),
    },
    same_step_times=100,
)
RECORD = f"{RUN}/_watchdog.json"
LATE_S = 90.0
"""So late a submission may arrive that nobody got an answer to."""


@dataclass
class LateLauncher(FakeLauncher):
    """``silent``: it answers nobody. A submission may arrive later than its caller waits, and a job may take a while to
    die. It refuses nothing, and keeps every job."""

    clock: Callable[[], datetime] = datetime.now
    silent: bool = False
    slow_to_die: bool = False
    queues: bool = False
    """New jobs wait for their turn."""
    late: bool = False
    """The next submission arrives when its caller has given up."""
    locks: bool = False
    """Of a name that is on its way it tells nobody anything, and starts none: a local job's folder is locked."""
    on_the_way: list[tuple[datetime, str, JobSpec]] = field(default_factory=list)
    dying: set[str] = field(default_factory=set)
    started: list[str] = field(default_factory=list)
    """Jobs in the order in which they came to be."""
    broken: list[str] = field(default_factory=list)
    """Which laws were broken, in words."""
    unwanted: Callable[[], str] = lambda: ""
    """Why no job may start now; "": one may."""

    def submit(self, spec: JobSpec, name: str, since: datetime) -> str:
        self._enter("submit", name)
        self._refuse_if_silent()
        self._refuse_if_locked(name)
        if self.late:
            self.late = False
            self.on_the_way.append((self.clock() + timedelta(seconds=LATE_S), name, spec))
            raise LauncherError("no answer in time")
        self._start(name, spec)
        self.after("submit", name)
        return name

    def _start(self, name: str, spec: JobSpec) -> None:
        if name in self.jobs:
            self.broken.append(f"{name} starts twice")
            return
        alive = [each for each, job in self.jobs.items() if not job.state.ended]
        if alive:
            self.broken.append(f"{name} starts while {alive[0]} lives")
        if why := self.unwanted():
            self.broken.append(f"{name} starts although {why}")
        state = JobState.PENDING if self.queues else JobState.RUNNING
        self.jobs[name] = FakeJob(spec, state, started_at=self.clock())
        self.started.append(name)

    def arrive(self) -> None:
        """What was on its way for long enough is there."""
        here = [each for each in self.on_the_way if each[0] <= self.clock()]
        self.on_the_way = [each for each in self.on_the_way if each not in here]
        for _, name, spec in here:
            self._start(name, spec)

    def find(self, name: str, since: datetime) -> str | None:
        self._enter("find", name)
        self._refuse_if_silent()
        self._refuse_if_locked(name)
        self.after("find", name)
        return name if name in self.jobs else None

    def state(self, job: str) -> JobReport:
        if self.silent:
            return JobReport(JobState.UNKNOWN, reason="no answer")
        return super().state(job)

    def place(self) -> str:
        return self.place_name

    def cancel(self, job: str) -> None:
        self._enter("cancel", job)
        self._refuse_if_silent()
        if not self.jobs[job].state.ended:
            self.dying.add(job)
            if not self.slow_to_die:
                self.die()
        self.after("cancel", job)

    def die(self) -> None:
        """What was told to end has ended."""
        for name in self.dying:
            if not self.jobs[name].state.ended:
                self.jobs[name].state = JobState.CANCELLED
        self.dying.clear()

    def _refuse_if_locked(self, name: str) -> None:
        if self.locks and any(name == each for _, each, _ in self.on_the_way):
            raise LauncherError(f"{name} is just being started")

    def _refuse_if_silent(self) -> None:
        if self.silent:
            raise LauncherError("no answer")


@dataclass(frozen=True)
class ModelMachine(Machine):
    """A machine as one of its processes sees it."""

    pid: int = 0
    dead: set[int] = field(default_factory=set)

    def own(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, 1, self.boot)

    def lives(self, process: ProcessIdentity) -> bool:
        return process.pid not in self.dead


class WitnessStore(MemoryStore):
    """Compares each record that is written with the one before it."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: list[str] = []
        self.writer = ""
        """The actor whose pass writes now."""

    def _set(self, key: str, body: bytes, modified: datetime) -> str:
        held = self.held.get(key)
        if key == RECORD:
            self._compare(None if held is None else decode_record(held.body), decode_record(body))
        return super()._set(key, body, modified)

    def _compare(self, old: Record | None, new: Record) -> None:
        """Each ruling is told once, in the write that records it; and once more when the job that it left is dead. A
        Lambda decides nothing: its alert of a failure names who does."""
        known = old.alerts if old is not None else 0
        noted = [alert for alert in new.outbox if alert.number > known and alert.message.restart is not None]
        if self.writer == "lambda":
            self._compare_what_a_lambda_wrote(old, new, [str(alert.message.restart) for alert in noted])
        told = [alert for alert in noted if " decides" not in str(alert.message.restart)]
        before, after = old.ruling if old is not None else None, new.ruling
        changed = after is not None and (
            before is None or (before.number, before.restart) != (after.number, after.restart)
        )
        dead = before is not None and after is not None and before.job != after.job
        if len(told) > 1 or (told and not (changed or dead)):
            self.broken.append(f"told again: {[alert.message.restart for alert in told]}")
        audible = new.status in {Status.FAILED, Status.TIMED_OUT} and new.flapping_since is None
        # Whoever called off the next job knows that.
        by_person = after is not None and after.reason.startswith("stopped by ada@here")
        if changed and audible and not told and not by_person:
            self.broken.append(f"nobody is told: {after}")

    def _compare_what_a_lambda_wrote(self, old: Record | None, new: Record, notes: list[str]) -> None:
        if any(
            "its supervisor on here decides" not in note and "the agent on login decides" not in note for note in notes
        ):
            self.broken.append(f"a lambda says more than who decides: {notes}")
        before = old if old is not None else Record(run_id=new.run_id)
        decided = (before.ruling, before.restarts, [each.name for each in before.actions])
        if decided != (new.ruling, new.restarts, [each.name for each in new.actions]):
            self.broken.append(f"a lambda decides: {new.ruling}")


@dataclass
class ProtocolScene(SupervisedScene):
    """One run, and what its job does."""

    policy: RestartPolicy | None = POLICY
    limits: Policy = field(default_factory=lambda: replace(Policy(), stale_s=300.0))
    ended_well: set[str] = field(default_factory=set)
    """Jobs whose training completed, whatever became of their processes."""
    said_failed: set[str] = field(default_factory=set)
    """Jobs whose training wrote ``_error``, which outranks ``_complete``."""
    stopped: set[str] = field(default_factory=set)
    """Jobs that a person stopped."""

    @staticmethod
    def new() -> "ProtocolScene":
        store = WitnessStore()
        launcher = LateLauncher(clock=store.clock)
        scene = ProtocolScene(store, launcher, ListChannel())
        launcher.unwanted = scene.unwanted
        return scene

    @property
    def scheduler(self) -> LateLauncher:
        assert isinstance(self.launcher, LateLauncher)
        return self.launcher

    @property
    def broken(self) -> list[str]:
        """Which laws were broken, in words."""
        assert isinstance(self.store, WitnessStore)
        return [*self.scheduler.broken, *self.store.broken]

    @property
    def job(self) -> str | None:
        """The newest job."""
        return self.scheduler.started[-1] if self.scheduler.started else None

    @property
    def lives(self) -> bool:
        return self.job is not None and not self.launcher.jobs[self.job].state.ended

    @contextlib.contextmanager
    def written_by(self, actor: str) -> Iterator[None]:
        """What is written meanwhile, ``actor`` writes."""
        assert isinstance(self.store, WitnessStore)
        before, self.store.writer = self.store.writer, actor
        try:
            yield
        finally:
            self.store.writer = before

    def unwanted(self) -> str:
        if self.job in self.ended_well - self.said_failed:
            return f"{self.job} has completed"
        return f"a person stopped {self.job}" if self.job in self.stopped else ""

    def as_written(self) -> Record | None:
        held = self.store.held.get(RECORD)
        return decode_record(held.body) if held is not None else None

    def beat(self) -> None:
        """Training lives and gets on."""
        if self.job is None or self.launcher.jobs[self.job].state is not JobState.RUNNING:
            return
        started = self.launcher.jobs[self.job].started_at
        assert started is not None
        self.store.put_text(f"{RUN}/metadata.json", json.dumps({"start_time": started.isoformat()}))

    def ends(self, state: JobState, code: int | None, sentinel: str | None) -> None:
        """The newest job ends by itself, or fails and runs on; training may say so first."""
        if self.job is None or not self.lives:
            return
        if sentinel is not None and self.launcher.jobs[self.job].state is JobState.RUNNING:
            self.beat()
            self.store.put_text(f"{RUN}/{sentinel}", "" if sentinel == "_complete" else "RuntimeError: boom")
            if sentinel == "_error":
                self.said_failed.add(self.job)
        if state is JobState.SUCCEEDED and (sentinel is not None or self.job not in self.scheduler.dying):
            # Whoever was told to end may do so with exit status 0.
            self.ended_well.add(self.job)
        self.end(self.job, state, code)
        if state.ended:
            self.scheduler.dying.discard(self.job)

    def stop(self) -> None:
        """``lastbeat stop``: the next job is called off; a request beside the run, and the end of its job."""
        record = self.as_written()
        if not self.lives or record is None or record.job is None or record.job.name != self.job:
            # Nobody knows yet what there is to stop, and the command says so.
            return
        try:
            call_off(self.repository(), "ada@here")
        except TooLateError:
            # The next job is being started, and the command says so.
            return
        beat = self.store.held.get(f"{RUN}/metadata.json")
        began = None if beat is None else datetime.fromisoformat(json.loads(beat.body)["start_time"])
        attempt = record.attempt.number if beat is None else None
        body = encode_request(StopRequest("ada@here", self.store.now, start_time=began, attempt=attempt))
        self.store.put_text(f"{RUN}/_stop", body.decode())
        self.stopped.add(self.job)
        self.scheduler.dying.add(self.job)
        self.scheduler.die()
