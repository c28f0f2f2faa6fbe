"""The command line against an S3 API, with nothing but the environment to find it by."""

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from support.cli import LASTBEAT, MONITOR, call
from support.proxy import FaultProxy, s3_error
from support.s3 import S3Server


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    return s3_server.bucket()


def put(server: S3Server, bucket: str, key: str, text: str) -> None:
    server.client().put_object(Bucket=bucket, Key=f"training-runs/run-1/{key}", Body=text.encode())


def heartbeat(server: S3Server, bucket: str) -> None:
    at = datetime.now(timezone.utc).isoformat()
    put(server, bucket, "metadata.json", json.dumps({"run_id": "run-1", "status": "running", "last_update": at}))


def test_a_run_from_its_first_beat_to_its_failure(tmp_path: Path, s3_server: S3Server, bucket: str) -> None:
    arguments = ["--run-id", "run-1", "--once", "--bucket", bucket]
    nothing = call(MONITOR, *arguments, cwd=tmp_path, **s3_server.environment())
    assert nothing.stdout.startswith("Run run-1: TIMED_OUT\nDetail: No heartbeat files found\n")
    heartbeat(s3_server, bucket)
    alive = call(MONITOR, *arguments, cwd=tmp_path, **s3_server.environment())
    assert (alive.returncode, alive.stderr) == (0, "")
    assert alive.stdout.startswith("Run run-1: RUNNING\n")
    put(s3_server, bucket, "_error", "torch.cuda.OutOfMemoryError: CUDA out of memory")
    failed = call(MONITOR, *arguments, "--json", cwd=tmp_path, **s3_server.environment())
    document = json.loads(failed.stdout)
    assert (failed.returncode, document["status"]) == (2, "FAILED")
    assert document["cause"]
    assert "batch size" in document["action"]
    again = call(MONITOR, *arguments, "--json", cwd=tmp_path, **s3_server.environment())
    assert json.loads(again.stdout)["since"] == document["since"]


def test_what_the_file_in_the_current_folder_says_is_enough(tmp_path: Path, s3_server: S3Server, bucket: str) -> None:
    heartbeat(s3_server, bucket)
    settings = {**s3_server.environment(), "MONITORING_ROOT": f"s3://{bucket}"}
    (tmp_path / ".env").write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    done = call(MONITOR, "--run-id", "run-1", "--once", cwd=tmp_path)
    assert done.stdout.startswith("Run run-1: RUNNING\n")
    topic = s3_server.sns().create_topic(Name="from-a-file")["TopicArn"]
    told = call(LASTBEAT, "test-alert", "--sns-topic", topic, cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, ""), "boto3 finds its endpoint and keys in the file too"


def test_the_doctor_finds_a_good_store_good(tmp_path: Path, s3_server: S3Server, bucket: str) -> None:
    done = call(LASTBEAT, "doctor", "--bucket", bucket, cwd=tmp_path, **s3_server.environment())
    words = {line.split(":")[0].split(maxsplit=1)[1]: line.split()[0] for line in done.stdout.splitlines()}
    assert words == {
        "settings": "ok",
        "credentials": "ok",
        "store": "ok",
        "reading": "ok",
        "writing": "ok",
        "conditional writes": "ok",
        "clock": "ok",
        "limits": "ok",
        "state directory": "ok",
        "channels": "warn",
    }
    assert done.returncode == 1
    assert "KeyCount" in (listed := s3_server.client().list_objects_v2(Bucket=bucket))
    assert listed["KeyCount"] == 0, "it tidies up after itself"


def test_without_permission_to_write_watching_works_and_says_where_the_record_is(
    tmp_path: Path, s3_server: S3Server, fault_proxy: FaultProxy, bucket: str
) -> None:
    heartbeat(s3_server, bucket)
    fault_proxy.inject(s3_error(403, "AccessDenied"), method="PUT")
    settings = {**s3_server.environment(), "AWS_ENDPOINT_URL": fault_proxy.url, "XDG_STATE_HOME": str(tmp_path / "s")}
    doctor = call(LASTBEAT, "doctor", "--bucket", bucket, cwd=tmp_path, **settings)
    assert doctor.returncode == 1
    assert "LASTBEAT_STATE_DIR" in next(line for line in doctor.stdout.splitlines() if "writing" in line)
    watched = call(MONITOR, "--run-id", "run-1", "--once", "--bucket", bucket, cwd=tmp_path, **settings)
    assert watched.stdout.startswith("Run run-1: RUNNING\n")
    assert "Note: " in watched.stdout
    assert [path.name for path in (tmp_path / "s" / "lastbeat").rglob("*.json")]


def test_a_store_that_refuses_is_unknown_and_its_doctor_names_the_remedy(
    tmp_path: Path, s3_server: S3Server, fault_proxy: FaultProxy, bucket: str
) -> None:
    fault_proxy.inject(s3_error(403, "AccessDenied"))
    settings = {**s3_server.environment(), "AWS_ENDPOINT_URL": fault_proxy.url}
    done = call(MONITOR, "--run-id", "run-1", "--once", "--bucket", bucket, cwd=tmp_path, **settings)
    assert done.returncode == 3
    assert "access denied" in done.stdout.splitlines()[1]
    doctor = call(LASTBEAT, "doctor", "--bucket", bucket, cwd=tmp_path, **settings)
    assert doctor.returncode == 2
    assert " \N{RIGHTWARDS ARROW} " in next(line for line in doctor.stdout.splitlines() if line.startswith("fail"))


def test_a_healthy_pass_imports_nothing_heavy(tmp_path: Path, s3_server: S3Server, bucket: str) -> None:
    heartbeat(s3_server, bucket)
    timed = [MONITOR[0], "-X", "importtime", MONITOR[1]]
    done = call(timed, "--run-id", "run-1", "--once", "--bucket", bucket, cwd=tmp_path, **s3_server.environment())
    assert done.returncode == 0
    imported = {line.split("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "obstore" in imported
    assert not imported & {"boto3", "botocore", "requests", "urllib3", "pydantic", "asyncio", "dotenv"}
