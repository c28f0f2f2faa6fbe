"""What sbatch is called with, exactly; and that nothing of a command, a name or a value is ever read by a shell."""

import json
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.jobs.launchers.port import JobRefusedError
from lastbeat.jobs.launchers.slurm import launcher, sbatch
from lastbeat.jobs.launchers.slurm.sbatch import Submission, submission
from lastbeat.model.job import JobSpec
from support.row_by_row import labelled
from support.waiting import LIMIT_S

GOLDEN = Path(__file__).parent / "golden"
OURS = {"LASTBEAT_ATTEMPT": "2", "LASTBEAT_RUN_ID": "llama"}
SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2\nsrun train\n"
NO_ENVIRONMENT_SCRIPT = "#!/bin/bash\n#SBATCH --export=NONE -x n9\nsrun train\n"
ELSEWHERE_SCRIPT = "#!/bin/bash\n#SBATCH -D /scratch --job-name=mine\nsrun train\n"

HOSTILE = ("$(touch evil)", "'; rm -rf ~ #", 'a"b', "x\n#SBATCH --array=1-3\n", "ü", "")
CALLS = [
    ("program", JobSpec(("python", "train.py", "--lr", "1e-4"), "/data"), {}, ()),
    ("script", JobSpec(("train.sbatch", "--resume=/ckpt/step 100"), "/data"), {}, ()),
    ("options", JobSpec(("train",), "/data", output="logs/%x-%j.out", options=("-p", "gpu", "--gpus=8")), {}, ()),
    ("nodes-left-out", JobSpec(("train",), "/data", options=("--exclude=n7",)), {}, ("n1", "n2")),
    ("script-without-environment", JobSpec(("bare.sbatch",), "/data"), {}, ("n1",)),
    ("script-elsewhere", JobSpec(("elsewhere.sbatch",), "/data"), {}, ()),
    ("some-variables", JobSpec(("train",), "/data", options=("--export=HOME,LR=1",)), {}, ()),
    ("all-variables-after-all", JobSpec(("bare.sbatch",), "/data", options=("--export=ALL",)), {}, ()),
    ("no-variables-by-environment", JobSpec(("train",), "/data"), {"SBATCH_EXPORT": "NONE"}, ()),
    ("another-cluster", JobSpec(("train",), "/data", options=("-M", "west")), {"SLURM_CLUSTERS": "east"}, ()),
    ("hostile", JobSpec(("echo", *HOSTILE), "/a b;c"), {}, ()),
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in (
        ("train.sbatch", SCRIPT),
        ("bare.sbatch", NO_ENVIRONMENT_SCRIPT),
        ("elsewhere.sbatch", ELSEWHERE_SCRIPT),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def submitted(
    place: Path, spec: JobSpec, environment: dict[str, str] | None = None, left_out: tuple[str, ...] = ()
) -> Submission:
    """As if ``place`` were the spec's folder."""
    here = JobSpec(spec.command, str(place), OURS, spec.output, spec.options)
    return submission(here, "llama-r1", environment or {}, left_out)


@pytest.mark.parametrize(("name", "spec", "environment", "left_out"), CALLS, ids=[each[0] for each in CALLS])
def test_sbatch_is_called_with_exactly_this(
    place: Path, name: str, spec: JobSpec, environment: dict[str, str], left_out: tuple[str, ...]
) -> None:
    asked = submitted(place, spec, {**environment, "PATH": "/bin"}, left_out)
    lines = [json.dumps(each, ensure_ascii=False).replace(str(place), spec.cwd) for each in asked.arguments]
    told = "".join(f"{line}\n" for line in ["sbatch", *lines]) + f"<<<\n{asked.stdin}>>>\n"
    told += "".join(f"{key}={value}\n" for key, value in sorted(asked.environment.items()))
    assert told == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


REFUSED = [
    ("an array by an option", ("--array=1-3",), SCRIPT, {}, "an array is several jobs"),
    ("abbreviated", ("--arr", "1-3"), SCRIPT, {}, "an array is several jobs"),
    ("an array in the script", (), "#!/bin/sh\n#SBATCH -N 2 --array 1-3\n", {}, "job.sh: an array is several jobs"),
    ("an array by the environment", (), SCRIPT, {"SBATCH_ARRAY_INX": "1-3"}, "SBATCH_ARRAY_INX is set"),
    ("a heterogeneous job", ("-N1", ":", "-N2"), SCRIPT, {}, "heterogeneous"),
    ("a heterogeneous script", (), "#!/bin/sh\n#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\n", {}, "job.sh: het"),
    ("clusters in the script", (), "#!/bin/sh\n#SBATCH -M west\n", {}, "job.sh names clusters"),
    ("a name", ("-J", "mine"), SCRIPT, {}, "the job's name is lastbeat's"),
    ("waiting", ("--wait",), SCRIPT, {}, "--wait keeps sbatch"),
    ("a rehearsal", ("--test-only",), SCRIPT, {}, "--test-only submits nothing"),
    ("another script", ("--wrap=true",), SCRIPT, {}, "--wrap is a script of its own"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "script", "environment", "said"), labelled(REFUSED))
def test_what_would_not_be_one_job_of_that_name_is_refused(
    tmp_path: Path, options: tuple[str, ...], script: str, environment: dict[str, str], said: str
) -> None:
    (tmp_path / "job.sh").write_text(script, encoding="utf-8")
    with pytest.raises(JobRefusedError, match=said):
        submission(JobSpec(("job.sh",), str(tmp_path), options=options), "x-r0", environment)


@pytest.mark.parametrize(
    ("options", "script"),
    [
        (("--account=a", "--comment", "--array is nice"[2:]), SCRIPT),
        ((), "#!/bin/sh\n##SBATCH --array=1-3\n# SBATCH -a 1\n#SBATCH --nodes=2 # --array=1-3\n"),
        ((), "#!/bin/sh\necho begins\n#SBATCH --array=1-3\n"),
        (("--wait-all-nodes=1", "-w", "n1", "--exclusive"), SCRIPT),
    ],
)
def test_what_only_looks_like_it_is_not_refused(tmp_path: Path, options: tuple[str, ...], script: str) -> None:
    (tmp_path / "job.sh").write_text(script, encoding="utf-8")
    submission(JobSpec(("job.sh",), str(tmp_path), options=options), "x-r0", {})


AROUND = {"HOME": "/h", "SLURM_CONF": "/etc/slurm.conf", "SLURM_MPI_TYPE": "pmix", "SBATCH_ACCOUNT": "physics"}


def test_the_environment_reaches_the_job_without_what_would_change_the_submission() -> None:
    spec = JobSpec(("train",), "/", OURS)
    steering = {"SBATCH_WAIT": "1", "SBATCH_JOB_NAME": "x", "SLURM_EXIT_ERROR": "9", "SBATCH_GET_USER_ENV": "1"}
    assert submission(spec, "x-r0", {**AROUND, **steering}).environment == {**AROUND, **OURS}


def test_a_job_is_submitted_to_the_cluster_that_is_asked_about_it_whatever_it_inherits() -> None:
    begun = {"HOME": "/begun", "SLURM_CONF": "/etc/east.conf", "SLURM_JWT": "expired"}
    own = {"HOME": "/own", "SLURM_CONF": "/etc/west.conf"}
    assert sbatch.of_this_cluster(begun, own) == {"HOME": "/begun", "SLURM_CONF": "/etc/west.conf"}
    assert sbatch.of_this_cluster(None, own) == own


@given(
    st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20), max_size=5),
)
def test_a_shell_gives_the_program_exactly_the_arguments_of_the_spec(words: list[str]) -> None:
    spec = JobSpec(("printf", "%s\\0", *words), "/nonexistent")
    script = submission(spec, "x-r0", {}).stdin
    done = subprocess.run(["sh"], input=script.encode(), capture_output=True, timeout=LIMIT_S, check=True)
    assert done.stdout.decode() == ("".join(f"{word}\0" for word in words) or "\0")


@given(st.lists(st.text(max_size=20), max_size=4), st.text(max_size=20), st.text(max_size=20))
def test_names_values_and_patterns_are_one_argument_each(values: list[str], name: str, output: str) -> None:
    options = tuple(f"--comment={value}" for value in values)
    asked = submission(JobSpec(("true",), "/a b", output=output, options=options), name, {})
    expected = ["--parsable", f"--job-name={name}", "--chdir=/a b", *([f"--output={output}"] if output else [])]
    assert list(asked.arguments) == [*expected, *options]
    assert asked.stdin == "#!/bin/sh\nexec true\n"


def test_a_dry_run_shows_the_very_call_and_script() -> None:
    spec = JobSpec(("train", "a b"), "/data", options=("--partition=gpu",))
    fields, lines = launcher.preview(spec, "llama-r0", datetime(2026, 1, 1, tzinfo=timezone.utc))
    assert lines[0] == "sbatch --parsable --job-name=llama-r0 --chdir=/data --partition=gpu"
    assert lines[-1] == "  exec train 'a b'"
    assert str(fields["script"]).splitlines()[-1] == "exec train 'a b'"
