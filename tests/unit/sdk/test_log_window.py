"""What of a log leaves the machine: whole lines, folded, masked, bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.training.sdk.log_shipping import LIMIT_BYTES, LogWindow

TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123"


def window_of(*pieces: str, limit: int = LIMIT_BYTES) -> LogWindow:
    window = LogWindow(limit)
    for piece in pieces:
        window.feed(piece)
    return window


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        pytest.param(["one\ntwo\n"], "one\ntwo\n", id="lines come as they are"),
        pytest.param(["on", "e\n\ntw", "o\n"], "one\n\ntwo\n", id="pieces are put together, blank lines kept"),
        pytest.param(["\r10%\r20%\r30%\ndone\n"], "30%\ndone\n", id="a progress bar is its last state"),
        pytest.param(["\r10%", "\r20%", "\r30%"], "20%", id="of one that still runs, the last state that is whole"),
        pytest.param(["one\r\ntwo\r", "\nthree\n"], "one\ntwo\nthree\n", id="Windows line ends, also torn ones"),
        pytest.param([f"login {TOKEN[:9]}", f"{TOKEN[9:]}\n"], "login ***\n", id="a secret in two pieces"),
        pytest.param([f"one\nlogin {TOKEN[:9]}"], "one\n", id="a line that may end in half a secret waits"),
        pytest.param(["x" * 100_000 + "\nend\n"], "x" * 8192 + "…\nend\n", id="a line without end is cut"),
        pytest.param(["\ud800\n"], "?\n", id="what no UTF-8 can carry"),
    ],
)
def test_what_is_shown(pieces: list[str], shown: str) -> None:
    assert window_of(*pieces).content().decode() == shown


def test_a_prompt_that_stays_is_shown_with_the_next_beat() -> None:
    window = window_of("Continue? [y/n] ")
    assert window.content() == b""
    assert window.content() == b"Continue? [y/n] "


def test_the_end_shows_everything() -> None:
    assert window_of("one\nlast words").content(ending=True) == b"one\nlast words"


def test_only_the_newest_whole_lines_are_kept() -> None:
    window = window_of("".join(f"line {n:05d}\n" for n in range(100)), limit=35)
    assert window.content() == b"line 00097\nline 00098\nline 00099\n"
    window.feed("\r50%\r")
    assert window.content() == b"line 00098\nline 00099\n50%"


def test_after_a_gap_the_torn_line_is_left_out() -> None:
    window = window_of(f"one\ntoken={TOKEN[:7]}")
    window.skip()
    window.feed(f"{TOKEN[7:]}\nnext\n")
    assert window.content() == b"one\nnext\n"


def test_after_a_gap_one_line_without_end_is_shown_all_the_same() -> None:
    window = LogWindow()
    window.skip()
    window.feed("x" * 20_000)
    assert window.content(ending=True).decode() == "x" * 8192 + "…"


def test_another_file_begins_a_line_of_its_own() -> None:
    window = window_of("the old file's last word")
    window.break_line()
    window.feed("new\n")
    assert window.content() == b"the old file's last word\nnew\n"


texts = st.text(st.sampled_from("ab\r\n é🔥"), max_size=60)


@given(st.lists(texts, max_size=12))
def test_where_the_pieces_end_does_not_matter(pieces: list[str]) -> None:
    assert window_of(*pieces).content(ending=True) == window_of("".join(pieces)).content(ending=True)


@given(st.lists(texts, max_size=30), st.integers(1, 40))
def test_no_window_is_ever_larger_than_its_bound(pieces: list[str], limit: int) -> None:
    window = LogWindow(limit)
    for piece in pieces:
        window.feed(piece)
        lines = window.content()
        assert len(lines) <= limit or b"\n" not in lines


@given(st.integers(0, 15), st.integers(16, len(TOKEN)), st.text(st.sampled_from("ab \n\r"), max_size=9))
def test_no_part_of_a_secret_is_shown_however_it_arrives(first: int, second: int, before: str) -> None:
    window = LogWindow()
    shown = []
    for piece in (f"{before} {TOKEN[:first]}", TOKEN[first:second], f"{TOKEN[second:]}\n"):
        window.feed(piece)
        shown.append(window.content())
    assert b"***" in shown[-1]
    assert all(TOKEN[:12].encode() not in each for each in shown)
