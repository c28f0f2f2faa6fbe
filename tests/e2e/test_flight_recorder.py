"""A rank that never joins a collective: its run's dumps reach the run's folder, and people hear of that rank."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from support.cli import LASTBEAT, call
from support.flight_dumps import WORLD, Step, write
from support.s3 import S3Server
from support.waiting import until
from support.wrapped import python, run_exec

FOUR = {WORLD: range(4)}
STUCK = {rank: [Step(), Step(line=88)] if rank != 2 else [Step()] for rank in range(4)}
# As PyTorch would when a call times out.
TRAINS = """\
import os, pathlib, sys
place = pathlib.Path(os.environ["TORCH_FR_DUMP_TEMP_FILE"])
assert os.environ["TORCH_FR_BUFFER_SIZE"] == "2000"
assert os.environ["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"
deadline = 200
import time
while not place.parent.is_dir() and deadline:
    time.sleep(0.05)
    deadline -= 1
for each in pathlib.Path("dumps").iterdir():
    (place.parent / each.name).write_bytes(each.read_bytes())
print("step 40/50 loss 0.25", flush=True)
sys.exit("[rank0]: the watchdog got stuck; DistBackendError: NCCL timeout")
"""
SENTENCE = "all_reduce #2 of group default_pg (0): rank 2 never joined; ranks 0-1, 3 wait since 11:06:42 UTC"


def explained(folder: Path, **more: str) -> dict[str, Any]:
    done = call(LASTBEAT, "explain", "run-1", "--json", cwd=folder, **more)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_command_in_a_directory(tmp_path: Path) -> None:
    write(tmp_path / "dumps", STUCK, FOUR, name="rank_{rank}")
    run_exec(tmp_path, *python(TRAINS))
    flight = tmp_path / "runs" / "run-1" / "flight"
    assert sorted(path.name for path in flight.iterdir()) == ["rank_0", "rank_1", "rank_2", "rank_3"]
    root = str(tmp_path / "runs")
    found = explained(tmp_path, MONITORING_ROOT=root)
    assert (found["cause"]["evidence"]["text"], found["cause"]["evidence"]["rank"]) == (SENTENCE, 2)
    watched = call(LASTBEAT, "watch", "--run-id", "run-1", "--once", "--json", cwd=tmp_path, MONITORING_ROOT=root)
    said = json.loads(watched.stdout)
    assert said["status"] == "FAILED"
    assert said["action"].startswith("Look at rank 2. ")
    shown = call(LASTBEAT, "show", "run-1", cwd=tmp_path, MONITORING_ROOT=root).stdout
    row = "  rank 2        never joined  11:06:41  all_reduce #1 [4096] Float  train.py:10 in step"
    assert row in shown.splitlines(), shown
    assert "any more" not in shown, "the dump is there, and has no lines"


def test_a_command_in_a_bucket(tmp_path: Path, s3_server: S3Server) -> None:
    write(tmp_path / "dumps", STUCK, FOUR, name="rank_{rank}")
    bucket = s3_server.bucket()
    options = ("--bucket", bucket, "--phase", "fine-tuning")
    run_exec(tmp_path, *python(TRAINS), options=options, TMPDIR=str(tmp_path), **s3_server.environment())
    listed = s3_server.client().list_objects_v2(Bucket=bucket, Prefix="training-runs/run-1/flight/")
    assert [each["Key"].rpartition("/")[2] for each in listed["Contents"]] == ["rank_0", "rank_1", "rank_2", "rank_3"]
    assert list(tmp_path.glob("lastbeat-flight-*")) == [], "nothing is left on this machine"
    for name, part in (
        ("_error", "DistBackendError: NCCL timeout"),
        ("metadata.json", '"phase": "fine-tuning"'),
        ("progress.json", '"step": 40'),
        ("logs/training_log_latest.txt", "step 40/50"),
    ):
        kept = s3_server.client().get_object(Bucket=bucket, Key=f"training-runs/run-1/{name}")["Body"].read().decode()
        assert part in kept, name
    found = explained(tmp_path, MONITORING_BUCKET=bucket, **s3_server.environment())
    assert found["cause"]["evidence"]["text"] == SENTENCE


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    code = "import os; print(sorted(name for name in os.environ if name.startswith('TORCH_')))"
    for off in ("off", " OFF "):
        done = run_exec(tmp_path, *python(code), LASTBEAT_FLIGHT_RECORDER=off)
        assert done.stdout == "[]\n"
    assert not (tmp_path / "runs" / "run-1" / "flight").exists()


RANK = """\
import os, sys, time, lastbeat
run = lastbeat.run("run-1", root=sys.argv[1], rank=1, world_size=2)
print(os.environ.get("TORCH_FR_DUMP_TEMP_FILE"), "torch" in sys.modules, flush=True)
run.step(1)
if len(sys.argv) > 2:
    place = os.environ["TORCH_FR_DUMP_TEMP_FILE"]
    while not os.path.isdir(os.path.dirname(place)):
        time.sleep(0.05)
    open(place + "1", "wb").write(b"dump")
    from lastbeat.training.guardian import start
    # Its guardian knows the run, and where its dumps are.
    while start._line is None or start._line.answer() is None:
        time.sleep(0.01)
    os.kill(os.getpid(), 9)
run.complete()
"""


def test_a_rank_in_a_directory(tmp_path: Path) -> None:
    done = call([sys.executable, "-c", RANK, str(tmp_path / "runs")], cwd=tmp_path)
    assert done.stdout == f"{tmp_path}/runs/run-1/flight/rank_ False\n", done.stderr
    off = call([sys.executable, "-c", RANK, str(tmp_path / "runs")], cwd=tmp_path, LASTBEAT_FLIGHT_RECORDER="off")
    assert off.stdout == "None False\n"


def test_a_rank_that_is_killed_leaves_its_dump_in_the_bucket(tmp_path: Path, s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    root = f"s3://{bucket}/runs"
    more = {"TMPDIR": str(tmp_path), **s3_server.environment()}
    done = call([sys.executable, "-c", RANK, root, "dies"], cwd=tmp_path, **more)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert done.stdout.startswith(f"{tmp_path}{os.sep}lastbeat-flight-")

    def shipped() -> bool:
        listed = s3_server.client().list_objects_v2(Bucket=bucket, Prefix="runs/run-1/flight/")
        return [each["Key"].rpartition("/")[2] for each in listed.get("Contents", ())] == ["rank_1"]

    until(shipped)
