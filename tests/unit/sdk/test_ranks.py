"""Which rank a process is, when it beats, and what it says of itself."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.training.sdk.documents import process_mark
from lastbeat.training.sdk.ranks import Rank, first_beat_s, rank_document, rank_of, with_rank
from lastbeat.training.sdk.run import Run

TORCH = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({}, (0, 1, None), id="without a launcher a process is rank 0 of 1"),
        pytest.param({"LOCAL_RANK": "3"}, (0, 1, 3), id="LOCAL_RANK is a place on a node and no rank"),
        pytest.param({"SLURM_PROCID": "9", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1"}, (9, 16, 1),
                     id="a task of srun"),
        pytest.param({"SLURM_PROCID": "1", "SLURM_NTASKS": "16", "SLURM_STEP_NUM_TASKS": "2"}, (1, 2, None),
                     id="a step of a job may be smaller than the job"),
        pytest.param({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "2"},
                     (2, 4, 2), id="Open MPI's names"),
        pytest.param({"FLUX_TASK_RANK": "1", "FLUX_JOB_SIZE": "2"}, (1, 2, None), id="Flux's names"),
        pytest.param(TORCH | {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (5, 8, 1),
                     id="torchrun below srun numbers its workers"),
        pytest.param({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "SLURM_PROCID": "0",
                      "SLURM_NTASKS": "1"}, (2, 4, None), id="mpirun in a batch script"),
        pytest.param({"RANK": "first", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (1, 2, None),
                     id="what is no number is skipped"),
        pytest.param({"RANK": "3"}, (3, 4, None), id="without a size the world is as large as the rank makes it"),
        pytest.param({"RANK": "3", "WORLD_SIZE": "2"}, (3, 4, None), id="a size that cannot be is corrected"),
        pytest.param({"WORLD_SIZE": "4"}, (0, 1, None), id="a size alone is no launcher"),
    ],
)  # fmt: skip
def test_the_environment_tells_the_rank(environ: Mapping[str, str], expected: tuple[int, int, int | None]) -> None:
    rank = rank_of(environ)
    assert (rank.number, rank.world, rank.local) == expected


@pytest.mark.parametrize(
    ("rank", "world", "expected"),
    [
        pytest.param(0, None, (0, 8), id="the rank given"),
        pytest.param(None, 16, (5, 16), id="the size given"),
        pytest.param(7, 4, (7, 8), id="a size that cannot be"),
        pytest.param(-3, None, (5, 8), id="a rank that cannot be is not taken"),
    ],
)
def test_what_training_says_wins(rank: int | None, world: int | None, expected: tuple[int, int]) -> None:
    found = rank_of(TORCH, "node", rank, world)
    assert (found.number, found.world) == expected


@given(st.dictionaries(st.sampled_from([*TORCH, "SLURM_PROCID", "SLURM_NTASKS", "PMIX_RANK"]), st.text(max_size=12)))
def test_whatever_the_environment_says_there_is_a_rank_within_its_world(environ: dict[str, str]) -> None:
    rank = rank_of(environ)
    assert 0 <= rank.number < rank.world


def test_a_thousand_ranks_do_not_beat_at_once() -> None:
    moments = [first_beat_s(rank, 60.0) for rank in range(1024)]
    seconds = [sum(second <= moment < second + 1 for moment in moments) for second in range(60)]
    assert sum(seconds) == 1024
    assert max(seconds) <= 1024 / 60 + 4
    assert moments[0] == 0.0


def test_an_error_names_its_rank_and_host_in_the_second_line() -> None:
    told = with_rank("ValueError: bad batch\n\nTraceback: …", Rank(3, 8, 1, "node-2"), 4)
    first, second, third, fourth = told.split("\n")
    assert first == "ValueError: bad batch"
    assert second.startswith("rank 3 of 8 on node-2, local rank 1, process ")
    assert second.endswith(", attempt 4")
    assert (third, fourth) == ("", "Traceback: …")


def test_a_training_that_is_not_distributed_says_nothing_of_ranks() -> None:
    assert with_rank("ValueError: bad batch\n\ntrace", Rank()) == "ValueError: bad batch\n\ntrace"


def test_a_rank_says_where_it_is_and_how_far() -> None:
    run = Run("r", None)
    run.step(12, loss=0.5)
    run.set_phase("train")
    document = rank_document(run, Rank(1, 2, 0, "node-2"), 3, 0.0, beat_s=60.0)
    assert document.pop("process_mark") == process_mark(document.pop("pid"))
    assert document == {
        "run_id": "r",
        "rank": 1,
        "world_size": 2,
        "local_rank": 0,
        "host": "node-2",
        "status": "running",
        "phase": "train",
        "step": 12,
        "loss": 0.5,
        "attempt": 3,
        "thread_error": None,
        "beat_seconds": 60.0,
        "last_update": "1970-01-01T00:00:00.000Z",
    }
