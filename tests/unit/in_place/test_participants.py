"""Which of several commands of one job this is, and of which launch."""

import pytest

from lastbeat.training.exec.in_place.together import Participant, launch_of, participant_of

ROWS = [
    pytest.param({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, Participant(), id="a batch script is one process"),
    pytest.param({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "16"}, Participant(3, 8),
                 id="srun"),
    pytest.param({"RANK": "1", "WORLD_SIZE": "4", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}, Participant(1, 4),
                 id="the innermost launcher counts"),
    pytest.param({"GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2"}, Participant(1, 2), id="torchrun's nodes"),
    pytest.param({"RANK": "4", "WORLD_SIZE": "4"}, Participant(), id="a rank that there is not"),
]  # fmt: skip


@pytest.mark.parametrize(("environ", "found"), ROWS)
def test_which_of_several(environ: dict[str, str], found: Participant) -> None:
    assert participant_of(environ) == found


LAUNCHES = [
    pytest.param({"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "2"}, "17.0.2", id="a step of a job"),
    pytest.param({"TORCHELASTIC_RUN_ID": "none"}, None, id="torchrun's word where it was given none"),
    pytest.param({"PMIX_NAMESPACE": "prte/12@1"}, "prte-12-1", id="as a part of a file's name"),
    pytest.param({"SLURM_JOB_ID": "17", "LASTBEAT_ATTEMPT": "2"}, "17.0.0.2", id="a supervised one has its number"),
]


@pytest.mark.parametrize(("environ", "word"), LAUNCHES)
def test_which_launch(environ: dict[str, str], word: str | None) -> None:
    assert launch_of(environ) == word
