"""``lastbeat exec`` on a terminal: the command has one, of the same size, with its keys."""

import shlex
import signal
import termios
from contextlib import AbstractContextManager
from pathlib import Path

from support.started_in_place import by_start, starts
from support.terminal import Terminal, terminal
from support.waiting import LIMIT_S, until
from support.wrapped import exec_command, left, of, python, watched


def on_terminal(
    folder: Path, *command: str, options: tuple[str, ...] = (), redirected: str = ""
) -> AbstractContextManager[Terminal]:
    """``exec`` of ``command`` as the leader of a session on a pseudo-terminal of its own."""
    line = exec_command(*command, options=options)
    if redirected:
        line = ["sh", "-c", f"exec {shlex.join(line)} {redirected}"]
    return terminal(line, cwd=folder, columns=111, lines=33, controlling=True, **of(folder))


def by_key(screen: Terminal) -> bool:
    """Whether the terminal hands over single keys."""
    return not screen.modes() & termios.ICANON


def test_a_terminal_stays_a_terminal(tmp_path: Path) -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && echo all; stty size; test -w /dev/tty && echo 'has one'; exit 4"
    with on_terminal(tmp_path, "sh", "-c", script) as screen:
        assert screen.wait_for_end() == 4
        assert screen.raw == b"all\r\n33 111\r\nhas one\r\n", "byte for byte what the terminal would have got"
    assert (left(tmp_path, "logs/training_log_latest.txt") or "").splitlines() == ["all", "33 111", "has one"]


def test_what_is_no_terminal_does_not_become_one(tmp_path: Path) -> None:
    script = 'for n in 0 1 2; do test -t $n && r="$r$n"; done; echo out; echo err >&2; echo $r > terminals'
    with on_terminal(tmp_path, "sh", "-c", script, redirected="> redirected") as screen:
        assert screen.wait_for_end() == 0
        assert (tmp_path / "terminals").read_text() == "02\n"
        assert ((tmp_path / "redirected").read_bytes(), screen.raw) == (b"out\n", b"err\r\n")


def test_keys_reach_the_command_and_the_terminal_is_given_back(tmp_path: Path) -> None:
    with on_terminal(tmp_path, "sh", "-c", "echo ready; read line; echo got $line") as screen:
        screen.wait_for(lambda shown: "ready" in shown)
        until(lambda: by_key(screen))
        screen.press("hello\r")
        screen.wait_for(lambda shown: "got hello" in shown)
        until(lambda: screen.as_before)
        assert screen.wait_for_end() == 0


def test_ctrl_c_reaches_the_command_once(tmp_path: Path) -> None:
    source = (
        "import os, time\n"
        "try: os.write(1, b'ready\\n'); time.sleep(1000)\n"
        "except KeyboardInterrupt: time.sleep(0.5); print('once', flush=True); raise"
    )
    with on_terminal(tmp_path, *python(source)) as screen:
        screen.wait_for(lambda shown: "ready" in shown)
        until(lambda: by_key(screen))
        screen.press("\x03")
        assert screen.wait_for_end() == -signal.SIGINT
        assert b"once\r\n" in screen.raw
    assert (left(tmp_path, "_error") or "").startswith("Cancelled: received signal 2 (SIGINT")
    assert watched(tmp_path)["cause"] == "cancelled"


def test_ctrl_c_is_not_undone_by_a_start_in_place(tmp_path: Path) -> None:
    """Whatever the command makes of it: torchrun ends with 1."""
    act = """
    try:
        print("ready", flush=True)
        time.sleep(1000)
    except KeyboardInterrupt:
        sys.exit(1)
    """
    again = ("--max-restarts", "1", "--policy", "default")
    with on_terminal(tmp_path, *by_start(act), options=again) as screen:
        screen.wait_for(lambda shown: "ready" in shown)
        until(lambda: by_key(screen))
        screen.press("\x03")
        assert screen.wait_for_end() == 1
        assert starts(tmp_path) == [0]
        assert (left(tmp_path, "_error") or "").startswith("Cancelled: received signal 2 (SIGINT")
        assert screen.as_before, "the terminal is as it was"


def test_a_new_size_reaches_the_command(tmp_path: Path) -> None:
    source = (
        "import os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\nprint('ready', flush=True)\n"
        "signal.sigwait([signal.SIGWINCH])\nprint(*os.get_terminal_size())"
    )
    with on_terminal(tmp_path, *python(source)) as screen:
        screen.wait_for(lambda shown: "ready" in shown)
        screen.resize(99, 40)
        assert screen.wait_for_end() == 0
        assert b"99 40\r\n" in screen.raw


def test_a_terminal_that_goes_away_hangs_the_command_up(tmp_path: Path) -> None:
    with on_terminal(tmp_path, "sh", "-c", "echo ready; exec sleep 1000") as screen:
        screen.wait_for(lambda shown: "ready" in shown)
        screen.close()
        assert screen.process.wait(LIMIT_S) == -signal.SIGHUP
    assert "SIGHUP" in (left(tmp_path, "_error") or "")


def test_a_start_in_place_has_the_terminal_of_the_last_one(tmp_path: Path) -> None:
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
    with on_terminal(tmp_path, *command, options=("--max-restarts", "1")) as screen:
        screen.press("one\n")
        screen.wait_for(lambda shown: "first one" in shown)
        screen.wait_for(lambda shown: "again 111 True" in shown)
        screen.press("two\n")
        screen.wait_for(lambda shown: "typed two" in shown)
        assert screen.wait_for_end() == 0
    assert starts(tmp_path) == [0, 1]
