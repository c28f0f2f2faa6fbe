"""The folder of a job: what a submitter may say of a start that it cannot follow."""

import time
from pathlib import Path

import pytest

from lastbeat.jobs.launchers.local.folder import JobFolder, JobFolderError
from lastbeat.jobs.launchers.local.keeper import JOB


@pytest.mark.parametrize("fault", ["no JSON", "no file"])
def test_a_start_whose_keeper_cannot_be_read_may_have_had_an_effect(tmp_path: Path, fault: str) -> None:
    def start(folder: Path, _: int) -> None:
        if fault == "no JSON":
            (folder / JOB).write_text("{", encoding="utf-8")
        else:
            (folder / JOB).mkdir()

    with pytest.raises(JobFolderError) as refused:
        JobFolder(tmp_path / "job").submit({}, time.time() - 60, start, 5.0)
    assert refused.value.done
