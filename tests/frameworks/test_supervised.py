"""A real training under ``lastbeat supervise`` that is killed in the middle of a checkpoint, and then hangs, ends with
the very loss of an undisturbed one."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600.0
TRAIN = """
import os, pathlib, signal, sys, time
import torch

faulty, attempt = sys.argv[1] == "faulty", int(os.environ["LASTBEAT_ATTEMPT"])
torch.manual_seed(7)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
data = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
target = data.sum(dim=1, keepdim=True)
first = 0
if place := os.environ.get("LASTBEAT_RESUME_FROM"):
    saved = torch.load(place)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"]
print(f"attempt {attempt} from step {first}", flush=True)
for step in range(first + 1, 61):
    loss = torch.nn.functional.mse_loss(model(data), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}/60 loss {loss.item():.10f}", flush=True)
    if step % 10 == 0:
        place = pathlib.Path("ckpt", f"step_{step}.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, place)
        if faulty and attempt == 1 and step == 30:
            whole = place.read_bytes()
            place.write_bytes(whole[: len(whole) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        # Older than the crash by more than it might have cut off, without waiting for that.
        os.utime(place, (time.time() - 3600, time.time() - 3600))
    if faulty and attempt == 2 and step == 45:
        time.sleep(600)
print(f"done at {time.time()}", flush=True)
"""


def lastbeat(folder: Path, *arguments: str) -> str:
    """What a command of lastbeat prints there."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "core"), str(ROOT / "cli")]),
        "MONITORING_ROOT": str(folder / "runs"),
        "LASTBEAT_STATE_DIR": str(folder / "state"),
        "LASTBEAT_RESTART_DELAY_SECONDS": "0",
        "LASTBEAT_STALL_MINUTES": "0.1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "lastbeat_cli", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def train(folder: Path, how: str) -> tuple[str, list[str]]:
    """The last line that tells a loss, and where each attempt began."""
    for name in ("runs", "ckpt"):
        (folder / name).mkdir(parents=True)
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    options = ["--run-id", "run", "--launcher", "local", "--policy", "default"]
    options += ["--checkpoint-dir", "ckpt", "--interval", "0.5"]
    lastbeat(folder, "supervise", *options, "--", sys.executable, "train.py", how)
    said = [path.read_text(encoding="utf-8") for path in sorted((folder / "runs/run/logs").glob("*.log"))]
    last = re.findall(r"^step 60/60 loss .*$", "".join(said), re.MULTILINE)
    return last[-1], re.findall(r"^attempt .*$", "".join(said), re.MULTILINE)


def test_a_training_that_is_killed_in_a_save_and_then_hangs_ends_with_the_loss_of_an_undisturbed_one(
    tmp_path: Path,
) -> None:
    undisturbed, once = train(tmp_path / "calm", "calm")
    disturbed, attempts = train(tmp_path / "faulty", "faulty")
    assert once == ["attempt 1 from step 0"]
    assert attempts == ["attempt 1 from step 0", "attempt 2 from step 20", "attempt 3 from step 40"]
    assert disturbed == undisturbed
    record = json.loads((tmp_path / "faulty/runs/run/_watchdog.json").read_text(encoding="utf-8"))
    assert [each["mode"] for each in record["restarts"]] == ["crash", "stall"]
    adds_up(tmp_path / "faulty", record)


def adds_up(folder: Path, record: dict[str, Any]) -> None:
    """What ``lastbeat goodput`` says its time went into, from its first submission to its end, as others saw these."""
    found = json.loads(lastbeat(folder, "goodput", "run", "--json"))["goodput"]
    since, until = seconds(found["since"]), seconds(found["until"])
    first = record["actions"][0]
    assert seconds(first["asked_at"]) - 1 <= since <= seconds(first["done_at"]) + 1
    said = "".join(path.read_text(encoding="utf-8") for path in (folder / "runs/run/logs").glob("*.log"))
    ended = [float(at) for at in re.findall(r"^done at (\S+)$", said, re.MULTILINE)]
    assert ended[-1] - 1 <= until <= seconds(record["history"][-1]["at"]) + 1
    parts = {use: taken for use, taken in found["spent_s"].items() if taken is not None}
    assert sum(parts.values()) == pytest.approx(until - since, abs=1)
    assert min(parts.values()) >= 0
    # From 30 back to 20, and from 45 back to 40.
    assert (found["failures"], found["lost_steps"]) == (2, 15)
    # It stands still for twice the limit until that is a failure.
    assert parts["unnoticed"] >= 10


def seconds(at: str) -> float:
    return datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()
