"""A training script as users run it: a process of its own that reports itself, and what the watchdog then says."""

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lastbeat import settings as configuration
from lastbeat.alerts import registry
from lastbeat.model.document import outcome_document
from lastbeat.stores.clock import steady_clock
from lastbeat.watch.configured import configured_watch
from lastbeat_cli import exits
from lastbeat_cli.document import dump
from support import monitor
from support.checkout import ROOT
from support.s3 import S3Server
from support.waiting import LIMIT_S

RUN_ID = "run-1"
STALE_MINUTES = "20"
"""No heartbeat turns stale here, however long a busy machine holds up training, which beats five times a second."""
WRITTEN = """\
def written(run):
    while run._reporter._rank is None or run._reporter._rank._written_steps < run.steps:
        time.sleep(0.005)
"""
"""For scripts: waits until the store has all that ``run`` has reported."""
DEADLOCK = """\
def deadlock(note):
    import ctypes
    lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(128)
    lock(mutex)
    open(note, "w").close()
    lock(mutex)
"""
"""For scripts: writes the file ``note``, then waits in native code as a library does whose peer is gone. No signal ends
the wait, no Python runs in this thread, and it takes no processor."""


@dataclass(frozen=True)
class Site:
    """A fleet root, and a folder to run things in."""

    folder: Path
    root: str
    env: Mapping[str, str] = field(default_factory=dict)
    server: S3Server | None = None

    def start(self, script: str, *, log: str = "training.log", **env: str) -> "subprocess.Popen[str]":
        """Run ``script`` in ``folder``; what it says goes to the file ``log`` there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "train.py"
        # In one step: another process may be about to read it.
        new = path.with_suffix(".new")
        new.write_text(textwrap.dedent(script), encoding="utf-8")
        new.replace(path)
        settings = {
            "PYTHONPATH": str(ROOT / "core"),
            "PYTHONWARNINGS": "error",
            "MONITORING_ROOT": self.root,
            "LASTBEAT_BEAT_SECONDS": "0.2",
            **self.env,
            **env,
        }
        with (self.folder / log).open("w", encoding="utf-8") as output:
            return subprocess.Popen(
                [sys.executable, str(path)],
                cwd=self.folder,
                env=monitor.environment(self.folder, settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )

    @contextmanager
    def running(self, script: str, *, log: str = "training.log", **env: str) -> "Iterator[subprocess.Popen[str]]":
        """``script`` as :meth:`start` runs it; killed where it outlives the block."""
        process = self.start(script, log=log, **env)
        try:
            yield process
        finally:
            end(process)

    def train(self, script: str, **env: str) -> "Trained":
        """Run ``script`` to its end."""
        with self.running(script, **env) as process:
            return Trained(process.wait(LIMIT_S), self.said())

    def said(self, log: str = "training.log") -> str:
        """Without where it reports to, which every training says."""
        lines = (self.folder / log).read_text(encoding="utf-8").splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("lastbeat: reporting to "))

    def impatient(self) -> "Site":
        """The same where a heartbeat is stale after three seconds, for tests of silence."""
        return replace(self, env={**self.env, "STALE_MINUTES": "0.05"})

    def look(self, run_id: str = RUN_ID) -> dict[str, Any]:
        """What ``monitor.py --once --json`` says now, with its exit status as ``exit``: the same settings, store,
        channels and watch, without another process."""
        env = {"MONITORING_ROOT": self.root, "STALE_MINUTES": STALE_MINUTES, **self.env}
        settings = configuration.load({}, monitor.environment(self.folder, env), self.folder, watching=True)
        outcome = configured_watch(settings, run_id, registry.channels(settings.values), clock=steady_clock()).tick()
        found: dict[str, Any] = json.loads(dump(outcome_document(outcome)))
        return {**found, "exit": exits.of(outcome)}

    def look_until(self, status: str, run_id: str = RUN_ID) -> dict[str, Any]:
        """Look again and again until the verdict is ``status``; it may be RUNNING before, and nothing else."""
        deadline = time.monotonic() + LIMIT_S
        while (found := self.look(run_id))["status"] != status:
            assert found["status"] == "RUNNING", found
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
        return found

    def read(self, name: str, run_id: str = RUN_ID) -> str | None:
        """One of the run's files, or None."""
        if self.server is None:
            path = Path(self.root) / run_id / name
            return path.read_text(encoding="utf-8") if path.exists() else None
        bucket, _, prefix = self.root.removeprefix("s3://").partition("/")
        client = self.server.client()
        try:
            answer = client.get_object(Bucket=bucket, Key=f"{prefix}/{run_id}/{name}")
        except client.exceptions.NoSuchKey:
            return None
        return answer["Body"].read().decode()


@dataclass(frozen=True)
class Trained:
    """How a training ended, and what it said."""

    exit: int
    said: str


def end(process: "subprocess.Popen[str]") -> None:
    """Let nothing of a test go on; a process that has ended is left alone."""
    if process.poll() is None:
        os.kill(process.pid, 9)
        process.wait(LIMIT_S)


def directory_site(folder: Path) -> Site:
    return Site(folder / "work", str(folder / "runs"))


def s3_site(folder: Path, server: S3Server) -> Site:
    return Site(folder / "work", f"s3://{server.bucket()}/runs", server.environment(), server)
