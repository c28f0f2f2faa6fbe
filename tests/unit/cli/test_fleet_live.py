"""What a terminal shows between two things to print."""

import io
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from rich.console import Console

from lastbeat_cli.sweep.live import Pause, Spinner
from support.cli import LIMIT_S, without_ansi


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


def console(screen: io.StringIO) -> Console:
    return Console(file=screen, force_terminal=True, width=100, _environ={"TERM": "xterm"})


def test_a_short_pass_shows_nothing(screen: io.StringIO) -> None:
    with Spinner(console(screen), patience_s=3600.0) as spinner:
        spinner(1, 10)
    assert screen.getvalue() == ""


def test_a_long_one_shows_how_far_it_is_and_leaves_nothing(screen: io.StringIO) -> None:
    with Spinner(console(screen), patience_s=0.0) as spinner:
        assert settled(lambda: "looking for runs" in without_ansi(screen.getvalue()))
        spinner(0, 0)
        spinner(3, 4)
        spinner(6, 12)
        spinner._progress.refresh()
    shown = without_ansi(screen.getvalue())
    # More runs are found while the first are looked at: a count may grow, a bar would go back.
    assert "looked at 6 of 12 runs found so far" in shown
    assert not set(shown) & set("━╸╺%")
    assert screen.getvalue().rfind("\x1b[?25h") > screen.getvalue().rfind("\x1b[?25l"), "the cursor is back"


def test_it_is_told_from_any_thread_and_after_the_end(screen: io.StringIO) -> None:
    with Spinner(console(screen), patience_s=0.0) as spinner, ThreadPoolExecutor(8) as pool:
        assert settled(lambda: "looking for runs" in without_ansi(screen.getvalue()))
        list(pool.map(lambda done: spinner(done, 200), range(200)))
    before = screen.getvalue()
    spinner(200, 200)
    assert screen.getvalue() == before


def test_a_pause_counts_down(screen: io.StringIO) -> None:
    with Pause(time.monotonic() + 3599.0, console(screen)):
        pass
    assert "next pass in 59m 5" in without_ansi(screen.getvalue())
    with Pause(time.monotonic() - 5.0, console(screen)) as late:
        assert late is not None
    assert "next pass in 0s" in without_ansi(screen.getvalue())


def settled(is_so: Callable[[], bool]) -> bool:
    until = time.monotonic() + LIMIT_S
    while not is_so() and time.monotonic() < until:
        time.sleep(0.01)
    return is_so()
