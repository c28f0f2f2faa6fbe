"""A run that only a log of this machine tells of, and a log that cannot be looked at: unknown is not zero."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import Policy
from lastbeat.watch.observe.log_observer import LogSettings, default_catalogue
from support.closed import closed
from support.growing import OOM, steps
from support.world import World

MINUTE = 60.0


class LocalWorld(World):
    """A program that was never changed, whose log lies in a folder of this machine."""

    def __init__(self, folder: Path, pattern: str = "train.log", policy: Policy | None = None) -> None:
        self.folder = folder
        self.log_file = folder / "train.log"
        super().__init__(policy)
        self.options["signals"] = LogSettings(default_catalogue, places=(str(folder / pattern),))

    def write(self, text: str) -> None:
        with self.log_file.open("a", encoding="utf-8") as log:
            log.write(text)
        at = self.now.timestamp()
        os.utime(self.log_file, (at, at))

    def look(self, *, restarted: bool = False) -> Outcome:
        return super().look(restarted=restarted)

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


@pytest.mark.parametrize(
    ("pattern", "restarted"),
    [("train.log", False), ("*.log", True), ("%x.log", True)],
    ids=["a path", "a pattern", "as Slurm names it"],
)
def test_no_time_out_comes_of_a_log_that_cannot_be_looked_at(folder: Path, pattern: str, restarted: bool) -> None:
    world = LocalWorld(folder, pattern)
    world.write(steps(10))
    assert world.look().status.value == "RUNNING"
    with closed(folder):
        world.after(MINUTE)
        outcome = world.look(restarted=restarted)
        assert outcome.status.value == "RUNNING", "what was known is fresh enough"
        assert "cannot be looked at now: Permission denied" in " ".join(outcome.notes)
        said = world.watched(120, restarted=restarted)
        outcome = world.look(restarted=restarted)
    assert set(said) == {"RUNNING", "UNKNOWN"}
    assert outcome.status.value == "UNKNOWN"
    assert "cannot be looked at now: Permission denied" in outcome.reason
    assert outcome.action
    assert outcome.notes[0].startswith("Last known status: RUNNING since")
    world.write(steps(20, 11))
    assert world.look(restarted=restarted).status.value == "RUNNING"
    assert world.channel.events == ["BLIND", "SIGHTED"], "people are told who is blind, and nothing of the run"


def test_a_log_that_stood_still_meanwhile_times_out_when_that_is_seen(folder: Path) -> None:
    world = LocalWorld(folder)
    world.write(steps(10))
    world.look()
    with closed(folder):
        world.watched(12)
    assert world.look().status.value == "TIMED_OUT"
    with closed(folder):
        assert set(world.watched(30)) == {"TIMED_OUT"}, "what was known stands"
    world.write(steps(20, 11))
    assert world.look().status.value == "RUNNING"
    assert world.channel.events == ["TIMED_OUT", "RECOVERED"]


Write = Callable[[LocalWorld], None]
BESIDE = [
    pytest.param(lambda world: world.both(1), "TIMED_OUT", id="both heartbeats stale: a log would not count"),
    pytest.param(lambda world: world.beat(), "UNKNOWN", id="metadata.json stale: steps in the log would count"),
    pytest.param(lambda world: world.progress(1), "UNKNOWN", id="progress.json stale: new text would count"),
    pytest.param(lambda world: world.error("boom"), "FAILED", id="a sentinel says what became of it"),
    pytest.param(lambda world: world.write(OOM), "FAILED", id="the log said that it failed"),
]


@pytest.mark.parametrize(("write", "expected"), BESIDE)
def test_what_else_tells_of_the_run(folder: Path, write: Write, expected: str) -> None:
    world = LocalWorld(folder)
    world.write(steps(10))
    write(world)
    world.look()
    with closed(folder):
        assert world.watched(20)[-1] == expected


def test_steps_that_cannot_be_seen_are_not_late(folder: Path) -> None:
    world = LocalWorld(folder, policy=Policy(stall_s=20 * MINUTE))
    world.write(steps(10))
    world.beat()
    world.look()
    conditions = set[str]()
    with closed(folder):
        for _ in range(90):
            world.after(MINUTE)
            world.beat()
            outcome = world.look()
            assert outcome.status.value == "RUNNING"
            conditions |= set(outcome.conditions)
    assert conditions == set()
    world.write(steps(20, 11))
    assert world.look().conditions == {}
    assert world.channel.events == []


def test_a_log_that_may_not_be_read_shows_by_its_time_that_it_is_written(folder: Path) -> None:
    world = LocalWorld(folder)
    world.write(steps(10))
    for minute in range(30):
        with closed(world.log_file):
            assert world.look().status.value == "RUNNING"
        world.after(MINUTE)
        world.write(steps(minute + 12, minute + 11))
    with closed(world.log_file):
        assert world.watched(12)[-1] == "TIMED_OUT", "and that it is not"


@pytest.mark.parametrize("stored", [False, True], ids=["of this machine", "in the run's folder"])
def test_an_empty_log_gets_the_stale_limit(folder: Path, stored: bool) -> None:
    world = LocalWorld(folder)
    if stored:
        world.put("logs/train.log", "")
    else:
        world.write("")
    outcome = world.look()
    assert (outcome.status.value, outcome.conditions) == ("RUNNING", {})
    assert set(world.watched(9)) == {"RUNNING"}
    assert world.watched(3)[-1] == "TIMED_OUT"
    assert world.channel.events == ["TIMED_OUT"]
