"""``lastbeat exec`` as users run it, and what it left in the fleet root."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lastbeat.jobs.launchers import processes
from support.cli import LASTBEAT, call, environment, popen

RUN_ID = "run-1"


def exec_command(*command: str, options: tuple[str, ...] = ()) -> list[str]:
    """The whole command line."""
    return [*LASTBEAT, "exec", "--run-id", RUN_ID, *options, "--", *command]


def settings(folder: Path, **more: str) -> dict[str, str]:
    """An environment whose fleet root is ``folder / "runs"``."""
    return environment(folder, **of(folder), **more)


def of(folder: Path) -> dict[str, str]:
    return {"MONITORING_ROOT": str(folder / "runs"), "LASTBEAT_BEAT_SECONDS": "0.2"}


def run_exec(
    folder: Path, *command: str, options: tuple[str, ...] = (), **more: str
) -> "subprocess.CompletedProcess[str]":
    """Run to the end, in ``folder``."""
    return call(exec_command(*command, options=options), cwd=folder, **{**of(folder), **more})


def start_exec(folder: Path, *command: str, **more: Any) -> "subprocess.Popen[bytes]":
    """Start in the background; the caller sees to its end."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return popen(exec_command(*command), cwd=folder, env=settings(folder), **pipes)


@contextmanager
def exec_under_way(
    folder: Path, *command: str, options: tuple[str, ...], **more: str
) -> "Iterator[subprocess.Popen[bytes]]":
    """``exec`` in the background, which says what it has to say in ``folder / "stderr"``. In the end all that is below
    it is killed."""
    with (folder / "stderr").open("wb") as errors:
        process = popen(
            exec_command(*command, options=options),
            cwd=folder,
            env=settings(folder, **more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for each in [*processes.below(process.pid), processes.identity(process.pid)]:
            if each is not None:
                with suppress(ProcessLookupError):
                    processes.send(each, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def left(folder: Path, name: str) -> str | None:
    """What a file of the run holds; None where there is none."""
    path = folder / "runs" / RUN_ID / name
    return path.read_text("utf-8") if path.exists() else None


def watched(folder: Path, *more: str) -> dict[str, Any]:
    """What ``lastbeat watch --once`` then says."""
    arguments = ["watch", "--run-id", RUN_ID, "--once", "--json", *more]
    done = call(LASTBEAT, *arguments, cwd=folder, MONITORING_ROOT=str(folder / "runs"))
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def python(source: str) -> tuple[str, ...]:
    """A command that runs ``source``."""
    return (sys.executable, "-c", source)
