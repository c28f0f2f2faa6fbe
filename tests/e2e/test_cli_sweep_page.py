"""``lastbeat sweep`` leaves a page of the fleet beside the runs where it is told to, and what a browser would get."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, RunFolder, call
from support.s3 import S3Server


def data_of(html: bytes) -> dict[str, Any]:
    found = re.search(rb'id="data">([A-Za-z0-9+/=]+)</script>', html)
    assert found is not None
    read: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return read


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "training-runs"
    RunFolder(root, "lives").metadata()
    RunFolder(root, "fails").put("_error", "RuntimeError: CUDA out of memory")
    return root


def sweep(tmp_path: Path, minutes: str, **settings: str) -> dict[str, Any]:
    done = call(
        [*LASTBEAT, "sweep"],
        "--once",
        "--json",
        cwd=tmp_path,
        LASTBEAT_PAGE_MINUTES=minutes,
        ALERT_ON="none",
        **settings,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_pass_leaves_a_page_that_has_all_in_it(tmp_path: Path, root: Path) -> None:
    assert sweep(tmp_path, "5")["notes"] == []
    page = root / "_watchdog" / "index.html"
    assert [path.name for path in page.parent.glob("index*")] == ["index.html"]
    data = data_of(page.read_bytes())
    assert [row["run_id"] for row in data["fleet"]["runs"]] == ["fails", "lives"]
    assert data["runs"]["fails"]["run"]["status"] == "FAILED"


def test_off_is_the_default_and_zero_is_off(tmp_path: Path, root: Path) -> None:
    for minutes in ("", "0"):
        sweep(tmp_path, minutes)
    assert not (root / "_watchdog" / "index.html").exists()


def test_in_a_bucket_it_is_what_browsers_take_for_a_page(tmp_path: Path, s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    client = s3_server.client()
    client.put_object(Bucket=bucket, Key="training-runs/fails/_error", Body=b"ValueError: boom")
    report = sweep(tmp_path, "0.5", **s3_server.environment(), MONITORING_BUCKET=bucket)
    answer = client.get_object(Bucket=bucket, Key="training-runs/_watchdog/index.html")
    assert (answer["ContentType"], answer["CacheControl"]) == ("text/html; charset=utf-8", "no-cache")
    assert list(data_of(answer["Body"].read())["runs"]) == ["fails"]
    assert report["notes"] == []


def test_what_looks_at_runs_takes_the_page_for_none(tmp_path: Path, root: Path) -> None:
    sweep(tmp_path, "5")
    report = sweep(tmp_path, "5")
    assert (report["ignored"], sum(report["statuses"].values())) == ([], 2)
