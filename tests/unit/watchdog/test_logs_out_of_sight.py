"""A run that only a log of this machine tells of, and a log that cannot be looked at: unknown is not zero."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import Policy
from lastbeat.observe.log_observer import LogSettings, default_catalogue
from support.closed import closed
from support.growing import OOM, steps
from support.scene import Scene

MINUTE = 60.0


class LocalScene(Scene):
    """A program that was never changed, whose log lies in a folder of this machine."""

    def __init__(self, folder: Path, pattern: str = "train.log", policy: Policy | None = None) -> None:
        self.folder = folder
        self.log = folder / "train.log"
        self.signals = LogSettings(default_catalogue, places=(str(folder / pattern),))
        super().__init__(policy)
        self.watch = self.fresh_watch(signals=self.signals)

    def write(self, text: str) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(text)
        at = self.now.timestamp()
        os.utime(self.log, (at, at))

    def look(self, *, restarted: bool = False) -> Outcome:
        if restarted:
            self.watch = self.fresh_watch(signals=self.signals)
        return self.watch.tick()

    def watched(self, minutes: int, *, restarted: bool = False) -> list[str]:
        """What so many looks say, one a minute."""
        said = []
        for _ in range(minutes):
            self.after(MINUTE)
            said.append(self.look(restarted=restarted).status.value)
        return said


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that anybody may look into."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("restarted", [False, True], ids=["loop", "--once"])
@pytest.mark.parametrize("pattern", ["train.log", "*.log", "%x.log"], ids=["a path", "a pattern", "as Slurm names it"])
def test_no_time_out_comes_of_a_log_that_cannot_be_looked_at(folder: Path, pattern: str, restarted: bool) -> None:
    scene = LocalScene(folder, pattern)
    scene.write(steps(10))
    assert scene.look().status.value == "RUNNING"
    with closed(folder):
        scene.after(MINUTE)
        outcome = scene.look(restarted=restarted)
        assert outcome.status.value == "RUNNING", "what was known is fresh enough"
        assert "cannot be looked at now: Permission denied" in " ".join(outcome.notes)
        said = scene.watched(120, restarted=restarted)
        outcome = scene.look(restarted=restarted)
    assert set(said) == {"RUNNING", "UNKNOWN"}
    assert outcome.status.value == "UNKNOWN"
    assert "cannot be looked at now: Permission denied" in outcome.reason
    assert outcome.action
    assert outcome.notes[0].startswith("Last known status: RUNNING since")
    scene.write(steps(20, 11))
    assert scene.look(restarted=restarted).status.value == "RUNNING"
    assert scene.channel.events == ["BLIND", "SIGHTED"], "people are told who is blind, and nothing of the run"


def test_a_run_that_was_never_seen_is_unknown_and_nothing_is_recorded(folder: Path) -> None:
    scene = LocalScene(folder)
    scene.write(steps(10))
    with closed(folder):
        outcome = scene.look()
    assert (outcome.status.value, outcome.record) == ("UNKNOWN", None)
    assert scene.record_writes() == 0


def test_a_log_that_stood_still_meanwhile_times_out_when_that_is_seen(folder: Path) -> None:
    scene = LocalScene(folder)
    scene.write(steps(10))
    scene.look()
    with closed(folder):
        scene.watched(12)
    assert scene.look().status.value == "TIMED_OUT"
    with closed(folder):
        assert set(scene.watched(30)) == {"TIMED_OUT"}, "what was known stands"
    scene.write(steps(20, 11))
    assert scene.look().status.value == "RUNNING"
    assert scene.channel.events == ["TIMED_OUT", "RECOVERED"]


Write = Callable[[LocalScene], None]
BESIDE = [
    pytest.param(lambda scene: scene.both(1), "TIMED_OUT", id="both heartbeats stale: a log would not count"),
    pytest.param(lambda scene: scene.beat(), "UNKNOWN", id="metadata.json stale: steps in the log would count"),
    pytest.param(lambda scene: scene.progress(1), "UNKNOWN", id="progress.json stale: new text would count"),
    pytest.param(lambda scene: scene.put("_error", "boom"), "FAILED", id="a sentinel says what became of it"),
    pytest.param(lambda scene: scene.write(OOM), "FAILED", id="the log said that it failed"),
]


@pytest.mark.parametrize(("write", "expected"), BESIDE)
def test_what_else_tells_of_the_run(folder: Path, write: Write, expected: str) -> None:
    scene = LocalScene(folder)
    scene.write(steps(10))
    write(scene)
    scene.look()
    with closed(folder):
        assert scene.watched(20)[-1] == expected


def test_steps_that_cannot_be_seen_are_not_late(folder: Path) -> None:
    scene = LocalScene(folder, policy=Policy(stall_s=20 * MINUTE))
    scene.write(steps(10))
    scene.beat()
    scene.look()
    conditions = set[str]()
    with closed(folder):
        for _ in range(90):
            scene.after(MINUTE)
            scene.beat()
            outcome = scene.look()
            assert outcome.status.value == "RUNNING"
            conditions |= set(outcome.conditions)
    assert conditions == set()
    scene.write(steps(20, 11))
    assert scene.look().conditions == {}
    assert scene.channel.events == []


def test_a_stall_that_was_seen_stands_while_nothing_can_be_seen(folder: Path) -> None:
    scene = LocalScene(folder, policy=Policy(stall_s=20 * MINUTE))
    scene.write(steps(10))
    for _ in range(25):
        scene.beat()
        scene.look()
        scene.after(MINUTE)
    told = list(scene.channel.events)
    with closed(folder):
        for _ in range(60):
            scene.beat()
            outcome = scene.look()
            scene.after(MINUTE)
            assert (outcome.status.value, "stalled" in outcome.conditions) == ("RUNNING", True)
    assert scene.channel.events == told


def test_a_log_that_may_not_be_read_shows_by_its_time_that_it_is_written(folder: Path) -> None:
    scene = LocalScene(folder)
    scene.write(steps(10))
    for minute in range(30):
        with closed(scene.log):
            assert scene.look().status.value == "RUNNING"
        scene.after(MINUTE)
        scene.write(steps(minute + 12, minute + 11))
    with closed(scene.log):
        assert scene.watched(12)[-1] == "TIMED_OUT", "and that it is not"


@pytest.mark.parametrize("stored", [False, True], ids=["of this machine", "in the run's folder"])
def test_an_empty_log_gets_the_stale_limit(folder: Path, stored: bool) -> None:
    scene = LocalScene(folder)
    if stored:
        scene.put("logs/train.log", "")
    else:
        scene.write("")
    outcome = scene.look()
    assert (outcome.status.value, outcome.conditions) == ("RUNNING", {})
    assert set(scene.watched(9)) == {"RUNNING"}
    assert scene.watched(3)[-1] == "TIMED_OUT"
    assert scene.channel.events == ["TIMED_OUT"]


def test_where_there_is_nothing_at_all_nothing_is_waited_for(folder: Path) -> None:
    scene = LocalScene(folder)
    outcome = scene.look()
    assert (outcome.status.value, outcome.reason) == ("TIMED_OUT", "No heartbeat files found")
    assert "No log file is called" in " ".join(outcome.notes)


def test_an_old_empty_log_is_no_life(folder: Path) -> None:
    scene = LocalScene(folder)
    scene.write("")
    scene.after(3 * 3600.0)
    assert scene.look().status.value == "TIMED_OUT"


def test_who_allows_time_to_start_allows_it_to_an_empty_log_too(folder: Path) -> None:
    scene = LocalScene(folder, policy=Policy(start_grace_s=30 * MINUTE))
    scene.write("")
    assert set(scene.watched(29)) == {"RUNNING"}
    assert scene.watched(3)[-1] == "TIMED_OUT"
