"""A feature of the SDK as one beat task: when it has its turn, and which of its failures counts."""

import json
import logging
import time
from collections.abc import Mapping
from typing import Any

import pytest

from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.training.sdk.beat_tasks import Beat, BeatTask, BeatTasks, RunStart
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.time_limit import JobTimeLimit
from support.memory import MemoryStore
from support.reporting import environment
from support.waiting import until


class Recorder(BeatTask):
    """Notes its turns, each with what the store holds of the run by then."""

    purpose = "take notes"

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.turns: list[tuple[str, frozenset[str]]] = []

    def begin(self, start: RunStart) -> None:
        self._note("begin")

    def look(self, run: Run) -> float:
        self._note("look at the end" if run.ended else "look")
        return 3600.0

    def take_over(self, metadata: bytes) -> None:
        self._note(f"take over {json.loads(metadata)['attempt']}")

    def fields(self, run: Run, *, quick: bool) -> Mapping[str, Any]:
        self._note("fields, quick" if quick else "fields")
        return {"noted": len(self.turns)}

    def rank_fields(self, run: Run) -> Mapping[str, Any]:
        self._note("fields of a rank")
        return {"noted": len(self.turns)}

    def write(self, beat: Beat) -> None:
        self._note("write")

    def follow(self, beat: Beat) -> None:
        self._note("follow")

    def beaten(self, *, begun: bool) -> None:
        self._note("beaten, begun" if begun else "beaten")

    def over(self) -> None:
        self._note("over")

    def close(self) -> None:
        self._note("close")

    def _note(self, turn: str) -> None:
        self.turns.append((turn, frozenset(key.removeprefix("r/") for key in self._store.held)))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.turns if name != "look"]

    def held_at(self, turn: str) -> frozenset[str]:
        """What the store held at the first such turn."""
        return next(held for name, held in self.turns if name == turn)


def test_on_rank_0_it_has_its_turn_around_the_heartbeats_and_the_sentinel() -> None:
    store = MemoryStore()
    store.put_text("r/metadata.json", '{"attempt": 4}')
    notes = Recorder(store)
    run = Run("r", Reporter(lambda: environment(store, beat_s=3600.0, tasks=[notes])))
    until(lambda: "beaten, begun" in notes.names)
    assert run.complete()
    until(lambda: "close" in notes.names)
    first = ["begin", "take over 4", "fields, quick", "write", "beaten, begun"]
    assert notes.names == [*first, "look at the end", "fields, quick", "write", "beaten, begun", "over", "close"]
    assert "metadata.json" in notes.held_at("write")
    assert "_complete" not in notes.held_at("look at the end")
    assert "_complete" in notes.held_at("over")
    assert json.loads(store.held["r/metadata.json"].body)["noted"]


def test_on_another_rank_it_follows_the_heartbeat_and_adds_its_fields_to_it() -> None:
    store = MemoryStore()
    notes = Recorder(store)
    around = environment(store, rank=Rank(1, 2), rank_beat_s=0.01, tasks=[notes])
    run = Run("r", Reporter(lambda: around))
    until(lambda: notes.names.count("follow") > 2)
    assert run.complete()
    until(lambda: "close" in notes.names)
    assert set(notes.names) == {"begin", "fields of a rank", "follow", "beaten", "look at the end", "over", "close"}
    assert json.loads(store.held["r/ranks/1.json"].body)["noted"]


class Faulty(BeatTask):
    """Fails as it is told to, so often."""

    purpose = "do its part"

    def __init__(self, fault: Exception, times: int, *, counts: bool) -> None:
        self.fault, self.left, self.counts, self.done = fault, times, counts, 0

    def write(self, beat: Beat) -> None:
        self.left -= 1
        if self.left >= 0:
            raise self.fault
        self.done += 1


OUTAGE, REFUSED, EVER = UnreachableError("no answer"), DeniedError("AccessDenied"), 10**9
COUNTS = [
    pytest.param(OUTAGE, 2, True, "cannot write its heartbeat", id="one that counts holds the end up"),
    pytest.param(REFUSED, EVER, True, "cannot write its heartbeat", id="but not where trying again is no use"),
    pytest.param(OUTAGE, EVER, False, "cannot do its part", id="one that does not count is logged"),
]


@pytest.mark.parametrize(("fault", "times", "counts", "said"), COUNTS)
def test_which_failure_counts_as_the_beats(
    fault: Exception, times: int, counts: bool, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, task = MemoryStore(), Faulty(fault, times, counts=counts)
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        run = Run("r", Reporter(lambda: environment(store, beat_s=3600.0, tasks=[task])))
        until(lambda: task.left < times)
        assert run.complete()
    assert (task.done > 0) is (times < EVER)
    assert [said in text for text in caplog.messages] == [True]


def test_each_outage_of_a_task_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    task = Faulty(REFUSED, 0, counts=False)
    tasks, at = BeatTasks([task]), Beat(Run("r", None), MemoryStore(), "r/", 0.0)
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        for task.left in (2, 1):
            for _ in range(3):
                for step in tasks.steps(at):
                    step.do()
    assert caplog.messages == ["lastbeat cannot do its part and keeps trying: AccessDenied"] * 2


def test_a_time_limit_between_two_beats_is_heeded_when_it_comes() -> None:
    limit = JobTimeLimit(time.time() + 0.3, "before the time limit of its Slurm job")
    run = Run("r", Reporter(lambda: environment(MemoryStore(), beat_s=3600.0, tasks=[limit])))
    until(lambda: run.stop_wanted)
    assert run.stop_wanted == limit.why
    assert run.complete()


def test_a_task_that_training_adds_begins_with_the_next_beat() -> None:
    store = MemoryStore()
    notes = Recorder(store)
    reporter = Reporter(lambda: environment(store, beat_s=0.01))
    run = Run("r", reporter)
    reporter.add_task(notes)
    until(lambda: "write" in notes.names)
    assert notes.names[0] == "begin"
    assert run.complete()
