"""What is wrong with what was asked for: a plain message on stderr, exit status 3, no traceback, no I/O."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.cli import LASTBEAT, MONITOR, RunFolder, call, environment

HOOK = "http://hooks.slack.com/services/T000/B000/hush-hush-hush"


@pytest.mark.parametrize(
    ("arguments", "settings", "says"),
    [
        pytest.param(["--once"], {}, "--run-id is missing", id="no run id"),
        pytest.param(["--run-id", "../x", "--once"], {}, "contains '/'", id="a run id that climbs"),
        pytest.param(["--run-id", "x"], {"STALE_MINUTES": "ten"}, "STALE_MINUTES='ten' is not a number of minutes; "
                     "use for example 10", id="stale minutes in words"),
        pytest.param(["--run-id", "x", "--interval", "often"], {}, "--interval='often'", id="an interval in words"),
        pytest.param(["--run-id", "x", "--bucket", ""], {}, "--bucket is empty", id="an empty bucket"),
        pytest.param(["--run-id", "x", "--root", "ftp://b/p"], {}, "neither s3://bucket/prefix", id="a foreign scheme"),
        pytest.param(["--run-id", "x"], {"SLACK_WEBHOOK_URL": HOOK}, "SLACK_WEBHOOK_URL", id="a webhook without TLS"),
        pytest.param(["--run-id", "x", "--sns-topic", "arn:x"], {}, "--sns-topic='arn:x'", id="an ARN that is none"),
        pytest.param(["--run-id", "x", "--onec"], {}, "--once", id="a mistyped option"),
        pytest.param(["--run-id"], {}, "requires an argument", id="an option without its value"),
        pytest.param(["--run-id", "x", "y"], {}, "unexpected extra argument", id="a word too many"),
        pytest.param(["--run-id", "x", "--root", "s3://bucket-1/p"], {"AWS_ENDPOINT_URL_S3": "no-address"},
                     "AWS_ENDPOINT_URL_S3", id="an endpoint for S3 alone that is none"),
    ],
)  # fmt: skip
def test_it_is_refused_before_anything_is_done(
    tmp_path: Path, arguments: list[str], settings: dict[str, str], says: str
) -> None:
    done = call(MONITOR, *arguments, cwd=tmp_path, **settings)
    assert done.returncode == 3
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr
    assert "hush-hush" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_the_same_as_the_launcher(tmp_path: Path) -> None:
    wrong = ("--run-id", "a b", "--interval", "often", "--bucket", "")
    launched, called = (call(command, *wrong, cwd=tmp_path) for command in (MONITOR, [*LASTBEAT, "watch"]))
    assert (called.returncode, called.stdout, called.stderr) == (launched.returncode, "", launched.stderr)


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    done = call(MONITOR, "--run-id", "a/b", "--interval", "0", cwd=tmp_path, STALE_MINUTES="ten", ALERT_ON="loud")
    assert done.stderr.startswith("Error: 4 things are wrong")
    assert done.stderr.count("\n- ") == 4


def test_a_folder_that_is_not_there_could_not_be_observed(tmp_path: Path) -> None:
    done = call(MONITOR, "--run-id", "x", "--once", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout.startswith("Run x: UNKNOWN\nDetail: ")
    assert "training-runs" in done.stdout
    assert "Action: " in done.stdout
    assert "MONITORING_ROOT" in done.stderr, "who set nothing learns where lastbeat looks"
    as_json = json.loads(call(MONITOR, "--run-id", "x", "--once", "--json", "--root", "nope", cwd=tmp_path).stdout)
    assert (as_json["status"], as_json["attempt"], as_json["since"]) == ("UNKNOWN", None, None)


def test_a_store_that_nobody_answers_for_could_not_be_observed(tmp_path: Path) -> None:
    done = call(
        MONITOR, "--run-id", "x", "--once", "--bucket", "bucket-1", cwd=tmp_path,
        AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="hush-hush-hush",
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stdout.startswith("Run x: UNKNOWN\nDetail: s3://bucket-1/training-runs: ")
    assert "hush" not in done.stdout + done.stderr


def test_no_credentials_at_all_is_told_plainly(tmp_path: Path) -> None:
    done = call(MONITOR, "--run-id", "x", "--once", "--bucket", "bucket-1", cwd=tmp_path)
    assert done.returncode == 3
    assert "no AWS credentials were found" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full disk, as Linux plays one")
def test_a_full_disk_behind_stdout_is_one_line_and_unknown(tmp_path: Path) -> None:
    RunFolder(tmp_path / "training-runs").metadata()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*MONITOR, "--run-id", "run-1", "--once"],
            cwd=tmp_path, env=environment(tmp_path), stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr


def test_a_python_without_the_libraries_is_told_what_to_install(tmp_path: Path) -> None:
    bare = [sys.executable, "-S", "-I", str(ROOT / "cli" / "monitor.py")]
    done = call(bare, "--run-id", "x", "--once", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "make demo" in done.stderr
    assert "pip install" in done.stderr


def test_it_runs_from_any_folder_and_through_a_link(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "weird 'dir\" \u00fc" / "runs")
    run.metadata()
    link = tmp_path / "monitor"
    link.symlink_to(ROOT / "cli" / "monitor.py")
    env = environment(tmp_path)
    del env["PYTHONPATH"]
    done = subprocess.run(
        [sys.executable, str(link), "--run-id", "run-1", "--once", "--root", "runs"],
        cwd=run.root.parent, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("Run run-1: RUNNING\n")
