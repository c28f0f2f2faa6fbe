"""What Ray is asked to run, and what it is not asked: options, ids, secrets."""

import json
import re
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.jobs.launchers.port import JobRefusedError
from lastbeat.jobs.launchers.ray import submission as ray_submission
from lastbeat.jobs.launchers.ray.submission import options, request, submission_id
from lastbeat.model.job import JobSpec
from support.row_by_row import labelled

SINCE = datetime(2026, 5, 14, 12, tzinfo=timezone.utc)
SPEC = JobSpec(("python", "train.py"), "", {"LASTBEAT_RUN_ID": "llama"})


def asked(*given: str, spec: JobSpec = SPEC) -> dict[str, Any]:
    return request(spec, options(given), "llama-r0", SINCE)


def test_without_options_it_is_the_command_its_name_and_its_variables() -> None:
    assert asked() == {
        "entrypoint": "exec python train.py",
        "submission_id": submission_id("llama-r0", SINCE),
        "metadata": {"lastbeat_name": "llama-r0"},
        "runtime_env": {"env_vars": {"LASTBEAT_RUN_ID": "llama"}},
    }


UNDERSTOOD = [
    ("gpus of the entrypoint", "--entrypoint-num-gpus=8", {"entrypoint_num_gpus": 8.0}),
    ("memory in bytes", "--entrypoint-memory=1000000", {"entrypoint_memory": 1_000_000}),
    ("resources by name", '--entrypoint-resources={"worker": 1}', {"entrypoint_resources": {"worker": 1}}),
    ("metadata beside lastbeat's own", '--metadata-json={"team": "nlp"}', {"metadata": {"team": "nlp",
     "lastbeat_name": "llama-r0"}}),
    ("a working directory in a store", "--working-dir=s3://b/x.zip", {"runtime_env": {"working_dir": "s3://b/x.zip",
     "env_vars": {"LASTBEAT_RUN_ID": "llama"}}}),
    ("variables of the user, but ours win",
     '--runtime-env-json={"pip": ["x"], "env_vars": {"A": "1", "LASTBEAT_RUN_ID": "theirs"}}',
     {"runtime_env": {"pip": ["x"], "env_vars": {"A": "1", "LASTBEAT_RUN_ID": "llama"}}}),
]  # fmt: skip


@pytest.mark.parametrize(("option", "adds"), labelled(UNDERSTOOD))
def test_options_mean_what_they_mean_to_ray(option: str, adds: dict[str, Any]) -> None:
    found = asked(option)
    assert {name: found[name] for name in adds} == adds
    name, _, value = option.partition("=")
    assert asked(name, value) == found


REFUSED = [
    ("a misspelt option", "--entrypoint-num-gpu=1", "--entrypoint-num-gpus"),
    ("an option of another launcher", "--partition=gpu", "no option of jobs on Ray"),
    ("the way by kubectl", "--head-pod=x", "ray-pod"),
    ("headers, which would be recorded", '--headers={"A": "b"}', "RAY_JOB_HEADERS"),
    ("a word for a number", "--entrypoint-num-gpus=many", "no number"),
    ("not a number", "--entrypoint-num-gpus=nan", "no number"),
    ("parts of a byte", "--entrypoint-memory=1.5", "bytes"),
    ("an option without its value", "--entrypoint-num-gpus", "no value"),
    ("a resource of words", '--entrypoint-resources={"a": "b"}', "no number"),
    ("metadata that are no text", '--metadata-json={"a": 1}', "no text"),
    ("broken JSON", "--runtime-env-json={", "no JSON"),
    ("a file that is elsewhere for others", "--runtime-env=env.yaml", "relative"),
    ("this folder", "--working-dir=.", "nothing would bring"),
    ("a folder in the environment", '--runtime-env-json={"working_dir": "src"}', "nothing would bring"),
    ("a secret by its name", '--runtime-env-json={"env_vars": {"WANDB_API_KEY": "abc123"}}', "--runtime-env="),
    ("a login in the address", "--ray-address=http://bob:abc123@head:8265", "RAY_ADDRESS"),
    ("a token in the address", "--ray-address=https://abc123@head", "RAY_JOB_HEADERS"),
]  # fmt: skip


@pytest.mark.parametrize(("option", "told"), labelled(REFUSED))
def test_what_cannot_be_is_refused_with_what_to_do(option: str, told: str) -> None:
    with pytest.raises(JobRefusedError) as refused:
        options([option])
    assert told in refused.value.told
    assert refused.value.advice
    assert "abc123" not in refused.value.told
    assert "ghp_" not in refused.value.told


def test_secrets_stand_in_a_file_which_is_read_for_each_job(tmp_path: Path) -> None:
    file = tmp_path / "env.yaml"
    file.write_text("env_vars: {WANDB_API_KEY: one}\n", encoding="utf-8")
    wanted = options([f"--runtime-env={file}"])
    assert "one" not in repr(wanted)
    assert request(SPEC, wanted, "x", SINCE)["runtime_env"]["env_vars"]["WANDB_API_KEY"] == "one"
    file.write_text("env_vars: {WANDB_API_KEY: two}\n", encoding="utf-8")
    assert request(SPEC, wanted, "x", SINCE)["runtime_env"]["env_vars"]["WANDB_API_KEY"] == "two"


def test_a_file_says_what_is_not_recorded(tmp_path: Path) -> None:
    file = tmp_path / "env.yaml"
    file.write_text("env_vars: {WANDB_API_KEY: one}\n", encoding="utf-8")
    found = asked(f"--runtime-env={file}", '--runtime-env-json={"pip": ["x"], "env_vars": {"A": "1"}}')
    assert found["runtime_env"] == {
        "pip": ["x"],
        "env_vars": {"A": "1", "WANDB_API_KEY": "one", "LASTBEAT_RUN_ID": "llama"},
    }


def test_what_came_as_bytes_that_no_text_has_is_refused() -> None:
    with pytest.raises(JobRefusedError, match="UTF-8"):
        asked(spec=JobSpec(("cat", "caf\udce9"), ""))


BAD_FILES = [
    pytest.param(None, "No such file", id="it is not there"),
    pytest.param(b"env_vars: [SECRET", "no YAML", id="it is no YAML"),
    pytest.param(b"at: 2026-05-14\nSECRET: 1", "JSON cannot say", id="it has a date"),
    pytest.param(b"working_dir: src", "nothing would bring", id="it names a folder of this machine"),
]


@pytest.mark.parametrize(("text", "told"), BAD_FILES)
def test_a_file_that_cannot_be_used_is_told_and_not_quoted(tmp_path: Path, text: bytes | None, told: str) -> None:
    file = tmp_path / "env.yaml"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(JobRefusedError) as refused:
        asked(f"--runtime-env={file}")
    assert told in refused.value.told
    assert "SECRET" not in refused.value.told


NAMES = st.text("abzAZ019._-+=@:", min_size=1, max_size=203)


@given(NAMES, NAMES)
def test_an_id_is_the_jobs_own_and_one_that_files_and_actors_can_be_called_by(one: str, other: str) -> None:
    found = submission_id(one, SINCE)
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,120}", found)
    assert found not in {".", ".."}
    assert found == submission_id(one, SINCE.astimezone(timezone(timedelta(hours=9))))
    assert found != submission_id(one, SINCE + timedelta(microseconds=1))
    assert one == other or found != submission_id(other, SINCE)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_no_word_of_a_command_is_read_by_a_shell(words: list[str]) -> None:
    spec = JobSpec(("printf", "%s\\0", *words), "/")
    done = subprocess.run(ray_submission.entrypoint(spec), shell=True, capture_output=True, check=True)
    assert done.stdout.decode() == "".join(f"{word}\0" for word in words)


def test_nodes_are_left_out_by_their_labels_beside_those_of_the_user() -> None:
    wanted = asked('--entrypoint-label-selector={"gpu": "h200"}')
    assert ray_submission.excluding(wanted, ["aa", "bb"])["entrypoint_label_selector"] == {
        "gpu": "h200",
        "ray.io/node-id": "!in(aa,bb)",
    }
    chosen = asked(f"--entrypoint-label-selector={json.dumps({'ray.io/node-id': 'cc'})}")
    assert ray_submission.excluding(chosen, ["aa"]) == chosen


def test_ray_chooses_a_node_for_an_entrypoint_that_asks_for_something() -> None:
    assert not ray_submission.is_placed(asked())
    assert not ray_submission.is_placed(asked("--entrypoint-num-cpus=0"))
    assert ray_submission.is_placed(asked("--entrypoint-num-cpus=1"))
