"""A run without an id gets one that people can read, and that all of its ranks come to."""

import re

import pytest

from lastbeat.model.runid import check_run_id
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.run_ids import NoRunIdError, job_run_id, own_run_id

ONE = Rank()
SLURM = {"SLURM_JOB_ID": "12345", "SLURM_JOB_NAME": "llama"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param(SLURM, "llama-12345", id="Slurm: the job's name and number"),
        pytest.param({**SLURM, "SLURM_JOB_ID": "12352", "SLURM_ARRAY_JOB_ID": "12345", "SLURM_ARRAY_TASK_ID": "7"},
                     "llama-12345_7", id="of an array the task"),
        pytest.param({"SLURM_JOB_ID": "12345", "SLURM_JOB_NAME": "wrap"}, "slurm-12345", id="a job without a name"),
        pytest.param({"SLURM_JOB_ID": " 7 ", "SLURM_JOB_NAME": "../my job!"}, "my-job-7",
                     id="a name unfit for a folder"),
        pytest.param({"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "_x" + "y" * 900}, "x" + "y" * 59 + "-7", id="a long one"),
        pytest.param({**SLURM, "LASTBEAT_RUN_ID": "mistral:1"}, "mistral:1", id="supervised: the run's own id"),
        pytest.param({}, None, id="no scheduler"),
    ],
)  # fmt: skip
def test_a_schedulers_job_has_its_name_and_number(environ: dict[str, str], expected: str | None) -> None:
    assert job_run_id(environ) == expected
    if expected is not None:
        assert own_run_id(environ, "train.py", "gpu7", Rank(3, 8)) == check_run_id(expected)


def test_a_single_process_has_its_script_the_time_and_the_host() -> None:
    found = own_run_id({}, "jobs/my train.py", "gpu7.example.org", ONE)
    assert re.fullmatch(r"my-train-\d{8}-\d{6}-gpu7-[a-z]{3}", check_run_id(found))


@pytest.mark.parametrize("program", ["", "-c", "/", "…", "." * 300])
def test_a_program_of_any_name_gives_an_id(program: str) -> None:
    assert check_run_id(own_run_id({}, program, "", ONE)).startswith("run-")


RANKS = [
    pytest.param({"TORCHELASTIC_RUN_ID": "exp-7"}, "train-exp-7", id="torchrun with an id"),
    pytest.param({"PMIX_NAMESPACE": "prterun-n1-99@1"}, "train-prterun-n1-99@1", id="Open MPI"),
    pytest.param({"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}, "train-node1-29500",
                 id="several nodes under torchrun without an id: where they meet"),
]  # fmt: skip


@pytest.mark.parametrize(("environ", "expected"), RANKS)
def test_ranks_have_what_their_launcher_says(environ: dict[str, str], expected: str) -> None:
    found = {own_run_id(environ, "train.py", f"node{rank}", Rank(rank, 4)) for rank in range(4)}
    assert found == {expected}


@pytest.mark.parametrize(
    "environ", [{"LOCAL_WORLD_SIZE": "4"}, {"MASTER_ADDR": "localhost"}], ids=["torchrun", "spawn"]
)
def test_ranks_of_one_node_have_what_started_them_in_common(environ: dict[str, str]) -> None:
    found = {own_run_id(environ, "train.py", "node1", Rank(rank, 4)) for rank in range(4)}
    assert len(found) == 1
    assert check_run_id(found.pop()).startswith("train-node1-")


def test_ranks_that_cannot_agree_are_told_what_to_do() -> None:
    with pytest.raises(NoRunIdError, match=r"4 ranks .* give one, as lastbeat\.run\("):
        own_run_id({}, "train.py", "node1", Rank(1, 4))
