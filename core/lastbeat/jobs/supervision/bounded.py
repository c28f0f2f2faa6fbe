"""Runs a policy's command with a time limit, and with bounds on its output. A script of its own, by its path:

    python -I bounded.py SECONDS -- PROGRAM ARGUMENT …

Its output has the first and the last 256 KB of the command's, its exit status is the command's, 124 if its time was
over, 127 or 126 if it could not be started. What the command leaves running is ended by the keeper of the job.
"""

import os
import selectors
import signal
import subprocess
import sys
import time
from typing import Final

KEPT_BYTES: Final = 256 * 1024
"""Most bytes of the beginning, and of the end."""
TIME_OVER: Final = 124
_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126
_GRACE_S: Final = 10.0
"""From SIGTERM to SIGKILL."""
_POLL_S: Final = 0.05
_CHUNK: Final = 65536
JOB_VARIABLES: Final = (
    "LASTBEAT_RUN_ID", "LASTBEAT_ATTEMPT", "LASTBEAT_RESTART_COUNT", "LASTBEAT_RESUME_FROM", "LASTBEAT_RESUME_STEP",
)  # fmt: skip
"""What a job finds in its environment. A command that reports itself is another run than that of the job."""


class _Output:
    """What the command prints, and what is kept of it."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._room = KEPT_BYTES
        self._end = bytearray()
        self._left_out = 0
        self._open = selectors.DefaultSelector()
        self._open.register(source, selectors.EVENT_READ)

    def read(self, wait_s: float) -> bool:
        """Take what is there, waiting so long for it; whether there was anything."""
        if not self._open.get_map():
            time.sleep(wait_s)
            return False
        if not self._open.select(wait_s):
            return False
        text = os.read(self._source, _CHUNK)
        if not text:
            self._open.unregister(self._source)
            return False
        first, rest = text[: self._room], text[self._room :]
        self._room -= len(first)
        _say(first)
        self._end += rest
        over = max(0, len(self._end) - KEPT_BYTES)
        self._left_out += over
        del self._end[:over]
        return True

    def close(self) -> None:
        """Print the end."""
        if self._left_out:
            _say(f"\n[{self._left_out:,} bytes left out]\n".encode())
        _say(bytes(self._end))


def main(limit_s: float, command: list[str]) -> int:
    """Run ``command``; the exit status."""
    environment = {name: text for name, text in os.environ.items() if name not in JOB_VARIABLES}
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
    except (OSError, ValueError) as error:
        _say(f"{command[0]}: {getattr(error, 'strerror', None) or error}\n".encode("utf-8", "replace"))
        return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    output = _Output(process.stdout.fileno())
    in_time = _ends(process, output, limit_s)
    if not in_time:
        process.send_signal(signal.SIGTERM)
        if not _ends(process, output, _GRACE_S):
            process.kill()
            process.wait()
    # What it left behind may hold the pipe, and print for ever.
    until = time.monotonic() + 1.0
    while time.monotonic() < until and output.read(0.0):
        pass
    output.close()
    if not in_time:
        _say(f"\nlastbeat: ended after its limit of {limit_s:g} s\n".encode())
        return TIME_OVER
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _ends(process: "subprocess.Popen[bytes]", output: _Output, limit_s: float) -> bool:
    """Whether the command ends within ``limit_s``."""
    until = time.monotonic() + limit_s
    while process.poll() is None:
        if time.monotonic() >= until:
            return False
        output.read(_POLL_S)
    return True


def _say(text: bytes) -> None:
    while text:
        text = text[os.write(1, text) :]


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[3:]))
