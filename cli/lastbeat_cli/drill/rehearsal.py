"""One rehearsal of one fault: starts a real supervisor, watches its jobs, and checks the result."""

import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.jobs.launchers.port import Launcher, LauncherError
from lastbeat.jobs.supervision.restarting import CLOCKS, job_name
from lastbeat.model.job import JobState
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND, RestartRuling
from lastbeat.model.times import format_duration
from lastbeat.settings import Settings, opening
from lastbeat.stores.port import StoreError
from lastbeat.watch.record.repository import RecordRepository
from lastbeat_cli.drill.faults import NotInjectedError, Saboteur

T = TypeVar("T")
FAULT: Final = "fault"
"""The first stage; the others are timed from it."""
RUNS: Final = "new job runs"
"""The last stage."""
CLEAN_UP_S: Final = 90.0
"""Longest time, in seconds, to end the jobs of a rehearsal."""
_MOST_JOBS: Final = 20
"""Most jobs of one run that are searched for at the end."""
_MOST_BYTES: Final = 4 << 20
"""Most bytes read of a job's output."""
_SKEW_S: Final = 1.0
"""Tolerated difference between the clocks of two nodes, in seconds."""
_SAID: Final = re.compile(r"^drill (\d{1,12}(?:\.\d{1,9})?) (\w+) ?(.*)$", re.MULTILINE)
_STAMP: Final = re.compile(r"\bdrill (\d{1,12}(?:\.\d{1,9})?)")
_LASTBEAT: Final = "import sys; from lastbeat_cli.main import main; sys.exit(main())"


class UnexpectedError(Exception):
    """The expected result did not occur; ``str()`` says what happened instead."""


class InterruptedDrillError(Exception):
    """The user stopped the drill."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One step from the fault to the new job."""

    what: str
    after_s: float
    """Seconds since the fault."""
    job: str | None = None


@dataclass(frozen=True)
class Ground:
    """The part that all rehearsals of a drill share."""

    kind: str
    launcher: Launcher
    saboteur: Saboteur
    settings: Settings
    """With the drill's own fleet root and state directory."""
    folder: Path
    policy: str
    interval_s: float
    patience_s: float
    """Longest time, in seconds, that a job may wait in the queue."""
    options: tuple[str, ...]
    environment: dict[str, str]
    stalls: dict[str, str]
    """The stall limit as a setting, for jobs that stall on purpose only: others may be slow to report."""
    tell: Callable[[str, str], None]
    """Prints a line of progress for a run id."""
    stop: threading.Event
    node_loss: str | None = None


@dataclass(frozen=True, slots=True)
class Life:
    """The time from the first to the last line of a job, by the clock of its node."""

    attempt: int
    host: str
    pid: int
    first: float
    last: float


@dataclass
class Rehearsal:
    """One run of one scenario."""

    ground: Ground
    scenario: str
    run_id: str
    fault: str = "none"
    times: int = 0
    """Number of attempts in which the job causes that fault."""
    stands_still: bool = False
    """Whether the fault is a stall."""
    causes: frozenset[str] = frozenset()
    """Accepted causes; empty accepts any."""
    stages: list[Stage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fault_at: float | None = None
    _process: "subprocess.Popen[bytes] | None" = None
    _passes: list[float] = field(default_factory=list)
    _told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        store = opening.store(self.ground.settings)
        self._repository = RecordRepository.of_run(store, self.run_id)
        self._begun = store.clock()
        self._ahead_s = self._begun.timestamp() - time.time()

    @property
    def folder(self) -> Path:
        """The folder for the output of its jobs and supervisors."""
        return self.ground.folder / "output" / self.run_id

    @property
    def _brought(self) -> bool:
        """Whether jobs write on remote machines, so that supervisors bring their output to the run's logs."""
        return launcher_traits(self.ground.kind).remote

    @property
    def _logs(self) -> Path:
        """The folder with the output of its jobs."""
        return self.ground.folder / "runs" / self.run_id / "logs" if self._brought else self.folder

    @property
    def script(self) -> Path:
        return self.ground.folder / "job.sh"

    # The supervisor

    def supervise(self) -> None:
        """Start the run under a supervisor of its own."""
        ground = self.ground
        limited = "limited" if ground.saboteur.limited else "free"
        command = (*ground.saboteur.command(self.script), self.fault, str(self.times), limited, ground.saboteur.python)
        options = [f"--option={each}" for each in ground.saboteur.options(self.scenario, ground.options)]
        what = ["--run-id", self.run_id, "--launcher", ground.kind, "--policy", ground.policy, *options]
        if not self._brought:
            what += ["--output", str(self.folder / ground.saboteur.output)]
        self._start("supervise", what, ["--", *command])

    def resume(self) -> None:
        """Start another supervisor for the run."""
        self._start("resume", [self.run_id], [])

    def kill(self) -> None:
        """Kill the supervisor by SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _start(self, command: str, what: list[str], job: list[str]) -> None:
        asked = ["restart", command, *what, "--interval", f"{self.ground.interval_s:g}", "--json", *job]
        with (self.folder / "supervise.log").open("ab") as said:
            said.write(f"$ lastbeat {' '.join(asked)}\n".encode())
            said.flush()
            self._process = subprocess.Popen(  # noqa: S603 - this very program
                [sys.executable, "-c", _LASTBEAT, *asked],
                cwd=self.ground.folder,
                env=self.ground.environment | (self.ground.stalls if self.stands_still else {}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                # Only the drill itself handles a Ctrl-C at the terminal.
                start_new_session=True,
            )
        threading.Thread(target=self._note_passes, args=(self._process,), daemon=True).start()

    def _note_passes(self, process: "subprocess.Popen[bytes]") -> None:
        """Note the time of each pass: the supervisor prints one line a pass."""
        assert process.stdout is not None  # noqa: S101 - opened as a pipe
        with (self.folder / "passes.jsonl").open("ab") as kept, process.stdout as lines:
            for line in lines:
                self._passes.append(time.time())
                kept.write(line)

    @property
    def has_left(self) -> int | None:
        """The supervisor's exit status, once it has ended."""
        return None if self._process is None else self._process.poll()

    # Observations

    def record(self) -> Record | None:
        try:
            return self._repository.reload()
        except StoreError:
            return None

    def job(self, number: int) -> str | None:
        """The id of the run's job with this number in the record, or None."""
        record = self.record()
        if record is None:
            return None
        if record.job is not None and record.job.number == number:
            return record.job.id
        name = job_name(self.run_id, number)
        done = (each.result for each in record.actions if each.kind == RESTART_KIND and each.name == name)
        return next((result.partition(" ")[0] for result in done if result), None)

    def job_id(self, number: int) -> str | None:
        """The id of the job with this number at the launcher, or None."""
        try:
            return self.ground.launcher.find(job_name(self.run_id, number), self._begun - CLOCKS)
        except LauncherError:
            return None

    def ruling(self, number: int) -> RestartRuling | None:
        """The restart decision about this job's end, or None."""
        record = self.record()
        ruling = record.ruling if record is not None else None
        return ruling if ruling is not None and ruling.number == number else None

    def lives(self) -> list[Life]:
        """The lives of all jobs, read from their output, in order of time."""
        found = []
        for path in sorted(self._logs.glob("*.log")):
            if path.name != "supervise.log":
                found += list(_lives(_read(path)))
        return sorted(found, key=lambda life: life.first)

    def last_line(self, number: int, word: str) -> tuple[float, str] | None:
        """When the job last printed ``word``, with the rest of that line, or None."""
        for path in sorted(self._logs.glob(f"{job_name(self.run_id, number)}*.log")):
            found = [(float(at), rest) for at, first, rest in _SAID.findall(_read(path)) if first == word]
            if found:
                return found[-1]
        return None

    # Waiting

    def wait(self, what: str, look: Callable[[], T | None], limit_s: float, *, leaves: bool = False) -> T:
        """Wait until ``look`` returns a value, and return it.

        Raises :class:`UnexpectedError` after ``limit_s``, or if the supervisor exits first, unless it ``leaves`` here.
        """
        until = time.monotonic() + limit_s
        while (found := look()) is None:
            if self.ground.stop.is_set():
                raise InterruptedDrillError
            if self.has_left is not None and not leaves and look() is None:
                raise UnexpectedError(f"the supervisor ended with {self.has_left} before {what}{self._present()}")
            if time.monotonic() > until:
                raise UnexpectedError(f"{what}: not within {format_duration(limit_s)}{self._present()}")
            self.ground.stop.wait(self.ground.saboteur.pause_s)
        return found

    def running(self, number: int) -> str:
        """Wait until the job runs and prints its first line. Returns its id."""
        ground = self.ground

        def look() -> str | None:
            job = self.job(number)
            if job is None or self.last_line(number, "began") is None:
                return None
            # A job that fails at once may have ended before this check.
            return None if ground.launcher.state(job).state in {JobState.PENDING, JobState.UNKNOWN} else job

        return self.wait(f"job {job_name(self.run_id, number)} runs", look, ground.patience_s)

    def _present(self) -> str:
        record = self.record()
        if record is None:
            return "; the run has no record"
        job = record.job
        told = f"; the run is {record.status}: {record.reason}"
        if job is not None:
            told += f", job {job.id} {job.state}{f' ({job.reason})' if job.reason else ''}"
            if job.state is not JobState.PENDING and not self.lives() and not self._brought:
                told += (
                    f"; no job has written into {self.folder}: do the nodes share that file system? --root names one"
                )
        return told

    # From the fault to the new job

    def tell(self, line: str) -> None:
        self.ground.tell(self.run_id, line)

    def strike(self, at: float | None = None) -> None:
        """Note the time of the fault: now, or ``at``."""
        now = time.time()
        self.fault_at = now if at is None or at > now else at
        self.stages.append(Stage(FAULT, 0.0))

    def reached(self, what: str, job: str | None = None) -> None:
        """Note that a stage was reached, and print it."""
        after_s = 0.0 if self.fault_at is None else time.time() - self.fault_at
        self.stages.append(Stage(what, round(max(0.0, after_s), 2), job))
        self.tell(f"{what}{f' ({job})' if job else ''}, {after_s:.1f} s after the fault")

    def fault_line(self, number: int) -> None:
        """Wait until the job has caused its fault."""
        at, _ = self.wait("the job makes its fault", lambda: self.last_line(number, "fault"), self.ground.patience_s)
        self.strike(at)
        self.tell(f"fault {self.fault}")

    def dead(self, job: str, limit_s: float) -> None:
        """Wait until the launcher says that the job has ended."""
        state = self.ground.launcher.state
        self.wait(f"job {job} is dead", lambda: True if state(job).state.ended else None, limit_s, leaves=True)
        self.reached("old job dead", job)

    def noticed(self, number: int, limit_s: float, *, leaves: bool = False) -> RestartRuling:
        """Wait for the restart decision about the job, and return it."""
        what = f"the restart decision about {job_name(self.run_id, number)}"
        ruling = self.wait(what, lambda: self.ruling(number), limit_s, leaves=leaves)
        self.reached("noticed")
        return ruling

    def restarted(self, number: int, limit_s: float) -> str:
        """Wait until the new job is submitted and runs. Returns its id."""
        job = self.wait(f"{job_name(self.run_id, number)} is submitted", lambda: self.job(number), limit_s)
        self.reached("new job", job)
        self.running(number)
        self.reached(RUNS, job)
        return job

    @property
    def passes(self) -> int:
        """The number of passes that its supervisors have made."""
        return len(self._passes)

    def passes_between(self, dead_s: float, number: int) -> int:
        """The number of passes from ``dead_s`` after the fault until the job was started."""
        record, name = self.record(), job_name(self.run_id, number)
        actions = record.actions if record is not None else ()
        done = next((each.done_at for each in actions if each.name == name and each.done_at is not None), None)
        if done is None or self.fault_at is None:
            raise UnexpectedError(f"the record does not say when {name} was started")
        until = done.timestamp() - self._ahead_s
        # Plus the pass that started the job, which had not ended yet.
        return 1 + sum(self.fault_at + dead_s < at < until for at in list(self._passes))

    # Checks at the end

    def check_jobs(self, last: int) -> None:
        """Raise :class:`UnexpectedError` unless the run had exactly the jobs 0 to ``last``, one after the other."""
        for number in range(last + 2):
            name, job = job_name(self.run_id, number), self.job_id(number)
            if number > last:
                if job is not None:
                    raise UnexpectedError(f"one job too many: {job}, {name}")
            elif job is None:
                raise UnexpectedError(f"the launcher knows no job {name}")
            with suppress(NotInjectedError):
                several = self.ground.saboteur.named(name)
                if len(several) > 1:
                    raise UnexpectedError(f"{name} was submitted {len(several)} times: {', '.join(several)}")
        self.check_lives()

    def check_lives(self) -> None:
        """Raise :class:`UnexpectedError` if two jobs wrote at the same time."""
        lives = self.lives()
        for before, after in itertools.pairwise(lives):
            over_s = before.last - after.first
            if over_s > (0.0 if before.host == after.host else _SKEW_S):
                raise UnexpectedError(
                    f"two jobs wrote at once for {over_s:.1f} s: attempt {before.attempt} on {before.host}, "
                    f"and attempt {after.attempt} on {after.host}"
                )

    def clean_up(self) -> list[str]:
        """End the supervisor, then its jobs by their ids. Returns the jobs that may still run."""
        if self._process is not None:
            # The whole group, with any command that it is calling; jobs have their own sessions.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self.kill()
        until = time.monotonic() + CLEAN_UP_S
        try:
            left = self._every_job(until)
        except LauncherError as error:
            return [f"jobs named {self.run_id}-r… ({error.told})"]
        while left:
            for job in list(left):
                report = self.ground.launcher.state(job)
                if report.state.ended:
                    left.remove(job)
                elif report.state is not JobState.UNKNOWN:
                    with suppress(LauncherError):
                        self.ground.launcher.cancel(job)
            if not left or time.monotonic() > until:
                break
            time.sleep(self.ground.saboteur.pause_s)
        return left

    def _every_job(self, until: float) -> list[str]:
        """Ids of all jobs that were ever submitted. Raises :class:`LauncherError` if the launcher does not answer."""
        jobs: dict[str, None] = {}
        for number in range(_MOST_JOBS):
            name = job_name(self.run_id, number)
            while True:
                try:
                    job = self.ground.launcher.find(name, self._begun - CLOCKS)
                    break
                except LauncherError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(self.ground.saboteur.pause_s)
            if job is None:
                # Numbers are consecutive, so there is no later job.
                break
            jobs[job] = None
            with suppress(NotInjectedError):
                jobs.update(dict.fromkeys(self.ground.saboteur.named(name)))
        return list(jobs)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _lives(text: str) -> Iterator[Life]:
    begins = [found for found in _SAID.finditer(text) if found[2] == "began"]
    for number, began in enumerate(begins):
        end = begins[number + 1].start() if number + 1 < len(begins) else len(text)
        stamps = [float(at) for at in _STAMP.findall(text[began.start() : end])]
        told = dict(re.findall(r"(\w+)=(\S+)", began[3]))
        attempt, pid = told.get("attempt", "0"), told.get("pid", "0")
        yield Life(
            int(attempt) if attempt.isdecimal() else 0,
            told.get("host", "?"),
            int(pid) if pid.isdecimal() else 0,
            min(stamps),
            max(stamps),
        )
