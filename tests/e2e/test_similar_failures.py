"""A failure that was seen before: two runs fail of one cause, and people hear of the first one with the second."""

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from support.cli import LASTBEAT, call

TRACEBACK = """{first}
Traceback (most recent call last):
  File "{folder}/train.py", line {line}, in main
    loss = model(batch)
{first}
"""
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {} GiB. GPU {} has a total capacity of 79.15 GiB"

Put = Callable[[str, str], None]
Ask = Callable[..., CompletedProcess[str]]


@pytest.fixture(params=["a directory", "a bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Put, Ask]:
    """How training writes, and how people ask."""
    if request.param == "a directory":

        def put(key: str, text: str) -> None:
            file = tmp_path / "runs" / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

        return put, lambda *arguments: call(LASTBEAT, *arguments, "--root", str(tmp_path / "runs"), cwd=tmp_path)
    server = request.getfixturevalue("s3_server")
    bucket, client = server.bucket(), server.client()

    def upload(key: str, text: str) -> None:
        client.put_object(Bucket=bucket, Key=f"runs/{key}", Body=text.encode())

    return upload, lambda *arguments: call(
        LASTBEAT, *arguments, "--root", f"s3://{bucket}/runs", cwd=tmp_path, **server.environment()
    )


def beats(put: Put, run_id: str) -> None:
    now = datetime.now(timezone.utc).isoformat()
    put(f"{run_id}/metadata.json", json.dumps({"run_id": run_id, "last_update": now, "instance_id": "i-1"}))


def test_the_second_run_that_fails_of_a_cause_names_the_first(place: tuple[Put, Ask]) -> None:
    put, ask = place
    for run_id in ("first", "second", "third"):
        beats(put, run_id)
    assert ask("sweep", "--once").returncode == 0
    put("first/_error", TRACEBACK.format(first=OOM.format("2.00", 0), folder="/data/a", line=33))
    assert ask("sweep", "--once").returncode == 2
    put("second/_error", TRACEBACK.format(first=OOM.format("12.50", 7), folder="/mnt/b/c", line=58))
    put("third/_error", TRACEBACK.format(first="ValueError: the tokenizer has no pad token", folder="/data/a", line=33))
    told = ask("watch", "--once", "--run-id", "second").stdout
    assert "Seen before: same as run first on " in told
    assert " (2 runs so far)" in told
    assert "Seen before: same as run first on " in ask("show", "second").stdout
    assert "Seen before: same as run first on " in ask("explain", "second").stdout
    assert "same as" not in ask("watch", "--once", "--run-id", "third").stdout
    costs = json.loads(ask("causes", "--json").stdout)
    assert {each["error_type"]: each["failures"] for each in costs["causes"]}["oom"] == 2
    assert sorted(each["failures"] for each in costs["causes"]) == [1, 2]
