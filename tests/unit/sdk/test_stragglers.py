"""What ranks tell of their steps, and what rank 0 makes of it: its log, its heartbeat, and perhaps an end."""

import json
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

from lastbeat.settings.table import Stragglers
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from lastbeat.training.sdk.beat_tasks import Beat
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.stragglers import LOGGER, StragglerWatch
from support.memory import MemoryStore
from support.reporting import start
from support.there import there

EVERY_S = 300.0
BEAT_S = 60.0


@dataclass
class Scene:
    """A training of ``world`` ranks, of which this process is rank 0, and a clock that is set by hand."""

    world: int = 4
    options: Stragglers = field(default_factory=Stragglers)
    now: float = 1000.0
    told: list[str] = field(default_factory=list)
    store: MemoryStore = field(default_factory=MemoryStore)
    run: Run = field(default_factory=lambda: Run("r", None))

    def __post_init__(self) -> None:
        rank = Rank(0, self.world, 0, "n0")
        self.watch = StragglerWatch(self.options, self.told.append, lambda: self.now)
        self.watch.begin(start(self.run, rank, rank_beat_s=BEAT_S))
        self.windows = 0

    def window(self, own_s: float = 1.0, *, others: dict[int, float] | None = None, attempt: int = 2) -> None:
        """A window in which each step takes rank 0 so long, and the others as ``others`` says, else as long."""
        steps = there(self.run.sections.steps)
        for _ in range(50):
            steps.enter()
            steps.leave(own_s)
            self.now += EVERY_S / 50
            steps.step(self.now)
        self.windows += 1
        for rank in range(1, self.world):
            if others is None or rank in others:
                self.tell(rank, (others or {}).get(rank, 1.0), self.windows, attempt)
        self.beat()
        self.now += BEAT_S
        self.beat()

    def tell(self, rank: int, own_s: float, number: int, attempt: int = 2) -> None:
        window = {"number": number, "steps": 50, "of": "compute", "step_s": 6.0, "own_s": own_s}
        document = {"rank": rank, "host": f"n{rank}", "attempt": attempt}
        more = {"step_window": {**window, "best_step_s": 6.0, "best_own_s": min(1.0, own_s)}}
        self.store.write(f"r/ranks/{rank}.json", json.dumps({**document, **more}).encode())

    def answers(self, fault: StoreError | None) -> None:
        def hook(operation: str, _key: str) -> None:
            if operation == "read" and fault is not None:
                raise fault

        self.store.before = hook

    def beat(self, ending: tuple[str, str] | None = None) -> None:
        self.watch.write(Beat(self.run, self.store, "r/", 0.0, ending, "start", 2))

    @property
    def report(self) -> dict[str, Any]:
        fields = self.watch.fields(self.run, quick=False)
        assert fields
        return dict(fields["stragglers"])

    @property
    def named(self) -> list[int]:
        return [each["rank"] for each in self.report["ranks"]]


SLOW = {1: 1.0, 2: 1.0, 3: 2.0}


def test_a_slow_rank_is_named_after_two_windows(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    with caplog.at_level(logging.WARNING, LOGGER):
        scene.window(others=SLOW)
        assert (scene.named, scene.report["scored"], caplog.messages) == ([], 4, [])
        scene.window(others=SLOW)
    assert scene.report["ranks"] == [{"rank": 3, "node": "n3", "relative": 0.5, "individual": 0.5}]
    assert scene.report["nodes"] == [{"node": "n3", "ranks": 1, "of": 1}]
    assert [text.partition(". ")[2] for text in caplog.messages] == ["Affected ranks: [3]"] * 2
    assert "  Rank=3 Node=n3 Score=0.50\n  Rank=0 Node=n0 Score=1.00" in scene.told[0]


def test_a_rank_whose_window_is_late_is_not_judged_by_its_last_one() -> None:
    scene = Scene()
    scene.window(others=SLOW)
    scene.window(others={1: 1.0, 2: 1.0})
    assert (scene.named, scene.report["scored"]) == ([], 3)
    scene.window(others=SLOW)
    assert scene.named == [3]


def test_lost_ranks_and_those_of_another_attempt_do_not_count() -> None:
    scene = Scene()
    scene.window(others=SLOW, attempt=1)
    assert scene.report["scored"] == 1
    scene.window(others={})
    assert scene.report["scored"] == 1


def test_all_slow_together_is_a_slow_job() -> None:
    scene = Scene(world=1)
    scene.window()
    for _ in range(2):
        steps = there(scene.run.sections.steps)
        for _ in range(25):
            scene.now += 2 * EVERY_S / 50
            steps.step(scene.now)
        scene.beat()
        scene.beat()
    assert (scene.named, scene.report["slow"]) == ([], pytest.approx(0.5))


def test_a_straggler_ends_training_only_where_that_is_wanted() -> None:
    for stops in (False, True):
        scene = Scene(options=Stragglers(mode="stop" if stops else "on"))
        scene.window(others=SLOW)
        assert scene.run.stop_wanted is None
        scene.window(others=SLOW)
        assert scene.run.stop_wanted == ("straggler: rank 3 on n3" if stops else None)


def test_scores_can_be_off_reports_quiet_and_json(caplog: pytest.LogCaptureFixture) -> None:
    off = Scene(options=Stragglers(relative=None, ranks=0))
    as_json = Scene(options=Stragglers(json=True))
    with caplog.at_level(logging.WARNING, LOGGER):
        for scene in (off, as_json):
            scene.window(others=SLOW)
            scene.window(others=SLOW)
    assert off.told == []
    assert "relative" not in off.report["ranks"][0]
    assert json.loads(as_json.told[0])["straggler_report"] == 1
    assert json.loads(caplog.messages[-1])["ranks"][0]["rank"] == 3


def test_a_store_that_does_not_answer_costs_one_report() -> None:
    scene = Scene()
    scene.window(others=SLOW)
    scene.answers(UnreachableError("gone"))
    with pytest.raises(UnreachableError):
        scene.window(others=SLOW)
    scene.answers(None)
    scene.window(others=SLOW)
    assert scene.named == [3]


def test_a_rank_that_may_not_read_knows_of_itself_alone() -> None:
    scene = Scene()
    scene.answers(DeniedError("no"))
    scene.window(others={})
    assert scene.report["scored"] == 1


def test_hostile_heartbeats_of_ranks_are_left_out() -> None:
    scene = Scene()
    for rank, body in ((1, b"[" * 100_000), (2, b'{"attempt": 2, "step_window": [1]}'), (3, b"")):
        scene.store.write(f"r/ranks/{rank}.json", body)
    scene.window(others={})
    assert scene.report["scored"] == 1


def test_the_end_of_a_run_waits_for_no_report() -> None:
    scene = Scene()
    scene.window(others=SLOW)
    before = scene.report
    scene.now += 10 * EVERY_S
    scene.beat(("_complete", ""))
    assert scene.report == before


def test_another_rank_tells_its_window_in_its_heartbeat() -> None:
    now = 0.0
    run = Run("r", None)
    watch = StragglerWatch(Stragglers(), print, lambda: now)
    watch.begin(start(run, Rank(3, 4, 3, "n3"), rank_beat_s=BEAT_S))
    steps = there(run.sections.steps)
    for _ in range(100):
        now += EVERY_S / 100
        steps.step(now)
    assert watch.wait_s == pytest.approx(0.0, abs=1e-6)
    now = EVERY_S
    assert watch.rank_fields(run)["step_window"] == {
        "number": 1, "steps": 99, "of": "step", "step_s": 3.0, "own_s": 3.0, "best_step_s": 3.0, "best_own_s": 3.0,
    }  # fmt: skip
    assert watch.wait_s == EVERY_S
    now = 10.5 * EVERY_S
    watch.follow(Beat(run, MemoryStore(), "r/", 0.0, attempt=2))
    assert watch.wait_s == EVERY_S / 2, "it keeps its schedule"
