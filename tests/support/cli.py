"""The command line as a process of its own, and a run in a directory for it to look at."""

import fcntl
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import IO, Any

from support.checkout import ROOT
from support.command_server import CommandServer, Forked, finished
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
    return _called([*command, *arguments], cwd, settings)


def call_bound(*arguments: str, cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """``lastbeat`` as a process that the modes of files bind, even if it is root's."""
    return _called([*LASTBEAT, *arguments], cwd, settings, bound=True)


def call_as(user: int, *arguments: str, cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """``lastbeat`` as a process of ``user``, for root."""
    return _called([*LASTBEAT, *arguments], cwd, settings, user=user)


def _called(command: list[str], cwd: Path, settings: Mapping[str, str], **how: Any) -> subprocess.CompletedProcess[str]:
    # Files, not pipes: what a command leaves running may keep a pipe open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with popen(command, cwd=cwd, env=environment(cwd, **settings), stdin=subprocess.DEVNULL, stdout=out,
                   stderr=err, **how) as process:  # fmt: skip
            finished(process, LIMIT_S)
        return subprocess.CompletedProcess(command, process.returncode, _text(out), _text(err))


def run(command: Sequence[str], *, data: Any = None, **options: Any) -> "subprocess.CompletedProcess[Any]":
    """``subprocess.run`` by :func:`popen`: what it reads is ``data``, what it writes is brought along."""
    if data is not None:
        options["stdin"] = subprocess.PIPE
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with popen(command, **pipes) as process:
        try:
            out, err = process.communicate(data, LIMIT_S)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _text(file: IO[bytes]) -> str:
    """As ``subprocess`` decodes text: with line feeds alone."""
    file.seek(0)
    return file.read().decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def popen(command: Sequence[str], *, env: Mapping[str, str], **options: Any) -> "subprocess.Popen[Any]":
    """``Popen``, but without the half second in which ``lastbeat`` would load Python's modules."""
    for ours in (LASTBEAT, MONITOR):
        if list(command[: len(ours)]) == ours and _starts_alike(env) and "preexec_fn" not in options:
            return Forked(_server(), [ours[-1], *command[len(ours) :]], env=env, **options)
    if options.pop("controlling", False):
        options["preexec_fn"] = _take_terminal
    return subprocess.Popen(command, env=env, **options)


def _starts_alike(env: Mapping[str, str]) -> bool:
    """Whether Python and its loader find in ``env`` what they found when the server started: they look only then."""
    usual = environment(Path())
    return all(
        usual.get(name) == text for name, text in env.items() if name.startswith(("PYTHON", "LANG", "LC_", "LD_", "TZ"))
    )


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@functools.cache
def _server() -> CommandServer:
    return CommandServer(environment(Path(tempfile.gettempdir())))


def start(
    command: list[str], *arguments: str, cwd: Path, stdout: int | IO[Any] = subprocess.PIPE, **settings: str
) -> subprocess.Popen[str]:
    """Start in the background; the caller sees to its end."""
    return popen(
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
