"""Runs a scheduler's command with limits on its time and on the size of its answer."""

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError, TooLongError

MOST_BYTES: Final = 1 << 20
"""Most bytes that a command may print on each stream."""
_CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Answer:
    """How ``program`` ended, and what it printed."""

    program: str
    code: int
    out: str
    err: str

    def says(self, words: Sequence[str]) -> bool:
        """Whether one of ``words`` is among its errors."""
        return any(word in self.err for word in words)

    @property
    def fault(self) -> str:
        """``scontrol: `` and the last line of its errors, bounded. Most programs begin such a line with their own name
        and its level, which is left out."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        said = lines[-1].strip()[:300] if lines else f"exit status {self.code}"
        said = said.removeprefix(f"{self.program}: ")
        return f"{self.program}: {said.removeprefix('fatal: ').removeprefix('error: ')}"


def ask(
    command: Sequence[str],
    environment: Mapping[str, str],
    limit_s: float,
    *,
    stdin: str = "",
    advice: str = "",
    most: int = MOST_BYTES,
) -> Answer:
    """Run ``command``, without a shell, in exactly ``environment``.

    Raises :class:`LauncherError`, with ``advice``, where it did not end within ``limit_s`` or printed more than
    ``most`` bytes: it has been killed then, and what it did is unknown. Raises :class:`JobRefusedError` if there is
    no such program.
    """
    # From our own PATH, not the job's, so that all commands belong to one Slurm.
    program = shutil.which(command[0])
    if program is None:
        raise JobRefusedError(f"{command[0]} is not installed here", "run this on a login node of the cluster")
    try:
        process = subprocess.Popen(
            [program, *command[1:]],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # The command and its children form one process group, so all of them can be ended.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise LauncherError(f"{command[0]} cannot be run: {why or error}", advice) from None
    try:
        out, err = _exchanged(process, stdin.encode("utf-8", "surrogateescape"), time.monotonic() + limit_s, most)
        code = process.wait(limit_s)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise LauncherError(f"{command[0]} did not answer within {limit_s:g} s", advice) from None
    except OverflowError:
        raise TooLongError(f"{command[0]} answered with more than {most / (1 << 20):g} MiB", advice) from None
    finally:
        _end(process)
    return Answer(command[0], code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def _exchanged(process: "subprocess.Popen[bytes]", text: bytes, end: float, most: int) -> tuple[bytes, bytes]:
    """Write ``text`` and read both streams to their ends. Raises TimeoutError and OverflowError."""
    said: dict[object, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as waiting:
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                writes = stream is process.stdin
                waiting.register(stream, selectors.EVENT_WRITE if writes else selectors.EVENT_READ)
        while waiting.get_map():
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            for key, _ in waiting.select(left):
                if key.fileobj is process.stdin:
                    text = _written(key.fd, text)
                    done = not text
                else:
                    chunk = os.read(key.fd, _CHUNK)
                    said[key.fileobj] += chunk
                    done = not chunk
                    if len(said[key.fileobj]) > most:
                        raise OverflowError
                if done:
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
    return bytes(said[process.stdout]), bytes(said[process.stderr])


def _written(handle: int, text: bytes) -> bytes:
    """The rest of ``text`` that is still to be written; empty if the reader has closed its end."""
    try:
        return text[os.write(handle, text) :] if text else b""
    except BrokenPipeError:
        return b""


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill it, unless it has ended; never waits for long: a process can hang in the kernel."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
