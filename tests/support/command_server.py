"""Commands of lastbeat as processes of their own, without the half second in which each would load Python's modules.

One process a worker has loaded all that commands load, and forks for each of them: what runs has its own environment,
folder, streams, signals and exit status. What it takes to start is tested elsewhere, with ``support.cli.start``.
"""

import atexit
import fcntl
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

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

    def fork(self, request: Mapping[str, Any], streams: Sequence[int]) -> tuple[int, IO[bytes]]:
        """Begin what ``request`` says. Its process id, and where its exit status can be read once it has ended."""
        with tempfile.TemporaryFile() as asked:
            asked.write(json.dumps(request).encode())
            asked.flush()
            reading, writing = os.pipe()
            try:
                with self._lock:
                    socket.send_fds(self._channel, [b"?"], [asked.fileno(), *streams, writing])
            finally:
                os.close(writing)
            said = os.fdopen(reading, "rb", buffering=0)
            return int.from_bytes(_read(said), "big", signed=True), said

    def _close(self) -> None:
        self._channel.close()
        self._process.wait(_READY_S)


class Forked(subprocess.Popen[Any]):
    """A command that the server forks. To tests it is as any other ``Popen``."""

    def __init__(
        self,
        server: CommandServer,
        arguments: Sequence[str],
        *,
        bound: bool = False,
        user: int | None = None,
        controlling: bool = False,
        **options: Any,
    ) -> None:
        """``lastbeat`` with ``arguments``: ``bound`` by the modes of files, as another user, or with its standard input
        as its controlling terminal. ``options`` are those of ``Popen``."""
        self._server = server
        self._how = {"bound": bound, "user": user, "controlling": controlling}
        super().__init__(arguments, **options)

    def _execute_child(self, args: Sequence[str], *given: Any) -> None:
        """Where ``Popen`` would fork. ``given`` stands in the order in which it hands it over."""
        cwd, env, ends, new_session = given[4], given[5], given[9:15], given[20]
        request = {
            "arguments": list(args), "cwd": str(cwd or Path.cwd()), "env": dict(os.environ if env is None else env),
            "new_session": new_session, **self._how,
        }  # fmt: skip
        # Of each pipe the end of the child; what has none is inherited.
        streams = [number if end == -1 else end for number, end in enumerate((ends[0], ends[3], ends[5]))]
        try:
            self.pid, self._said = self._server.fork(request, streams)
            self._child_created = True
        finally:
            self._close_pipe_fds(*ends)  # type: ignore[attr-defined]

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        self._settle(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        self._settle(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self.returncode

    def _settle(self, timeout: float | None) -> None:
        """Read the exit status, if it comes in time."""
        if self.returncode is not None:
            return
        watched = select.poll()
        watched.register(self._said, select.POLLIN)
        if watched.poll(None if timeout is None else max(timeout, 0) * 1000):
            with self._waitpid_lock:  # type: ignore[attr-defined]
                if self.returncode is None:
                    self.returncode = int.from_bytes(_read(self._said), "big", signed=True)
                    self._said.close()


def finished(process: "subprocess.Popen[Any]", limit_s: float) -> None:
    """Wait for the end of ``process``; it is killed where that does not come."""
    try:
        process.wait(limit_s)
    except BaseException:
        process.kill()
        process.wait()
        raise


def _read(said: IO[bytes]) -> bytes:
    """Four bytes of what the server says."""
    data = b""
    while len(data) < 4:
        piece = said.read(4 - len(data))
        assert piece, "the server of commands has ended"
        data += piece
    return data


# In the server.


def serve(channel: socket.socket) -> None:
    """Fork for each request until the tests are over, and say how each command has ended."""
    _load()
    # Or the first collection in each fork copies all of this.
    gc.collect()
    gc.freeze()
    ended, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waiting: dict[int, int] = {}
    with ended, wake:
        channel.send(b"!")
        while True:
            ready, _, _ = select.select([channel, ended], [], [])
            if ended in ready:
                ended.recv(4096)
                _answer(waiting)
            if channel not in ready:
                continue
            asked, descriptors, _, _ = socket.recv_fds(channel, 1, _FILES)
            if not asked:
                return
            pid = os.fork()
            if pid == 0:
                for ours in (channel, ended, wake):
                    ours.close()
                for others in waiting.values():
                    os.close(others)
                try:
                    status = _run(descriptors)
                except SystemExit as done:
                    status = done.code if isinstance(done.code, int) else 1
                _end(status)
            *streams, waiting[pid] = descriptors
            for each in streams:
                os.close(each)
            _write(waiting[pid], pid)


def _answer(waiting: dict[int, int]) -> None:
    """Say for each command that has ended how it did. ``waiting`` maps process ids to where that is written."""
    for pid, said in list(waiting.items()):
        done, ended = os.waitpid(pid, os.WNOHANG)
        if done:
            _write(said, os.waitstatus_to_exitcode(ended))
            os.close(waiting.pop(pid))


def _write(said: int, number: int) -> None:
    # The test that asked may be over.
    with suppress(BrokenPipeError):
        os.write(said, number.to_bytes(4, "big", signed=True))


def _run(descriptors: Sequence[int]) -> int:
    """Run the command, in its own process. Returns its exit status."""
    request, *streams, said = descriptors
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with os.fdopen(request, "rb") as file:
        file.seek(0)
        asked = json.load(file)
    os.close(said)
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    _begin_streams()
    if asked["new_session"]:
        os.setsid()
    if asked["controlling"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(asked["cwd"])
    if asked["bound"]:
        give_rights_away()
    if asked["user"] is not None:
        become(asked["user"])
    os.environ.clear()
    os.environ.update(asked["env"])
    program, *sys.argv[1:] = asked["arguments"]
    sys.argv[0] = program
    if Path(program).name == "monitor.py":
        from lastbeat_cli import frame  # noqa: PLC0415 - tests that ask for no command need none of it
        from lastbeat_cli.watch.command import command  # noqa: PLC0415

        return frame.run(command, sys.argv[1:], "monitor.py")
    from lastbeat_cli.main import main  # noqa: PLC0415

    return main()


def _begin_streams() -> None:
    """As Python does when it starts: what it knows of them is of the server's."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old, mode, lines = getattr(sys, name), "w" if number else "r", 1 if number == 2 else -1
        new = open(number, mode, lines, old.encoding, old.errors, closefd=False)  # noqa: SIM115 - to the end
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


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
