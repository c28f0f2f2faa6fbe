"""Commands of lastbeat as processes of their own, without the half second in which each would load Python's modules.

One process a worker has loaded all that commands load, and forks for each of them: what runs has its own environment,
folder, streams, signals and exit status. What it takes to start is tested elsewhere, with ``support.cli.start``.
"""

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, NoReturn

from support.checkout import ROOT
from support.closed import become, give_rights_away
from support.waiting import LIMIT_S

_READY_S = LIMIT_S
"""Seconds that the server may take to load everything."""
_FILES = 5
"""Of a request: what to run, stdin, stdout, stderr, and where its process id and its exit status are written."""


class CommandServer:
    """The process that forks, as tests see it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.command_server", str(its.fileno())],
                env={
                    **environment,
                    "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("core", "cli", "tests")),
                },
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
            )
        self._channel = ours
        self._lock = threading.Lock()
        atexit.register(self._close)
        ours.settimeout(_READY_S)
        assert ours.recv(1) == b"!", "the server of commands did not start"

    def run(
        self,
        arguments: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        limit_s: float,
        *,
        bound: bool = False,
        user: int | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Run ``lastbeat`` with ``arguments`` to its end; ``bound`` by the modes of files, or as another user."""
        with (
            tempfile.TemporaryFile() as request,
            Path(os.devnull).open("rb") as stdin,
            tempfile.TemporaryFile() as stdout,
            tempfile.TemporaryFile() as stderr,
        ):
            request.write(json.dumps([list(arguments), str(cwd), dict(environment), bound, user]).encode())
            request.flush()
            reading, writing = os.pipe()
            with os.fdopen(reading, "rb", buffering=0) as said:
                try:
                    files = [each.fileno() for each in (request, stdin, stdout, stderr)]
                    with self._lock:
                        socket.send_fds(self._channel, [b"?"], [*files, writing])
                finally:
                    os.close(writing)
                status = _status(said, limit_s, arguments)
            return subprocess.CompletedProcess(list(arguments), status, _text(stdout), _text(stderr))

    def _close(self) -> None:
        self._channel.close()
        self._process.wait(_READY_S)


def _status(said: IO[bytes], limit_s: float, arguments: Sequence[str]) -> int:
    """The exit status that the server writes; its process id comes before that, and is ended after ``limit_s``."""
    pid = int.from_bytes(_read(said, 4), "big")
    late = threading.Timer(limit_s, os.kill, (pid, signal.SIGKILL))
    late.start()
    began = time.monotonic()
    try:
        status = int.from_bytes(_read(said, 4), "big", signed=True)
    finally:
        late.cancel()
    if status == -signal.SIGKILL and time.monotonic() - began >= limit_s:
        raise subprocess.TimeoutExpired(list(arguments), limit_s)
    return status


def _read(said: IO[bytes], size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = said.read(size - len(data))
        assert piece, "the server of commands has ended"
        data += piece
    return data


def _text(file: IO[bytes]) -> str:
    """As ``subprocess`` decodes text: with line feeds alone."""
    file.seek(0)
    return file.read().decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


# In the server.


def serve(channel: socket.socket) -> None:
    """Fork for each request until the tests are over."""
    _load()
    # Or the first collection in each fork copies all of this.
    gc.collect()
    gc.freeze()
    # What has ended is nobody's to wait for here: the fork that starts a command waits for it.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    channel.send(b"!")
    while True:
        asked, descriptors, _, _ = socket.recv_fds(channel, 1, _FILES)
        if not asked:
            return
        if os.fork() == 0:
            channel.close()
            try:
                status = _run(descriptors)
            except SystemExit as done:
                status = done.code if isinstance(done.code, int) else 1
            _end(status)
        for each in descriptors:
            os.close(each)


def _run(descriptors: Sequence[int]) -> int:
    """Start the command, and answer for it. Returns in the command's process alone, with its exit status."""
    request, *streams, said = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid != 0:
        try:
            os.write(said, pid.to_bytes(4, "big"))
            _, ended = os.waitpid(pid, 0)
            os.write(said, os.waitstatus_to_exitcode(ended).to_bytes(4, "big", signed=True))
        finally:
            os._exit(0)
    with os.fdopen(request, "rb") as file:
        file.seek(0)
        arguments, cwd, environment, bound, user = json.load(file)
    os.close(said)
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    os.chdir(cwd)
    if bound:
        give_rights_away()
    if user is not None:
        become(user)
    os.environ.clear()
    os.environ.update(environment)
    program, *sys.argv[1:] = arguments
    sys.argv[0] = program
    if Path(program).name == "monitor.py":
        from lastbeat_cli import frame  # noqa: PLC0415 - tests that ask for no command need none of it
        from lastbeat_cli.watch.command import command  # noqa: PLC0415

        return frame.run(command, sys.argv[1:], "monitor.py")
    from lastbeat_cli.main import main  # noqa: PLC0415

    return main()


def _end(status: int) -> NoReturn:
    """As Python ends a process, but for taking each of a thousand modules apart."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _load() -> None:
    """Load whatever a command may load."""
    for folder, package in ((ROOT / "cli" / "lastbeat_cli", "lastbeat_cli"), (ROOT / "core" / "lastbeat", "lastbeat")):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            if parts[-1] in {"__main__", "pod_python", "keeper"} or "integrations" in parts or "rerun" in parts:
                continue
            import_module(".".join([package, *(part for part in parts if part != "__init__")]))
    for name in ("boto3", "obstore", "pydantic", "requests", "yaml"):
        import_module(name)
    for encoding in ("utf-8-sig", "idna"):
        "".encode(encoding)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        serve(channel)
