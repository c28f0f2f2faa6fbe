"""What the record keeps of each attempt's times, whoever looks and however often."""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.jobs.restarts.loading import load
from lastbeat.model.goodput import Goodput
from lastbeat.model.job import JobState
from lastbeat.model.policy import Policy
from lastbeat.model.record import Record
from lastbeat.model.status import Status
from lastbeat.watch.decide.goodput import goodput
from lastbeat.watch.decide.timesheet import restart_waits
from lastbeat.watch.record.codec import decode_record
from lastbeat.watch.watchdog import Watch
from support.jobs import RUN, SupervisedScene
from support.laws import examples
from support.there import there

KEY = f"{RUN}/_watchdog.json"


def recorded(scene: SupervisedScene) -> Record:
    return decode_record(scene.store.held[KEY].body)


def told(scene: SupervisedScene, record: Record | None) -> Goodput:
    assert record is not None
    return there(goodput(record.timesheet, scene.store.now, restart_waits=restart_waits(record)))


def parts(found: Goodput) -> dict[str, float]:
    return {str(use): round(seconds, 1) for use, seconds in found.spent.items() if seconds}


def step(scene: SupervisedScene, number: int, **more: object) -> None:
    scene.store.put_text(f"{RUN}/progress.json", json.dumps({"step": number, **more}))


def passes(scene: SupervisedScene, watch: Watch, count: int, *, first_step: int | None = None) -> None:
    """One each ten seconds; ten steps in each, where there are any."""
    for each in range(count):
        scene.store.pass_time(10)
        if first_step is not None:
            step(scene, first_step + 10 * each)
        watch.tick()


def test_a_supervised_run_from_the_queue_over_a_restart_to_its_end() -> None:
    scene = SupervisedScene()
    scene.begin()
    watch = scene.watch()
    watch.tick()
    scene.launcher.jobs["run-r0"].state = JobState.PENDING
    passes(scene, watch, 3)
    job = scene.launcher.jobs["run-r0"]
    job.state, job.started_at = JobState.RUNNING, scene.store.now
    passes(scene, watch, 2)
    # Ten passes with ten steps each, of which the first pass saw the first ten.
    passes(scene, watch, 10, first_step=10)
    scene.store.pass_time(10)
    scene.store.put_text(f"{RUN}/_error", "RuntimeError: NCCL error: unhandled system error")
    scene.end("run-r0", JobState.FAILED, 1)
    scene.store.pass_time(7)
    watch.tick()
    assert scene.launcher.submitted == ["run-r0", "run-r1"]
    again = scene.launcher.jobs["run-r1"]
    again.state, again.started_at = JobState.RUNNING, scene.store.now
    watch.tick()
    passes(scene, watch, 5, first_step=60)
    scene.store.pass_time(10)
    scene.store.put_text(f"{RUN}/_complete", "")
    watch.tick()
    found = told(scene, recorded(scene))
    assert found.over
    assert parts(found) == {
        "queued": 30.0,
        "starting": 20.0,
        # The first step of each was seen ten seconds after there was none; 90 + 40 s of steps, of them those from 60 on
        # twice, and ten seconds after the last step of each: lost of the one that failed.
        "unknown": 20.0,
        "productive": 90 + 40 + 10 - 41.0,
        "lost": 41 + 10.0,
        "unnoticed": 7.0,
    }
    assert found.wall_s == pytest.approx(sum(found.spent.values()))
    assert (found.lost_steps, found.failures, found.mean_detect_s) == (41, 1, 7.0)


def test_nothing_is_written_for_it() -> None:
    scene = SupervisedScene()
    scene.begin()
    watch = scene.watch()
    watch.tick()
    passes(scene, watch, 2, first_step=10)
    before = sum(call == ("write", KEY) for call in scene.store.calls)
    passes(scene, watch, 50, first_step=30)
    assert sum(call == ("write", KEY) for call in scene.store.calls) == before
    # It knows all the same, and says so with the next thing that it writes.
    scene.store.put_text(f"{RUN}/_complete", "")
    watch.tick()
    last = there(recorded(scene).timesheet)
    assert last.last is not None
    assert (last.last.first_step, last.last.last_step) == (10, 520)


def test_what_stood_still_and_went_on_did_not_step_meanwhile() -> None:
    scene = SupervisedScene(limits=replace(Policy(), stall_s=60.0, stale_s=6000.0))
    watch = scene.watch(supervises=False)
    passes(scene, watch, 10, first_step=1)
    for _ in range(30):
        scene.store.pass_time(10)
        scene.store.put_text(f"{RUN}/metadata.json", "{}")
        outcome = watch.tick()
    assert outcome.status is Status.TIMED_OUT
    for each in range(10):
        scene.store.pass_time(10)
        scene.store.put_text(f"{RUN}/metadata.json", "{}")
        step(scene, 100 + each)
        outcome = watch.tick()
    assert outcome.status is Status.RUNNING
    found = parts(told(scene, outcome.record))
    # Twice the limit until it is given up, and the rest until it went on.
    assert found["unnoticed"] == pytest.approx(120, abs=20)
    assert found["unnoticed"] + found["restarting"] == pytest.approx(310, abs=20)


DEEDS = ("step", "back", "fail", "cancel", "complete", "silence", "requeue", "pend", "run", "gone", "log", "clean")


@settings(max_examples=examples(30, hunted=600), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 900)), max_size=40), st.integers(0, 2**16))
def test_the_account_adds_up_whatever_happens_and_whoever_looks(deeds: list[tuple[str, int]], seed: int) -> None:
    chance = random.Random(seed)
    scene = SupervisedScene(policy=load("megatron_aggressive"), limits=replace(Policy(), stall_s=300.0))
    scene.begin()
    watch, now = scene.watch(), 0
    for deed, seconds in deeds:
        scene.store.pass_time(seconds)
        name = scene.launcher.submitted[-1] if scene.launcher.submitted else None
        job = scene.launcher.jobs[name] if name is not None else None
        if deed in {"step", "back"}:
            now = now + chance.randint(1, 20) if deed == "step" else max(0, now - 30)
            step(scene, now)
        elif deed == "log":
            scene.store.put_text(f"{RUN}/logs/train.log", f"step {now}/1000 loss 2.5\n")
        elif deed == "fail":
            scene.store.put_text(f"{RUN}/_error", "RuntimeError: NCCL error")
        elif deed == "complete":
            scene.store.put_text(f"{RUN}/_complete", "")
        elif deed == "clean":
            for each in ("_error", "_complete", "progress.json"):
                scene.store.held.pop(f"{RUN}/{each}", None)
        elif job is not None and not job.state.ended:
            job.started_at = scene.store.now if deed == "run" else job.started_at
            job.restarts += deed == "requeue"
            states = {"cancel": JobState.CANCELLED, "pend": JobState.PENDING, "gone": JobState.GONE}
            job.state = states.get(deed, JobState.RUNNING)
        if chance.random() < 0.3:
            # Another process, which knows what is written.
            watch = scene.watch(supervises=chance.random() < 0.8)
        outcome = watch.tick()
        for record in (outcome.record, recorded(scene)):
            if record is None or record.timesheet is None:
                continue
            found = told(scene, record)
            assert sum(found.spent.values()) == pytest.approx(found.wall_s, abs=1e-3)
            assert all(seconds >= 0 for seconds in found.spent.values())
            assert len(record.timesheet.attempts) <= 16
