"""What makes a training healthy, as a table: a row a sentence."""

import json
from datetime import datetime, timezone

import pytest

from lastbeat.jobs.health.judging import judged
from lastbeat.jobs.health.lines import lines
from lastbeat.jobs.health.runs import run_health
from lastbeat.jobs.launchers.ray.gpus import Gpus, utilization
from lastbeat.launch.ray import CheckpointHealth, EfaUtilization, GpuUtilization, RayResources, TrainingHealth
from lastbeat.model.figures import Figures
from lastbeat.model.job import JobSpec
from lastbeat.model.resources import Gpu, Resources
from lastbeat.model.restart import Supervision
from lastbeat.model.state import ShownState
from lastbeat.model.status import Status
from lastbeat.model.training_health import Level
from lastbeat.model.view import Row, RunView

AT = datetime(2026, 8, 1, tzinfo=timezone.utc)
RAY = RayResources(8, 8, 96, 8, healthy=True)
EFA = EfaUtilization(efa_active=True, transport="efa")
SAVED = CheckpointHealth(120, "/ckpt/checkpoint-120", 3, "2026-08-01T00:00:00Z")


def gpus(*used: float | None) -> GpuUtilization:
    many = len(used)
    return utilization([Gpus(used, (70_000.0,) * many, (81_559.0,) * many)])


BUSY = gpus(97, 95, 99, 94)


@pytest.mark.parametrize(
    ("gpu", "efa", "ray", "saved", "level", "said"),
    [
        pytest.param(BUSY, EFA, RAY, SAVED, "OK", "", id="all is well"),
        pytest.param(gpus(), EFA, RAY, SAVED, "CRITICAL", "though Ray counts 8", id="Ray counts what nobody sees"),
        pytest.param(utilization([Gpus((), (), ())], ["pod worker-1: no answer"]), EFA, RAY, SAVED, "UNKNOWN",
                     "not every place", id="the place that has some could not be asked"),
        pytest.param(gpus(0, 0, 1, 0), EFA, RAY, SAVED, "CRITICAL", "not in use", id="all are idle"),
        pytest.param(gpus(97, 0, 96, 95), EFA, RAY, SAVED, "WARNING", "1 of 4 GPUs are idle", id="one is idle"),
        pytest.param(gpus(None, None), EFA, RAY, SAVED, "WARNING", "does not tell", id="the driver does not tell"),
        pytest.param(BUSY, EfaUtilization(efa_active=False, transport="socket", fallback=True), RAY, SAVED, "WARNING",
                     "NCCL_NET=ofi", id="EFA is there and not in use"),
        pytest.param(BUSY, EFA, RayResources(0, 0, 8, 1, healthy=False), SAVED, "CRITICAL", "no GPUs",
                     id="Ray has none"),
        pytest.param(BUSY, EFA, RayResources(8, 0, 8, 1, healthy=True), SAVED, "WARNING", "given out none",
                     id="Ray gave out none"),
        pytest.param(BUSY, EFA, RayResources(8, 8, 8, 1, False, 2), SAVED, "WARNING", "2 nodes failed",
                     id="nodes have failed"),
        pytest.param(BUSY, EFA, RayResources(8, 8, 8, 1, True, 0, ["{'GPU': 64.0}: 1+ pending"]), SAVED, "WARNING",
                     "waits for resources", id="something waits"),
        pytest.param(BUSY, EFA, RAY, CheckpointHealth(None, None, 0), "WARNING", "no checkpoint found",
                     id="there is no checkpoint"),
        pytest.param(BUSY, EFA, RAY, CheckpointHealth(None, None, 2), "WARNING", "no complete checkpoint",
                     id="none is complete"),
        pytest.param(None, None, None, SAVED, "UNKNOWN", "nothing is known", id="unknown is not healthy"),
    ],
)  # fmt: skip
def test_what_is_wrong(
    gpu: GpuUtilization | None,
    efa: EfaUtilization | None,
    ray: RayResources | None,
    saved: CheckpointHealth | None,
    level: str,
    said: str,
) -> None:
    found = judged(gpu, efa, ray, saved, place="/ckpt")

    assert found.level == level
    assert found.healthy is (level in {"OK", "WARNING"})
    assert said in " ".join(found.issues)
    assert bool(found.issues) is bool(said)


@pytest.mark.parametrize(
    ("level", "first"),
    [
        pytest.param("UNKNOWN", "Training: not known, for it could not be looked at (UNKNOWN)", id="nobody could look"),
        pytest.param("WARNING", "Training: healthy, but look at what follows (WARNING)", id="a warning"),
    ],
)
def test_what_could_not_be_looked_at_is_not_called_ill(level: Level, first: str) -> None:
    assert lines(judged(BUSY, EFA, RAY, SAVED, [(level, "why")]))[0] == first


def view(status: Status = Status.RUNNING, **more: object) -> RunView:
    return RunView(Row("llama", ShownState(status, "boom"), figures=Figures(7)), AT, "/runs/llama/", **more)  # type: ignore[arg-type]


def test_a_run_is_as_healthy_as_its_status_and_conditions() -> None:
    failed = run_health(view(Status.FAILED), None)
    warned = run_health(view(conditions={"gpu_idle": "none of 8 GPUs in use for 10 min", "efa_fallback": ""}), None)
    unseen = run_health(view(Status.UNKNOWN), None)

    assert (failed.level, failed.issues) == ("CRITICAL", ["llama is FAILED: boom"])
    assert warned.level == "WARNING"
    assert "gpu_idle: none of 8 GPUs in use for 10 min" in warned.issues
    assert warned["efa"] == {"efa_active": False, "transport": "socket", "fallback": True}
    assert unseen.level == "UNKNOWN"
    assert run_health(view(), None).level == "OK"


def test_a_runs_gpus_are_those_that_training_told_of() -> None:
    told = Resources(gpus=(Gpu("H100", 0.5, 10 << 20, 80 << 20), Gpu("H100", None, None, None)))

    found = run_health(view(resources=told), None)

    assert found.gpu is not None
    assert (found.gpu.gpu_count, found.gpu.avg_utilization, found.gpu.memory_used) == (2, 50.0, [10.0, 0.0])
    assert found.job == "llama: RUNNING at step 7"
    assert run_health(view(Status.SUCCEEDED, resources=told), None).gpu is None


@pytest.mark.parametrize(
    ("launcher", "options", "place"),
    [
        ("ray", ("--ray-address=http://127.0.0.1:1",), ""),
        ("ray", (), "http://127.0.0.1:1 uid 0"),
        ("ray", ("--ray-address=nonsense",), ""),
        ("ray-pod", ("--head-pod=Not A Pod",), ""),
        ("ray-exec", (), "10.0.0.1:6443/ml/Not A Pod"),
        ("local", (), ""),
    ],
)
def test_a_cluster_that_cannot_be_asked_is_at_most_a_warning(
    launcher: str, options: tuple[str, ...], place: str
) -> None:
    supervision = Supervision(launcher, JobSpec(("train",), "", options=options), place=place)

    found = run_health(view(), supervision)

    assert found.level == ("WARNING" if launcher.startswith("ray") else "OK"), found.issues
    assert json.dumps(dict(found))
    assert isinstance(found, TrainingHealth)
