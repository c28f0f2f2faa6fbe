"""``lastbeat exec`` against an S3 API."""

import json
from pathlib import Path

from support.cli import LASTBEAT, call
from support.s3 import S3Server
from support.wrapped import python, run_exec

TRAINS = "print('step 40/50 loss 0.25', flush=True)\nraise RuntimeError('CUDA out of memory')"


def test_a_wrapped_run_from_start_to_failure(tmp_path: Path, s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    options = ("--bucket", bucket, "--phase", "fine-tuning")
    done = run_exec(tmp_path, *python(TRAINS), options=options, **s3_server.environment())
    assert done.returncode == 1
    assert done.stdout == "step 40/50 loss 0.25\n"

    def text(name: str) -> str:
        key = f"training-runs/run-1/{name}"
        return s3_server.client().get_object(Bucket=bucket, Key=key)["Body"].read().decode()

    assert text("_error").startswith("RuntimeError: CUDA out of memory (exit status 1)\n")
    assert json.loads(text("metadata.json"))["phase"] == "fine-tuning"
    assert json.loads(text("progress.json"))["step"] == 40
    assert "step 40/50" in text("logs/training_log_latest.txt")
    arguments = ["watch", "--run-id", "run-1", "--once", "--json", "--bucket", bucket]
    said = json.loads(call(LASTBEAT, *arguments, cwd=tmp_path, **s3_server.environment()).stdout)
    assert (said["status"], said["cause"], said["step"], said["total_steps"]) == ("FAILED", "oom", 40, 50)
