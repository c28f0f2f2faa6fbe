"""What programs get with --json when something is wrong: one document from every command, beside the text on stderr."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from lastbeat import __version__
from lastbeat.views import schemas
from support.cli import LASTBEAT, call

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
ROWS = [
    pytest.param(["show", "gone"], {}, ["there is no run gone"], id="a run that is not there"),
    pytest.param(["fleet", "--since", "x"], {}, ["--since='x' is not a time"], id="a value that is none"),
    pytest.param(["fleet", "--sinc", "7d"], {}, ["No such option: --sinc"], id="an option that there is not"),
    pytest.param(
        ["fleet"], {"STALE_MINUTES": "ten", "ALERT_ON": "loud"}, ["STALE_MINUTES", "ALERT_ON"], id="several at once"
    ),
    pytest.param(["fleet", "--since", TOKEN], {}, ["--since='***'"], id="a secret, which is masked"),
    pytest.param(["explain", "gone"], {}, ["there is no file gone"], id="a log that is not there"),
    pytest.param(
        ["watch", "run-1", "--once", "--interval", "x"], {}, ["--interval='x'"], id="a check that is not made"
    ),
]


@pytest.mark.parametrize(("words", "settings", "named"), ROWS)
def test_an_error_is_a_document_too(
    tmp_path: Path, words: list[str], settings: dict[str, str], named: list[str]
) -> None:
    (tmp_path / "training-runs" / "run-1").mkdir(parents=True)
    done = call(LASTBEAT, *words, "--json", cwd=tmp_path, **settings)
    told = json.loads(done.stdout)
    assert (done.returncode, told.keys(), told["data"]) == (3, {"schema", "version", "data", "errors"}, None)
    Draft202012Validator(schemas.schema("answer")).validate(told)
    assert all(part in error["message"] for part, error in zip(named, told["errors"], strict=True))
    assert done.stderr.startswith("Error: ")
    assert TOKEN not in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["explain", "train.log"], id="why a log ends"),
        pytest.param(["limits"], id="the limits of a fleet"),
        pytest.param(["restart", "policy", "list"], id="the policies that there are"),
    ],
)
def test_an_answer_is_an_envelope_whose_keys_stand_beside_its_data(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "training-runs" / "run-1").mkdir(parents=True)
    (tmp_path / "train.log").write_text("RuntimeError: CUDA out of memory\n", encoding="utf-8")
    told = json.loads(call(LASTBEAT, *words, "--json", cwd=tmp_path).stdout)
    Draft202012Validator(schemas.schema("answer")).validate(told)
    assert (told["version"], told["errors"]) == (__version__, [])
    assert told["data"]
    assert told == {**told, **told["data"]}


@pytest.mark.parametrize("words", [["show", "gone"], ["exec", "--run-id", "../x", "--", "true", "--json"]])
def test_without_json_stdout_stays_empty(tmp_path: Path, words: list[str]) -> None:
    assert call(LASTBEAT, *words, cwd=tmp_path).stdout == ""
