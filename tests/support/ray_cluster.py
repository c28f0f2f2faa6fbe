"""A real Ray on this machine's loopback, each node with an address of its own; everything of it lies in one folder.

Nodes are ended by the ids of their processes: ``ray stop`` would end every Ray of this machine.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import randrange
from typing import Any

from support.waiting import until


def _find() -> Path | None:
    """Ray's own command: of the environment that RAY_VENV names, or on PATH."""
    named = os.environ.get("RAY_VENV")
    if named:
        return Path(named, "bin", "ray")
    found = shutil.which("ray")
    return None if found is None else Path(found)


RAY = _find()
WHY_NOT = (
    "ray is not installed: put pip install 'ray[default]' into a virtual environment and name it by RAY_VENV"
    if RAY is None
    else None
)
"""Why none can be started here; None: it can."""
START_S = 120.0
_TRIES = 3
_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_JOB_STOP_WAIT_TIME_S": "3"}


@dataclass
class RayNode:
    """One node: a session of processes."""

    process: "subprocess.Popen[bytes]"
    host: str

    def pids(self) -> list[int]:
        """Its processes: those of its session, its jobs' excepted, which have sessions of their own."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ValueError):
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.process.pid and fields[0] != "Z":
                    found.append(int(path.name))
        return found

    def signal(self, number: int) -> None:
        """To each of its processes."""
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """It is lost: nothing of it can say goodbye."""

        def left() -> list[int]:
            self.signal(signal.SIGKILL)
            return self.pids()

        until(left, lambda pids: not pids)
        self.process.wait()


@dataclass
class RayCluster:
    """A running cluster: a head, and workers once they are added."""

    folder: Path
    address: str
    ports: tuple[int, int, int]
    network: str
    """Its addresses begin so: Ray hands out ports of an address as if it were the only one there."""
    head: RayNode | None = None
    workers: list[RayNode] = field(default_factory=list)

    def ask(self, path: str, body: object = None) -> Any:
        """What the dashboard answers, asked past every proxy."""
        request = urllib.request.Request(self.address + path)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            return json.loads(answer.read())

    def living(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.ask("/api/v0/nodes")["data"]["result"]["result"]
        return [row for row in rows if row["state"] == "ALIVE"]

    def add_worker(self, **resources: float) -> RayNode:
        """Another node, with resources of its own name."""
        host = f"{self.network}.{len(self.workers) + 3}"
        before = len(self.living())
        more = [
            f"--address={self.network}.2:{self.ports[0]}",
            "--num-gpus=0",
            f"--resources={json.dumps(resources)}",
        ]
        worker = _begun(
            lambda: _start(self.folder, host, more),
            lambda: len(self.living()) > before,
            self.folder / f"{host}.said",
        )
        self.workers.append(worker)
        return worker

    def restart_head(self) -> None:
        """The head is started again at the same address, and knows nothing of what was before."""
        assert self.head is not None
        self.head.kill()
        self.begin()

    def begin(self) -> None:
        """Start the head."""
        self.head = _begun(
            lambda: _head(self.folder, self.ports, self.network),
            self._is_up,
            self.folder / f"{self.network}.2.said",
        )

    def _is_up(self) -> bool:
        try:
            self.ask("/api/jobs/")
            return bool(self.living()) and self.ask("/api/cluster_status")["result"] is True
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def end(self) -> None:
        for node in (*self.workers, *([self.head] if self.head is not None else [])):
            node.kill()


@contextmanager
def cluster() -> Iterator[RayCluster]:
    """A cluster of one node with two GPUs that nobody has. Its sockets want a short path."""
    folder = Path(tempfile.mkdtemp(prefix="ry"))
    network = f"127.{randrange(1, 255)}.{randrange(1, 255)}"
    ports = _free_ports("127.0.0.1", 3)
    found = RayCluster(folder, f"http://127.0.0.1:{ports[1]}", ports, network)
    try:
        found.begin()
        yield found
    finally:
        found.end()
        shutil.rmtree(folder, ignore_errors=True)


def _begun(start: Callable[[], RayNode], is_up: Callable[[], bool], said: Path) -> RayNode:
    """A node that is up. Ray itself gives one up that takes more than half a minute, as it may on a busy machine: so
    one is started at a time, and again."""
    with (Path(tempfile.gettempdir()) / f"ray-starts-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for _ in range(_TRIES):
            node = start()
            until(lambda node=node: node.process.poll() is not None or is_up(), bool, START_S)  # type: ignore[misc]
            if node.process.poll() is None:
                return node
            node.kill()
    raise AssertionError(said.read_text(encoding="utf-8", errors="replace")[-2000:])


def _head(folder: Path, ports: tuple[int, int, int], network: str) -> RayNode:
    store, dashboard, clients = ports
    more = [
        "--head",
        f"--port={store}",
        "--include-dashboard=true",
        "--dashboard-host=127.0.0.1",
        f"--dashboard-port={dashboard}",
        f"--ray-client-server-port={clients}",
        "--num-gpus=2",
        f"--temp-dir={folder}/t",
    ]
    # Ray takes 127.0.0.1 for this machine's outer address as soon as there are several nodes.
    return _start(folder, f"{network}.2", more)


def _start(folder: Path, host: str, more: list[str]) -> RayNode:
    assert RAY is not None
    names = (
        "dashboard-agent-grpc",
        "dashboard-agent-listen",
        "node-manager",
        "object-manager",
        "runtime-env-agent",
        "metrics-export",
    )
    ports = [f"--{name}-port={port}" for name, port in zip(names, _free_ports(host, len(names)), strict=True)]
    command = [str(RAY), "start", f"--node-ip-address={host}", *ports, "--num-cpus=4", "--object-store-memory=80000000"]
    own = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    with (folder / f"{host}.said").open("ab") as said:
        process = subprocess.Popen(
            [*command, "--disable-usage-stats", "--block", *more],
            env={**own, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    (folder / f"{host}.pid").write_text(str(process.pid), encoding="ascii")
    return RayNode(process, host)


def _free_ports(host: str, count: int) -> Any:
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind((host, 0))
        return tuple(each.getsockname()[1] for each in held)
    finally:
        for each in held:
            each.close()
