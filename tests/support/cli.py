"""The command line as a process of its own, and a run in a directory for it to look at."""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import IO, Any

from support.checkout import ROOT
from support.command_server import CommandServer
from support.waiting import LIMIT_S

MONITOR = [sys.executable, str(ROOT / "cli" / "monitor.py")]
LASTBEAT = [sys.executable, "-m", "lastbeat_cli"]


def environment(home: Path, **settings: str) -> dict[str, str]:
    """What a process gets that must see nothing of this machine's own settings."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": f"{ROOT / 'core'}{os.pathsep}{ROOT / 'cli'}",
        "PYTHONWARNINGS": "error",
        "AWS_EC2_METADATA_DISABLED": "true",
        "TERM": "xterm",
        **settings,
    }


def call(command: list[str], *arguments: str, cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run to the end, in ``cwd``, which is home too."""
    whole = [*command, *arguments]
    for ours in (LASTBEAT, MONITOR):
        # What Python itself reads of its environment, it reads when it starts.
        if whole[: len(ours)] == ours and not any(
            name.startswith(("PYTHON", "LANG", "LC_", "TZ")) for name in settings
        ):
            return _server().run([ours[-1], *whole[len(ours) :]], cwd, environment(cwd, **settings), LIMIT_S)
    return subprocess.run(
        [*command, *arguments],
        cwd=cwd,
        env=environment(cwd, **settings),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=LIMIT_S,
        check=False,
    )


def call_bound(*arguments: str, cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """``lastbeat`` as a process that the modes of files bind, even if it is root's."""
    return _server().run([LASTBEAT[-1], *arguments], cwd, environment(cwd, **settings), LIMIT_S, bound=True)


def call_as(user: int, *arguments: str, cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """``lastbeat`` as a process of ``user``, for root."""
    return _server().run([LASTBEAT[-1], *arguments], cwd, environment(cwd, **settings), LIMIT_S, user=user)


@functools.cache
def _server() -> CommandServer:
    return CommandServer(environment(Path(tempfile.gettempdir())))


def start(
    command: list[str], *arguments: str, cwd: Path, stdout: int | IO[Any] = subprocess.PIPE, **settings: str
) -> subprocess.Popen[str]:
    """Start in the background; the caller sees to its end."""
    return subprocess.Popen(
        [*command, *arguments],
        cwd=cwd,
        env=environment(cwd, **settings),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


class RunFolder:
    """One run's files below ``root``, of any age."""

    def __init__(self, root: Path, run_id: str = "run-1") -> None:
        self.root = root
        self.run_id = run_id
        self.path = root / run_id
        self.path.mkdir(parents=True)

    def put(self, name: str, text: str = "", *, minutes_old: float = 0.0) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # In one step, as training writes: whoever watches may look at any moment.
        new = path.with_name(f".{path.name}.new")
        new.write_text(text, encoding="utf-8", errors="surrogatepass")
        then = time.time() - minutes_old * 60
        os.utime(new, (then, then))
        new.replace(path)

    def metadata(self, *, minutes_old: float = 0.0, **fields: Any) -> None:
        at = _ago(minutes_old)
        document = {"run_id": self.run_id, "status": "running", "phase": "train", "last_update": at, **fields}
        self.put("metadata.json", json.dumps(document), minutes_old=minutes_old)

    def progress(self, *, minutes_old: float = 0.0, **fields: Any) -> None:
        document = {"step": 25, "total_steps": 100, "loss": 1.5, "last_updated": _ago(minutes_old), **fields}
        self.put("progress.json", json.dumps(document), minutes_old=minutes_old)


def _ago(minutes: float) -> str:
    return (datetime.now(timezone.utc) - timedelta(minutes=minutes)).isoformat()


def without_ansi(text: str) -> str:
    return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", text)
