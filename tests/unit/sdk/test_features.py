"""Which features a run uses, by its settings and its place among ranks."""

from pathlib import Path

import pytest

from lastbeat.settings import load
from lastbeat.training.features import run_environment
from lastbeat.training.node.sampler import NodeSampler
from lastbeat.training.sdk.instance import NoticeWatch
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.time_limit import JobTimeLimit

EC2 = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://[::1]:7"}
ENDS = {"SLURM_JOB_END_TIME": "4102444800"}
ROWS: list[tuple[str, dict[str, str], type, bool]] = [
    ("a node is sampled", {}, NodeSampler, True),
    ("unless that is switched off", {"LASTBEAT_BEAT_SECONDS": "health:0"}, NodeSampler, False),
    ("nor by a rank that is not its node's first", {"RANK": "0", "LOCAL_RANK": "1"}, NodeSampler, False),
    ("but by the first of each node", {"RANK": "8", "WORLD_SIZE": "16", "LOCAL_RANK": "0"}, NodeSampler, True),
    ("a cloud's notices are looked for", EC2, NoticeWatch, True),
    ("unless that is switched off", {**EC2, "LASTBEAT_CLOUD_NOTICES": "off"}, NoticeWatch, False),
    ("or this is no cloud's machine", {"AWS_EC2_METADATA_DISABLED": "true"}, NoticeWatch, False),
    ("a Slurm job has a time limit", ENDS, JobTimeLimit, True),
    ("unless its margin is nothing", {**ENDS, "LASTBEAT_TIME_MARGIN_SECONDS": "0"}, JobTimeLimit, False),
]


def test_a_working_directory_that_is_gone_costs_no_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, gone = load({"MONITORING_ROOT": str(tmp_path)}, {}, tmp_path), tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    (sampler,) = [task for task in run_environment(settings).tasks if isinstance(task, NodeSampler)]
    assert sampler.sample(Run("r", None)) is not None
    sampler.close()


@pytest.mark.parametrize(("environ", "feature", "used"), [pytest.param(*row[1:], id=row[0]) for row in ROWS])
def test_a_run_uses(tmp_path: Path, environ: dict[str, str], feature: type, used: bool) -> None:
    settings = load({"MONITORING_ROOT": str(tmp_path)}, environ, tmp_path)
    assert any(isinstance(task, feature) for task in run_environment(settings).tasks) is used
