"""``lastbeat sweep`` and ``cost`` against an S3 API: what is counted is what was asked."""

import json
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, call
from support.proxy import FaultProxy, s3_error
from support.s3 import S3Server


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """With three runs in it, one of which failed."""
    bucket = s3_server.bucket()
    at = datetime.now(timezone.utc).isoformat()
    for run in ("alpha", "beta", "gamma"):
        put(s3_server, bucket, f"{run}/metadata.json", json.dumps({"run_id": run, "last_update": at}))
    put(s3_server, bucket, "gamma/_error", "RuntimeError: boom")
    return bucket


def put(server: S3Server, bucket: str, key: str, text: str) -> None:
    server.client().put_object(Bucket=bucket, Key=f"training-runs/{key}", Body=text.encode())


@pytest.fixture
def settings(s3_server: S3Server, fault_proxy: FaultProxy) -> dict[str, str]:
    return {**s3_server.environment(), "AWS_ENDPOINT_URL": fault_proxy.url}


def sweep(tmp_path: Path, bucket: str, settings: dict[str, str]) -> dict[str, Any]:
    done = call(LASTBEAT, "sweep", "--once", "--json", "--bucket", bucket, cwd=tmp_path, **settings)
    told: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (3 if told["blind"] else 2, "")
    return told


def asked(proxy: FaultProxy) -> Counter[str]:
    """By kind, without the unsigned request that tells the store's time."""
    return Counter(
        "LIST" if "list-type=2" in each.target else each.method for each in proxy.passed if each.method != "HEAD"
    )


def test_each_request_is_counted_and_those_that_are_tried_again_too(
    tmp_path: Path, bucket: str, settings: dict[str, str], fault_proxy: FaultProxy
) -> None:
    for faults in (0, 2, 0):
        fault_proxy.clear()
        fault_proxy.inject(s3_error(503, "SlowDown"), method="GET", contains="list-type=2", times=faults)
        told = sweep(tmp_path, bucket, settings)
        assert told["statuses"] == {"RUNNING": 2, "FAILED": 1}
        assert Counter(told["requests"]) == asked(fault_proxy)
