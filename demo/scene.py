"""One run of the demo: training and the watcher as processes, and what they say, in the order it is said."""

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo.stopping import Stop

STALE_MINUTES = 0.1
INTERVAL_S = 0.5
# Far more than any scene takes: only a fault makes it this long.
LIMIT_S = 45.0


@dataclass(frozen=True)
class Scene:
    run_id: str
    title: str
    verdict: str
    steps: int = 150
    growth: float = 1.0
    kill_at_step: int | None = None


SCENES = (
    Scene("spirals-good", "1 of 3: a run that completes", "SUCCEEDED"),
    Scene("spirals-diverges", "2 of 3: a run whose learning rate has lost its brake", "FAILED", growth=1.04),
    Scene(
        "spirals-killed",
        "3 of 3: a run that is killed with its node, and so can say nothing",
        "TIMED_OUT",
        steps=900,
        kill_at_step=60,
    ),
)


@dataclass(frozen=True)
class Event:
    """Something to show: a line that somebody said, or a message that reached Slack."""

    who: str
    what: str = ""
    status: str | None = None
    """The verdict, where it changed."""
    message: dict[str, Any] | None = None


@dataclass
class Seen:
    scene: Scene
    verdicts: list[str] = field(default_factory=list)
    """Each change of status, in order."""
    alerts: list[str] = field(default_factory=list)

    def faults(self) -> Iterator[str]:
        """Why this was not what the product promises."""
        run_id, verdict = self.scene.run_id, self.scene.verdict
        if self.verdicts[-1:] != [verdict] or set(self.verdicts[:-1]) - {"RUNNING"}:
            went = " → ".join(self.verdicts) or "nowhere"
            yield f"{run_id} should have gone from RUNNING to {verdict}, and went {went}"
        if len(self.alerts) != 1:
            yield f"{run_id} should have raised one alert, and raised {len(self.alerts)}"
        for alert in self.alerts:
            if run_id not in alert or verdict not in alert:
                yield f"an alert does not name {run_id} and {verdict}"


@contextmanager
def process(command: list[str], environment: Mapping[str, str], folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A child that never outlives the demo. It has a session of its own: Ctrl-C is ours to handle."""
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def play(
    scene: Scene,
    checkout: Path,
    root: Path,
    environment: Mapping[str, str],
    messages: "queue.Queue[dict[str, Any]]",
    stop: Stop,
) -> Generator[Event, None, None]:
    """Run the scene to its end. Raises ``subprocess.TimeoutExpired`` when it has none, ``StoppedError`` when somebody
    asks for an early one."""
    stop.check()
    run_dir = root / scene.run_id
    run_dir.mkdir(parents=True)
    train = [sys.executable, str(checkout / "demo" / "train.py"), "--run-dir", str(run_dir)]
    train += ["--steps", str(scene.steps), "--growth", str(scene.growth), "--seconds-a-step", "0.02"]
    watch = [
        sys.executable,
        str(checkout / "cli" / "monitor.py"),
        "--run-id",
        scene.run_id,
        "--root",
        str(root),
    ]
    watch += ["--interval", str(INTERVAL_S), "--stale-minutes", str(STALE_MINUTES), "--json"]
    # The watcher stands in a folder of its own, so that no .env of this checkout speaks to it.
    with process(train, environment, root) as training:
        said = Lines(training)
        yield from _until_first_heartbeat(run_dir / "progress.json", said, stop)
        with process(watch, environment, root) as watcher:
            yield from _follow(scene, training, said, watcher, messages, stop)


class Lines:
    """What a process says, to be taken without waiting; ``ended`` once it has said everything."""

    def __init__(self, source: "subprocess.Popen[str]") -> None:
        self.source = source
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        # Whoever stops the scene closes what is being read here.
        with suppress(ValueError):
            for line in self.source.stdout or ():
                self._lines.put(line.rstrip("\n"))

    def take(self) -> Iterator[str]:
        while not self._lines.empty():
            yield self._lines.get()

    @property
    def ended(self) -> bool:
        return not self._reader.is_alive()


def _until_first_heartbeat(heartbeat: Path, training: Lines, stop: Stop) -> Iterator[Event]:
    """A watcher that looks before there is anything to see would rightly say so."""
    deadline = time.monotonic() + LIMIT_S
    while not heartbeat.exists() and not training.ended:
        stop.check()
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired(training.source.args, LIMIT_S)
        time.sleep(0.02)
    yield from _training(training)


def _training(training: Lines) -> Iterator[Event]:
    for line in training.take():
        yield Event("training", line)


def _follow(
    scene: Scene,
    training: "subprocess.Popen[str]",
    said: Lines,
    watcher: "subprocess.Popen[str]",
    messages: "queue.Queue[dict[str, Any]]",
    stop: Stop,
) -> Iterator[Event]:
    deadline = time.monotonic() + LIMIT_S
    passes, alive = Lines(watcher), True
    last: tuple[str, list[str]] | None = None
    while True:
        stop.check()
        over = passes.ended
        yield from _training(said)
        for line in passes.take():
            found = _pass(line)
            if found is None:
                yield Event("lastbeat", line)
                continue
            status = found["status"]
            if (status, found["conditions"]) != last:
                changed = last is None or status != last[0]
                yield Event("lastbeat", verdict_line(found), status=status if changed else None)
                last = (status, found["conditions"])
            if alive and scene.kill_at_step is not None and (found["step"] or 0) >= scene.kill_at_step:
                training.kill()
                alive = False
                yield Event("demo", f"kill -9 {training.pid}, its guardian too: no _error, no last words")
        while not messages.empty():
            yield Event("slack", message=messages.get())
        if over:
            return
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired(watcher.args, LIMIT_S)
        time.sleep(0.02)


def _pass(line: str) -> dict[str, Any] | None:
    """One line of ``--json``; anything else is a log line, and shown as it is."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "status" in found else None


def verdict_line(found: Mapping[str, Any]) -> str:
    warnings = f" (WARNING: {', '.join(found['conditions'])})" if found["conditions"] else ""
    reason = f": {found['reason']}" if found["reason"] else ""
    return f"{found['status']}{warnings}{reason}"
