"""The script for S3 of docs/format.md, run as it stands but for the bucket, with the real AWS command line."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support import monitor
from support.checkout import ROOT
from support.s3 import S3Server
from support.waiting import LIMIT_S

AWS = os.environ.get("AWS_CLI") or shutil.which("aws")
TRAINING = "sleep 1                                       # the training"

pytestmark = pytest.mark.skipif(AWS is None, reason="no AWS command line: .ci/run installs it; AWS_CLI names one")


def script(bucket: str, training: str) -> str:
    page = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    found = re.search(r"cat > train-s3\.sh <<'SH'\n(.*?)\nSH\n", page, re.DOTALL)
    assert found is not None
    assert TRAINING in found[1]
    return found[1].replace("BUCKET", bucket).replace(TRAINING, training)


@pytest.mark.parametrize(
    ("training", "status", "verdict", "reason"),
    [
        pytest.param("true", 0, "SUCCEEDED", "_complete found", id="a training that ends well"),
        pytest.param(
            "sh -c 'exit 7'", 7, "FAILED", r"line \d+: .* failed with exit code 7", id="one that fails with 7"
        ),
    ],
)
def test_the_script(s3_server: S3Server, tmp_path: Path, training: str, status: int, verdict: str, reason: str) -> None:
    bucket = s3_server.bucket()
    assert AWS is not None
    env = monitor.environment(tmp_path, s3_server.environment())
    env["PATH"] = f"{Path(AWS).parent}:{env['PATH']}"
    (tmp_path / "train-s3.sh").write_text(script(bucket, training), encoding="utf-8")
    done = subprocess.run(
        ["bash", "train-s3.sh"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == status, done.stderr
    answer = monitor.once(tmp_path, {**s3_server.environment(), "MONITORING_BUCKET": bucket}, "shell-run")
    assert answer["status"] == verdict
    assert re.search(reason, answer["reason"])
    assert answer["last_metadata_at"] is not None
