"""A supervised run as people look at it: its job, who looks after it, and what is left of its restarts."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from lastbeat.jobs.restarts.loading import load
from lastbeat.jobs.supervision.lease import LEASE_S, SupervisorLease
from lastbeat.model.job import JobState
from lastbeat.model.policy import Policy
from lastbeat.model.restart import FoundCheckpoint
from lastbeat.model.view import JobLine, RunView
from lastbeat.views.lines.history import job as job_lines
from lastbeat.views.lines.paint import rendered
from lastbeat.views.one_run import RunWatch
from lastbeat.views.run_document import run_document
from lastbeat.views.watching import FleetWatch
from support.jobs import RUN, SupervisedScene
from support.there import there


def supervised() -> tuple[SupervisedScene, SupervisorLease]:
    """Its second job runs: one crash was restarted."""
    scene, lease = SupervisedScene(policy=load("megatron_transient")), SupervisorLease("ada@login1", "one")
    scene.begin(lease)
    watch = scene.watch(lease=lease)
    watch.tick()
    watch.tick()
    scene.end("run-r0", JobState.CANCELLED)
    watch.tick()
    watch.tick()
    return scene, lease


def view_of(scene: SupervisedScene) -> RunView:
    return there(RunWatch(scene.store, Policy(), RUN).look())


def line_of(scene: SupervisedScene) -> JobLine:
    return there(view_of(scene).job)


def told(scene: SupervisedScene) -> str:
    return "\n".join(rendered(each, colours=False) for each in job_lines(view_of(scene), 100))


def test_what_is_left_of_each_budget_is_computed_from_the_record_alone() -> None:
    scene, _ = supervised()
    budgets = there(line_of(scene).budgets)
    assert {each.name: (each.used, each.left) for each in budgets} == {
        "crash": (1, 2), "stall": (0, 2), "timeout": (0, 1), "24 h": (1, 9),
    }  # fmt: skip
    scene.store.pass_time(2 * 86400)
    later = there(line_of(scene).budgets)
    assert (later[0].left, later[-1].left) == (2, 10), "the window moves on, and restarts in a row stay"


def test_whose_policy_is_not_known_here_has_unknown_budgets() -> None:
    scene = SupervisedScene(policy=None)
    scene.begin()
    scene.watch().tick()
    assert line_of(scene).budgets is None


def test_who_looks_after_it_is_told_and_that_nobody_does_any_more() -> None:
    scene, lease = supervised()
    assert (line_of(scene).supervised_by, line_of(scene).over) == ("ada@login1", False)
    assert "Supervised by ada@login1" in told(scene)
    scene.store.pass_time(LEASE_S + 1)
    assert line_of(scene).supervised_by is None
    assert "Nobody supervises it now: lastbeat restart run" in told(scene)
    scene.end("run-r1", JobState.SUCCEEDED)
    scene.watch(lease=lease).tick()
    scene.store.pass_time(LEASE_S + 1)
    assert line_of(scene).over
    assert "supervises it now" not in told(scene)


def test_the_last_complete_checkpoint_is_the_one_that_a_survey_found() -> None:
    scene, _ = supervised()
    repository = scene.repository()
    record = there(repository.reload())
    at = scene.store.now
    found = FoundCheckpoint("/ckpt/step_1500", 1500, at - timedelta(hours=2), at - timedelta(hours=1))
    repository.save(replace(record, checkpoint=found), at)
    shown = " ".join(told(scene).split())
    assert "Last complete checkpoint: step 1,500, saved 2h 00m ago, found 1h 00m ago: /ckpt/step_1500" in shown
    assert "Budget left: crash 2 of 3, stall 2 of 2, timeout 1 of 1, 24 h 9 of 10" in shown
    document = json.loads(json.dumps(run_document(view_of(scene))))["job"]
    assert (document["checkpoint"]["step"], document["checkpoint"]["url"]) == (1500, "/ckpt/step_1500")
    assert document["budgets"][0] == {"name": "crash", "used": 1, "limit": 3, "left": 2}
    assert (document["supervised_by"], document["over"], document["launcher"]) == ("ada@login1", False, "local")


@pytest.mark.parametrize(
    ("act", "text"),
    [
        pytest.param(lambda scene: None, "run-r1 r1/3", id="its job, and its restarts"),
        pytest.param(lambda scene: (scene.end("run-r1", JobState.CANCELLED), scene.watch().tick()), "run-r1 r2/3",
                     id="after another one"),
    ],
)  # fmt: skip
def test_a_row_of_the_fleet_has_the_job_in_short(act: "object", text: str) -> None:
    scene, _ = supervised()
    assert callable(act)
    act(scene)
    (row,) = FleetWatch(scene.store, Policy()).open().rows
    assert row.job is not None
    assert row.job.text == text
    assert row.job == view_of(scene).row.job
