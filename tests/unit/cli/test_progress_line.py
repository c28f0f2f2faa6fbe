"""A line on a terminal that says how far slow work is, and leaves nothing behind."""

import io
from concurrent.futures import ThreadPoolExecutor

import pytest

from lastbeat_cli.terminal.progress_line import ProgressLine


class Screen(io.StringIO):
    """What was written to a stream that is a terminal, or is none."""

    def __init__(self, *, terminal: bool = True) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture(autouse=True)
def _able(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_long_work_says_how_far_it_is_and_the_line_is_gone_at_the_end() -> None:
    screen = Screen()
    with ProgressLine(screen, patience_s=0.0) as progress:
        progress.runs(0, 0)
        assert screen.getvalue() == ""
        progress.runs(3, 1200)
    assert screen.getvalue() == "\r\x1b[Klooked at 3 of 1,200 runs found so far\r\x1b[K"


QUIET = [
    pytest.param(Screen(), 3600.0, id="work that is done soon"),
    pytest.param(Screen(terminal=False), 0.0, id="a pipe"),
]


@pytest.mark.parametrize(("screen", "patience_s"), QUIET)
def test_nothing_is_written(screen: Screen, patience_s: float) -> None:
    with ProgressLine(screen, patience_s=patience_s) as progress:
        progress.runs(3, 1200)
    assert screen.getvalue() == ""


def test_what_is_told_after_the_end_is_not_shown() -> None:
    screen = Screen()
    with ProgressLine(screen, patience_s=0.0) as progress:
        pass
    progress.runs(3, 1200)
    assert screen.getvalue() == ""


def test_many_threads_write_one_line() -> None:
    screen = Screen()
    with ProgressLine(screen, patience_s=0.0) as progress, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda done: progress.runs(done, 10_000), range(10_000)))
    assert all(part.startswith("looked at ") for part in screen.getvalue().split("\r\x1b[K")[1:-1])
