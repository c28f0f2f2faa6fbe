"""``lastbeat sweep`` and ``cost`` against an S3 API: what is counted is what was asked."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, call, start
from support.proxy import FaultProxy, s3_error
from support.s3 import S3Server
from support.waiting import LIMIT_S


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


def test_cost_says_that_another_store_may_have_other_prices(
    tmp_path: Path, bucket: str, settings: dict[str, str]
) -> None:
    sweep(tmp_path, bucket, settings)
    told = json.loads(call(LASTBEAT, "cost", "--json", "--bucket", bucket, cwd=tmp_path, **settings).stdout)
    assert (told["root"], told["store"]) == (f"s3://{bucket}/training-runs", "endpoint")
    assert told["month"]["watching_fleet"]["requests"]["PUT"] > 0
    shown = call(LASTBEAT, "cost", "--bucket", bucket, cwd=tmp_path, **settings)
    assert "AWS_ENDPOINT_URL" in shown.stdout


def test_a_watcher_that_may_not_write_watches_and_says_that_no_mark_is_left(
    tmp_path: Path, bucket: str, settings: dict[str, str], fault_proxy: FaultProxy
) -> None:
    fault_proxy.inject(s3_error(403, "AccessDenied"), method="PUT")
    told = sweep(tmp_path, bucket, settings)
    assert told["statuses"] == {"RUNNING": 2, "FAILED": 1}
    assert any("The mark of this pass could not be written" in note for note in told["notes"])


def test_a_store_that_refuses_everything_is_a_blind_pass(
    tmp_path: Path, bucket: str, settings: dict[str, str], fault_proxy: FaultProxy
) -> None:
    fault_proxy.inject(s3_error(403, "AccessDenied"))
    told = sweep(tmp_path, bucket, settings)
    assert "access denied" in told["blind"]
    assert told["statuses"] == {}


def passes_of(process: "subprocess.Popen[str]", since: datetime) -> Iterator[dict[str, Any]]:
    """Those that began after ``since``, as they end."""
    assert process.stdout is not None
    for line in process.stdout:
        told: dict[str, Any] = json.loads(line)
        if datetime.fromisoformat(told["at"].replace("Z", "+00:00")) > since:
            yield told


def test_what_is_new_and_what_begins_again_is_seen_by_the_next_two_passes(
    tmp_path: Path, settings: dict[str, Any], s3_server: S3Server
) -> None:
    bucket = s3_server.bucket()
    over = datetime.now(timezone.utc) - timedelta(days=2)
    for name in ("metadata.json", "_complete"):
        s3_server.put(bucket, f"training-runs/old/{name}", b"{}", over)
    put(s3_server, bucket, "live/metadata.json", "{}")
    arguments = ("sweep", "--json", "--interval", "0.2", "--bucket", bucket)
    process = start(LASTBEAT, *arguments, cwd=tmp_path, **settings)
    try:
        passes = passes_of(process, over)
        for _ in range(6):
            told = next(passes)
            assert (told["finished"], sum(told["statuses"].values())) == (1, 1)
        put(s3_server, bucket, "new/_error", "RuntimeError: boom")
        begins = json.dumps({"attempt": 2, "start_time": datetime.now(timezone.utc).isoformat()})
        put(s3_server, bucket, "old/metadata.json", begins)
        passes = passes_of(process, datetime.now(timezone.utc))
        next(passes)
        assert next(passes)["statuses"] == {"RUNNING": 2, "FAILED": 1}
    finally:
        process.terminate()
        process.communicate(timeout=LIMIT_S)
