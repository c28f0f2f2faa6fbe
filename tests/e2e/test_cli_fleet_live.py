"""``lastbeat fleet`` and ``lastbeat top`` live, on a real pseudo-terminal."""

import os
import signal
import termios
from pathlib import Path

import pytest

from support.cli import LASTBEAT, RunFolder, call
from support.terminal import Terminal, terminal

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a fleet lies that nobody changes."""
    return with_fleet(tmp_path_factory.mktemp("place"))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Where a fleet lies that may be changed."""
    return with_fleet(tmp_path)


def with_fleet(at: Path) -> Path:
    """Forty runs that live, and one that failed."""
    root = at / "training-runs"
    for number in range(40):
        run = RunFolder(root, f"lives-{number:02}")
        run.metadata()
        run.progress(recent=[[1700000000 + n, n, 3 - n / 10] for n in range(20)])
    failed = RunFolder(root, "fails-1")
    failed.metadata(phase="\x1b]0;owned\x07 evil")
    failed.put("_error", "RuntimeError: CUDA out of memory\n")
    assert call(LASTBEAT, "sweep", "--once", cwd=at).returncode == 2
    return at


def ready(screen: Terminal) -> None:
    screen.wait_for(lambda shown: "41 " in shown.replace("of 41", "41 ") and "fails-1" in shown)


def given_back(screen: Terminal) -> bool:
    """Whether the terminal is as it was: its screen, its cursor, its lines that wrap, its keys."""
    left = screen.raw.rfind(LEAVE)
    cursor = screen.raw.rfind(b"\x1b[?25h") > screen.raw.rfind(b"\x1b[?25l")
    wraps = screen.raw.rfind(b"\x1b[?7h") > screen.raw.rfind(b"\x1b[?7l")
    return left > screen.raw.rfind(ENTER) and cursor and wraps and screen.as_before


def test_it_shows_scrolls_filters_and_opens_a_run(place: Path) -> None:
    with terminal(LASTBEAT, "fleet", "--interval", "1", cwd=place, controlling=True) as screen:
        ready(screen)
        assert b"owned" not in screen.raw, "training text does not get at the terminal's title"
        screen.press("G")
        screen.wait_for(lambda shown: "-41 of 41" in shown)
        screen.press("/fails")
        screen.wait_for(lambda shown: "/fails_" in shown)
        screen.press("\r\r")
        screen.wait_for(lambda shown: "Run fails-1: FAILED" in shown and "q back" in shown)
        screen.press("t")
        screen.wait_for(lambda shown: "t all about it" in shown)
        screen.press("q")
        screen.wait_for(lambda shown: shown.rfind("/ filter") < shown.rfind("/fails"))
        screen.press("\x1b")
        screen.press("?")
        screen.wait_for(lambda shown: "this help" in shown)
        screen.press("xq")
        assert screen.wait_for_end() == 0
        assert given_back(screen)


def test_it_acts_on_a_run_shows_its_log_and_compares(own: Path) -> None:
    (own / "training-runs" / "fails-1" / "logs").mkdir()
    (own / "training-runs" / "fails-1" / "logs" / "train.log").write_text("step 1\nthe last line\n")
    with terminal(LASTBEAT, "fleet", "--interval", "1", cwd=own, controlling=True) as screen:
        ready(screen)
        screen.press("l")
        screen.wait_for(lambda shown: "the last line" in shown and "l all about it" in shown)
        screen.press("q")
        screen.press("c")
        screen.wait_for(lambda shown: "tick runs with Space" in shown)
        screen.press(" c")
        screen.wait_for(lambda shown: "loss curve" in shown and "fails-1" in shown and "q back" in shown)
        screen.press("q\x1bg")
        screen.press("amine\r")
        screen.wait_for(lambda shown: "acknowledged: fails-1" in shown)
        screen.wait_for(lambda shown: "acknowledged by" in shown)
        screen.press("g")
        screen.press("s\x152h\r")
        screen.wait_for(lambda shown: "silenced for 2h" in shown)
        screen.press("Srun\rCrun,status\r")
        screen.wait_for(lambda shown: "RUN      STATUS" in shown)
        screen.press("q")
        assert screen.wait_for_end() == 0
    assert '"note": "mine"' in (own / "training-runs" / "fails-1" / "_watchdog.json").read_text()
    assert '"fails-1"' in (own / "training-runs" / "_watchdog" / "silences.json").read_text()


def test_keys_that_come_at_once_are_for_what_is_shown_by_then(place: Path) -> None:
    with terminal(LASTBEAT, "fleet", cwd=place, controlling=True) as screen:
        ready(screen)
        screen.press("\rtq?")
        screen.wait_for(lambda shown: "this help" in shown)
        screen.press("xq")
        assert screen.wait_for_end() == 0


ENDS = [
    pytest.param(["fleet"], signal.SIGINT, id="Ctrl-C"),
    pytest.param(["top", "lives-00"], signal.SIGTERM, id="SIGTERM"),
    pytest.param(["fleet"], signal.SIGHUP, id="a terminal that was closed"),
    pytest.param(["top", "lives-00"], signal.SIGQUIT, id="Ctrl-backslash"),
]


@pytest.mark.parametrize(("command", "number"), ENDS)
def test_however_it_ends_the_terminal_is_as_it_was(place: Path, command: list[str], number: signal.Signals) -> None:
    with terminal(LASTBEAT, *command, cwd=place, controlling=True) as screen:
        screen.wait_for(lambda shown: "of 41" in shown or "Step 25/100" in shown)
        assert not screen.modes() & termios.ECHO
        os.kill(screen.process.pid, number)
        assert screen.wait_for_end() == 0
        assert given_back(screen)


def test_ctrl_z_gives_the_shell_its_terminal_and_fg_comes_back(place: Path) -> None:
    shell = ["bash", "--norc", "-i"]
    with terminal(shell, cwd=place, controlling=True, LC_ALL="C.UTF-8") as screen:
        screen.press(f"{' '.join(LASTBEAT)} fleet --interval 1\r")
        ready(screen)
        screen.press("\x1a")
        screen.wait_for(lambda shown: "Stopped" in shown)
        screen.press("stty -a | grep -q ' echo ' && echo echo''es; stty -a | grep -q ' icanon' && echo line''wise\r")
        screen.wait_for(lambda shown: "echoes" in shown and "linewise" in shown)
        assert screen.raw.rfind(LEAVE) > screen.raw.rfind(ENTER)
        screen.press("fg\r")
        stopped = screen.raw.count(ENTER)
        screen.wait_for(lambda shown: screen.raw.count(ENTER) > stopped and shown.rstrip().endswith("/ filter"))
        screen.press("q")
        screen.wait_for(lambda shown: screen.raw.rfind(LEAVE) > screen.raw.rfind(ENTER))
        screen.press("exit\r")
        assert screen.wait_for_end() == 0


def test_another_size_is_drawn_anew(place: Path) -> None:
    with terminal(LASTBEAT, "fleet", cwd=place, controlling=True) as screen:
        ready(screen)
        assert b"\x1b[50;1H" not in screen.raw
        screen.resize(200, 50)
        screen.wait_for(lambda shown: b"\x1b[50;1H" in screen.raw)
        screen.resize(20, 3)
        screen.press("j")
        screen.resize(80, 24)
        screen.press("q")
        assert screen.wait_for_end() == 0


@pytest.mark.parametrize(
    ("arguments", "kind", "code"), [(["fleet"], "dumb", 0), (["top", "fails-1", "--once"], "xterm", 2)]
)
def test_a_terminal_that_can_do_nothing_or_is_asked_for_once_keeps_its_screen(
    place: Path, arguments: list[str], kind: str, code: int
) -> None:
    with terminal(LASTBEAT, *arguments, cwd=place, TERM=kind) as screen:
        assert screen.wait_for_end() == code
        assert ENTER not in screen.raw
        assert "fails-1" in screen.shown


POINTS = [[1700000000 + n, n * 10, 3 - n / 40, 3e-4] for n in range(100)]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "training-runs", "mistral-1")
    run.metadata(phase="train \x1b]0;owned\x07")
    run.progress(step=990, total_steps=2000, learning_rate=3e-4, recent=POINTS)
    return run


def test_top_shows_a_pipe_one_picture(tmp_path: Path, run: RunFolder) -> None:
    done = call(LASTBEAT, "top", "mistral-1", cwd=tmp_path, COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mistral-1  ● RUNNING\n")
    for text in ("Loss 0.525 (least 0.525, most 3)", "step 990", "Step 990/2,000", "49%", "learning rate 0.0003"):
        assert text in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_top_on_a_terminal_goes_on(tmp_path: Path, run: RunFolder) -> None:
    with terminal(LASTBEAT, "top", "mistral-1", "--interval", "1", cwd=tmp_path, controlling=True) as screen:
        screen.wait_for(lambda shown: "Step 990/2,000" in shown and "┤" in shown)
        assert b"owned" not in screen.raw
        run.progress(step=1500, total_steps=2000, recent=POINTS)
        screen.wait_for(lambda shown: "Step 1,500/2,000" in shown)
        screen.press("t")
        screen.wait_for(lambda shown: "Run mistral-1: RUNNING" in shown)
        run.put("_error", "RuntimeError: boom\n")
        screen.wait_for(lambda shown: "Run mistral-1: FAILED" in shown)
        screen.press("q")
        assert screen.wait_for_end() == 2
