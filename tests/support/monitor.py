"""``python cli/monitor.py`` as users run it: a process, its environment, its output."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.cli import MONITOR, popen
from support.waiting import LIMIT_S


def environment(folder: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """Nothing of whoever runs the tests: only a home of its own in ``folder``, and ``extra``."""
    clean = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT") if name in os.environ}
    # A build machine on EC2 must not lend its own role, nor its name.
    here = {"HOME": str(folder), "LASTBEAT_STATE_DIR": str(folder / "state"), "AWS_EC2_METADATA_DISABLED": "true"}
    return {**clean, **here, **extra}


def start(folder: Path, env: Mapping[str, str], *arguments: str) -> "subprocess.Popen[str]":
    """Start the command in ``folder``, where no ``.env`` lies."""
    folder.mkdir(parents=True, exist_ok=True)
    return popen(
        [*MONITOR, *arguments],
        cwd=folder,
        env=environment(folder, env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def once(folder: Path, env: Mapping[str, str], run_id: str, *arguments: str) -> dict[str, Any]:
    """One pass; what it answered in JSON, with its exit status as ``exit``."""
    process = start(folder, env, "--run-id", run_id, "--once", "--json", *arguments)
    out, err = process.communicate(timeout=LIMIT_S)
    try:
        answer: dict[str, Any] = json.loads(out)
    except json.JSONDecodeError:
        raise AssertionError(f"no JSON from monitor.py (exit {process.returncode}): {out!r} {err!r}") from None
    return {**answer, "exit": process.returncode, "stderr": err}
