"""``lastbeat exec`` on a terminal: the command has one, of the same size, with its keys."""

import fcntl
import os
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import popen
from support.started_in_place import by_start, starts
from support.waiting import LIMIT_S, until
from support.wrapped import exec_command, left, python, settings, watched


class Screen:
    """``lastbeat exec`` as the leader of a session on a pseudo-terminal of its own."""

    def __init__(
        self,
        folder: Path,
        *command: str,
        output: Path | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self.text = b""
        self.keys, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
        # Before the command can have changed them.
        self.before = termios.tcgetattr(self.keys)
        streams: list[int] = [theirs] * 3
        if output is not None:
            streams[1] = os.open(output, os.O_WRONLY | os.O_CREAT)
        self.process = popen(
            exec_command(*command, options=options),
            cwd=folder,
            env=settings(folder),
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            start_new_session=True,
            controlling=True,
        )
        for descriptor in set(streams):
            os.close(descriptor)

    def until(self, wanted: bytes) -> bytes:
        """What the terminal was sent, once ``wanted`` is in it."""
        deadline = time.monotonic() + LIMIT_S
        while wanted not in self.text:
            assert time.monotonic() < deadline, self.text
            self._more()
        return self.text

    def status(self) -> int:
        """Its exit status, or minus its signal."""
        while self._more():
            pass
        return self.process.wait(LIMIT_S)

    def _more(self) -> bool:
        if not select.select([self.keys], [], [], LIMIT_S)[0]:
            raise AssertionError(f"nothing more comes after {self.text!r}")
        try:
            piece = os.read(self.keys, 65536)
        except OSError:
            return False
        self.text += piece
        return bool(piece)


@pytest.fixture
def screens() -> Iterator[list[Screen]]:
    opened: list[Screen] = []
    yield opened
    for screen in opened:
        os.close(screen.keys)


def test_a_terminal_stays_a_terminal(tmp_path: Path, screens: list[Screen]) -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && echo all; stty size; test -w /dev/tty && echo 'has one'; exit 4"
    screen = Screen(tmp_path, "sh", "-c", script)
    screens.append(screen)
    assert screen.status() == 4
    assert screen.text == b"all\r\n33 111\r\nhas one\r\n", "byte for byte what the terminal would have got"
    assert (left(tmp_path, "logs/training_log_latest.txt") or "").splitlines() == ["all", "33 111", "has one"]


def test_what_is_no_terminal_does_not_become_one(tmp_path: Path, screens: list[Screen]) -> None:
    script = 'for n in 0 1 2; do test -t $n && r="$r$n"; done; echo out; echo err >&2; echo $r > terminals'
    target = tmp_path / "redirected"
    screen = Screen(tmp_path, "sh", "-c", script, output=target)
    screens.append(screen)
    assert screen.status() == 0
    assert (tmp_path / "terminals").read_text() == "02\n"
    assert (target.read_bytes(), screen.text) == (b"out\n", b"err\r\n")


def test_keys_reach_the_command_and_the_terminal_is_given_back(tmp_path: Path, screens: list[Screen]) -> None:
    screen = Screen(tmp_path, "sh", "-c", "echo ready; read line; echo got $line")
    screens.append(screen)
    screen.until(b"ready\r\n")
    until(lambda: not termios.tcgetattr(screen.keys)[3] & termios.ICANON)
    os.write(screen.keys, b"hello\r")
    screen.until(b"got hello\r\n")
    until(lambda: termios.tcgetattr(screen.keys)[:4] == screen.before[:4])
    assert screen.status() == 0


def test_ctrl_c_reaches_the_command_once(tmp_path: Path, screens: list[Screen]) -> None:
    source = (
        "import os, time\n"
        "try: os.write(1, b'ready\\n'); time.sleep(1000)\n"
        "except KeyboardInterrupt: time.sleep(0.5); print('once', flush=True); raise"
    )
    screen = Screen(tmp_path, *python(source))
    screens.append(screen)
    screen.until(b"ready\r\n")
    until(lambda: not termios.tcgetattr(screen.keys)[3] & termios.ICANON)
    os.write(screen.keys, b"\x03")
    assert screen.status() == -signal.SIGINT
    assert b"once\r\n" in screen.text
    assert (left(tmp_path, "_error") or "").startswith("Cancelled: received signal 2 (SIGINT")
    assert watched(tmp_path)["cause"] == "cancelled"


def test_ctrl_c_is_not_undone_by_a_start_in_place(tmp_path: Path, screens: list[Screen]) -> None:
    """Whatever the command makes of it: torchrun ends with 1."""
    act = """
    try:
        print("ready", flush=True)
        time.sleep(1000)
    except KeyboardInterrupt:
        sys.exit(1)
    """
    screen = Screen(tmp_path, *by_start(act), options=("--max-restarts", "1", "--policy", "default"))
    screens.append(screen)
    screen.until(b"ready\r\n")
    until(lambda: not termios.tcgetattr(screen.keys)[3] & termios.ICANON)
    os.write(screen.keys, b"\x03")
    assert screen.status() == 1
    assert starts(tmp_path) == [0]
    assert (left(tmp_path, "_error") or "").startswith("Cancelled: received signal 2 (SIGINT")
    assert termios.tcgetattr(screen.keys)[:4] == screen.before[:4], "the terminal is as it was"


def test_a_new_size_reaches_the_command(tmp_path: Path, screens: list[Screen]) -> None:
    source = (
        "import os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\nprint('ready', flush=True)\n"
        "signal.sigwait([signal.SIGWINCH])\nprint(*os.get_terminal_size())"
    )
    screen = Screen(tmp_path, *python(source))
    screens.append(screen)
    screen.until(b"ready\r\n")
    fcntl.ioctl(screen.keys, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 99, 0, 0))
    assert screen.status() == 0
    assert b"99 40\r\n" in screen.text


def test_a_terminal_that_goes_away_hangs_the_command_up(tmp_path: Path) -> None:
    screen = Screen(tmp_path, "sh", "-c", "echo ready; exec sleep 1000")
    screen.until(b"ready\r\n")
    os.close(screen.keys)
    assert screen.process.wait(LIMIT_S) == -signal.SIGHUP
    assert "SIGHUP" in (left(tmp_path, "_error") or "")


def test_a_start_in_place_has_the_terminal_of_the_last_one(tmp_path: Path, screens: list[Screen]) -> None:
    command = by_start(
        """
        print("first", input(), flush=True)
        sys.exit("RuntimeError: NCCL error: unhandled system error")
        """,
        """
        print("again", os.get_terminal_size().columns, sys.stdin.isatty(), flush=True)
        print("typed", input(), flush=True)
        """,
    )
    screen = Screen(tmp_path, *command, options=("--max-restarts", "1"))
    screens.append(screen)
    os.write(screen.keys, b"one\n")
    screen.until(b"first one")
    screen.until(b"again 111 True")
    os.write(screen.keys, b"two\n")
    screen.until(b"typed two")
    assert screen.status() == 0
    assert starts(tmp_path) == [0, 1]
