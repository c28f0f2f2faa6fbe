"""Hostile text is made harmless, cut without harm, and its newest lines are kept."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.text import CUT, clean, counted, fit, newest, one_line
from support.messages import hostile_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("\x1b[1;31mError\x1b[0m", "Error", id="a colour leaves nothing behind"),
        pytest.param("\x9b31mError", "Error", id="nor does one that begins with the C1 control"),
        pytest.param("a\x1b]0;window title\x07b", "ab", id="a window title is no text"),
        pytest.param("a\x1b]0;open\nb", "a0;open\nb", id="an unfinished sequence does not swallow the next line"),
        pytest.param(" 10%|#\r 50%|##\r100%|###", "100%|###", id="a progress bar shows its last state"),
        pytest.param("done\r", "done", id="a carriage return at the end erases nothing"),
        pytest.param("a\r\nb\r\r\nc", "a\nb\nc", id="Windows newlines are newlines"),
        pytest.param("a\u2028b\u2029c\x85d", "a\nb\nc\nd", id="so are Unicode's"),
        pytest.param("a\tb", "a   b", id="a tab is spaces"),
        pytest.param("x\x00y\x7f", "x\ufffdy\ufffd", id="control characters are seen to have been there"),
        pytest.param("user\u202egnp.exe", "user\ufffdgnp.exe", id="an override does not turn text round"),
        pytest.param("\ud800", "\ufffd", id="half a surrogate pair can be encoded"),
        pytest.param("損失 🔥 👩‍👩‍👧 é", "損失 🔥 👩‍👩‍👧 é", id="other scripts and emoji stay as they are"),
    ],
)
def test_clean(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(st.one_of(hostile_text, st.text()))
def test_clean_text_is_printable_and_clean(text: str) -> None:
    cleaned = clean(text)
    assert all(char == "\n" or unicodedata.category(char) not in {"Cc", "Cs"} for char in cleaned)
    assert clean(cleaned) == cleaned
    cleaned.encode()
    assert "\n" not in one_line(text)


@given(hostile_text, st.integers(min_value=0, max_value=40))
def test_what_fits_is_whole_and_what_does_not_is_marked(text: str, limit: int) -> None:
    def double(char: str) -> int:
        return 2 if char == "&" else 1

    cut = fit(text, limit, double)
    assert sum(map(double, cut)) <= limit
    whole = sum(map(double, text)) <= limit
    assert cut == text if whole else (cut.endswith(CUT) or limit == 0)


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        pytest.param(("a", "b"), ["a", "b"], id="few lines are all shown, oldest first"),
        pytest.param(tuple("abcdefghijkl"), [CUT, "i", "j", "k", "l"], id="the newest are kept, with a mark"),
        pytest.param(("", "a", "", "b", "", ""), ["a", "", "b"], id="blank lines go from the ends alone"),
        pytest.param(("a\nb\n", "c"), ["a", "b", "c"], id="an entry may hold several lines"),
        pytest.param(("x" * 100_000,), ["xxxx…"], id="one endless line is cut, not dropped"),
        pytest.param(("", "\n"), [], id="nothing but blank lines is nothing"),
    ],
)
def test_newest_lines(lines: tuple[str, ...], shown: list[str]) -> None:
    assert newest(lines, limit=10, line_limit=5) == shown


@given(st.lists(hostile_text, max_size=30).map(tuple), st.integers(min_value=10, max_value=200))
def test_newest_lines_stay_within_their_room(lines: tuple[str, ...], limit: int) -> None:
    shown = newest(lines, limit, line_limit=50)
    assert len("\n".join(shown)) <= limit
    assert all(len(line) <= 50 for line in shown)


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ("step",), "0 steps"),
        (1, ("step",), "1 step"),
        (1200, ("step",), "1,200 steps"),
        (1, ("alert waits", "alerts wait"), "1 alert waits"),
        (2, ("alert waits", "alerts wait"), "2 alerts wait"),
    ],
)
def test_what_is_counted_is_singular_for_one_alone(number: int, words: tuple[str, ...], said: str) -> None:
    assert counted(number, *words) == said
