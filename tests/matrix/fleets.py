"""The matrix, lived through: real trainings that end, a real ``lastbeat sweep`` over each fleet of them, and a webhook
that writes down what people are told, and when."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matrix.cases import CASES, Case, Way, environment
from support.http_sink import HttpSink, http_sink

LIMIT_S = 600.0
"""Generous: how long anything here may take on a busy machine."""
AT_ONCE = 3
"""So many trainings start at a time: importing torch keeps a core busy for seconds."""
LAST_EVENTS = frozenset({"FAILED", "TIMED_OUT", "SUCCEEDED", "CANCELLED"})


@dataclass
class Told:
    """What people were told of one training."""

    case: Case
    way: Way
    root: Path
    happened_at: float = 0.0
    """Unix time of the crash, the signal or the last step."""
    ended_at: float | None = None
    """Unix time of the end of its processes, if they have ended."""
    exit: int | None = None
    step: int = 0
    alerts: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    """Unix time and document of each."""
    fault: str = ""
    """Why there is nothing to judge."""

    @property
    def events(self) -> list[str]:
        return [alert["event"] for _, alert in self.alerts]

    @property
    def last(self) -> dict[str, Any]:
        """The alert with the verdict."""
        return self.alerts[-1][1]

    def after_s(self, event: str) -> float | None:
        """Seconds from what happened to the first alert of this event; None where there is none."""
        return next((at - self.happened_at for at, alert in self.alerts if alert["event"] == event), None)

    @property
    def folder(self) -> Path:
        return self.root / self.case.name


class Fleet:
    """Trainings that report in one way, and the sweep that watches them."""

    def __init__(self, way: Way, folder: Path, sink: HttpSink, cases: Sequence[Case]) -> None:
        self.way, self.folder, self.cases = way, folder, cases
        self.root = folder / "runs"
        self.told = {case.name: Told(case, way, self.root) for case in cases}
        folder.mkdir(parents=True)
        self.root.mkdir()
        told = {"ALERT_ON": "failed,timed_out,succeeded,recovered,warning,restarted,cancelled"}
        self._environment = environment(folder, MONITORING_ROOT=str(self.root), **way.limits)
        self._hook = {**told, "LASTBEAT_WEBHOOK_URL": f"{sink.url}/{way.value}"}
        self._started: list[subprocess.Popen[bytes]] = []
        self._ranks: list[int] = []

    @contextmanager
    def swept(self) -> Iterator[None]:
        """While the block lasts somebody watches, every five seconds."""
        command = [sys.executable, "-m", "lastbeat_cli", "sweep", "--interval", "5"]
        with (self.folder / "sweep.log").open("w") as output:
            sweep = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**self._environment, **self._hook},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield
        finally:
            self._end_all()
            sweep.terminate()
            sweep.wait(LIMIT_S)

    def live_through(self, case: Case, starting: threading.Semaphore) -> None:
        """Train, end, and wait until people were told."""
        told = self.told[case.name]
        folder = self.folder / case.name
        folder.mkdir()
        try:
            with starting:
                process = self._start(case, folder)
            pids = [read(folder / f"rank-{rank}.json")["pid"] for rank in range(case.ranks)]
            self._ranks += pids
            self._until(self._is_known(case), f"{case.name} is seen by the sweep", process)
            self._happen(told, folder, process.pid, pids)
            if not case.lives:
                told.exit = process.wait(LIMIT_S)
                told.ended_at = time.time()
            self._until(lambda: LAST_EVENTS & set(told.events), f"the verdict on {case.name}")
        except (TimeoutError, subprocess.TimeoutExpired) as late:
            told.fault = f"{late}; it said:\n{(folder / 'output').read_text(errors='replace')[-3000:]}"

    def _start(self, case: Case, folder: Path) -> "subprocess.Popen[bytes]":
        log = folder / "output"
        if self.way is Way.LOG:
            log = self.root / case.name / "logs" / "train.log"
            log.parent.mkdir(parents=True)
            (folder / "output").symlink_to(log)
        with log.open("w") as output:
            process = subprocess.Popen(
                self.way.command(case, folder),
                cwd=folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        ranks = [folder / f"rank-{rank}.json" for rank in range(case.ranks)]
        self._until(lambda: all(path.exists() for path in ranks), f"{case.name} has begun", process)
        return process

    def _is_known(self, case: Case) -> Callable[[], bool]:
        """Whether it trains, the sweep has recorded the run and, where somebody writes it, its progress is there."""
        folder, said = self.root / case.name, self.folder / case.name / "output"
        wanted = ["_watchdog.json"] if self.way is Way.LOG else ["_watchdog.json", "progress.json"]
        # The 20th step: it trains, and has said so.
        return lambda: all((folder / name).exists() for name in wanted) and b"step 20/" in said.read_bytes()

    def _happen(self, told: Told, folder: Path, group: int, pids: list[int]) -> None:
        case = told.case
        if case.gets is None:
            (folder / "go").touch()
            self._until((folder / "event-0.json").exists, f"{case.name} comes to its end")
            event = read(folder / "event-0.json")
            told.happened_at, told.step = event["at"], event["step"]
            return
        told.happened_at = time.time()
        if case.to_all:
            os.killpg(group, case.gets)
        else:
            os.kill(pids[case.rank], case.gets)

    def _until(self, found: Callable[[], object], what: str, process: "subprocess.Popen[bytes] | None" = None) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not found():
            if time.monotonic() > deadline or (process is not None and process.poll() is not None):
                raise TimeoutError(f"in vain it was waited for: {what}")
            time.sleep(0.05)

    def _end_all(self) -> None:
        # Ranks are in sessions of their own.
        ranks = (rank for rank in self._ranks if is_in(self.folder, rank))
        for process in [*(each.pid for each in self._started if each.poll() is None), *ranks]:
            for end in (os.killpg, os.kill):
                with suppress(ProcessLookupError):
                    end(process, signal.SIGKILL)
        for started in self._started:
            started.wait(LIMIT_S)


def is_in(folder: Path, process: int) -> bool:
    """Whether a process was given ``folder``, or one in it, on its command line: numbers of processes come again."""
    try:
        return str(folder).encode() in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def live(folder: Path, ways: Sequence[Way] = tuple(Way), cases: Sequence[Case] = CASES) -> dict[tuple[str, str], Told]:
    """Everything that people are told, by the names of way and case. Takes some minutes."""
    # In the background of a script it is ignored, and so it would be by the trainings.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    heard = threading.Lock()
    arrived = 0
    with http_sink() as sink:
        fleets = {way.value: Fleet(way, folder / way.value, sink, cases) for way in ways}

        def note() -> None:
            nonlocal arrived
            with heard:
                for request in sink.requests[arrived:]:
                    arrived += 1
                    alert = json.loads(request.body)
                    told = fleets[request.path.strip("/")].told
                    if alert["run_id"] in told:
                        told[alert["run_id"]].alerts.append((time.time(), alert))

        sink.heard = note
        starting = threading.Semaphore(AT_ONCE)
        with ThreadPoolExecutor(len(fleets) * len(cases)) as threads, ExitStack() as sweeps:
            for fleet in fleets.values():
                sweeps.enter_context(fleet.swept())
            for lived in [
                threads.submit(fleet.live_through, case, starting) for case in cases for fleet in fleets.values()
            ]:
                lived.result()
    return {(way, name): told for way, fleet in fleets.items() for name, told in fleet.told.items()}
