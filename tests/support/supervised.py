"""``lastbeat supervise`` of a run called ``run``, as users run it: its record, and what its jobs said."""

import json
import subprocess
from pathlib import Path
from typing import Any

from support.cli import LASTBEAT, call, start

NCCL = "torch.distributed.DistBackendError: NCCL error in: ../torch/x.cpp:1331, unhandled system error"


def settings(folder: Path) -> dict[str, str]:
    return {
        "LASTBEAT_STATE_DIR": str(folder / "state"),
        "LASTBEAT_RESTART_DELAY_SECONDS": "0",
        "MONITORING_ROOT": str(folder / "runs"),
    }


def supervise(folder: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """``lastbeat`` with these arguments, to its end."""
    return call(LASTBEAT, *arguments, cwd=folder, **{**settings(folder), **more})


def in_background(folder: Path, *arguments: str, cwd: Path | None = None, **more: str) -> "subprocess.Popen[str]":
    return start(LASTBEAT, *arguments, cwd=cwd or folder, stdout=subprocess.PIPE, **{**settings(folder), **more})


def record(folder: Path, run_id: str = "run") -> dict[str, Any]:
    """Empty while there is none."""
    path = folder / "runs" / run_id / "_watchdog.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def begun(folder: Path) -> list[str]:
    """What the jobs said when they began, in the order of their logs."""
    logs = sorted((folder / "runs/run/logs").glob("*.log"))
    return [line for log in logs for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("begun")]
