"""Patterns that could take for ever."""

import re

import pytest

from lastbeat.explain.scanning.backtracking import fault
from lastbeat.explain.scanning.matching import MATCH_LIMIT


@pytest.mark.parametrize(
    ("pattern", "because"),
    [
        pytest.param(r"(a+)+b", "exponential", id="a repeat in a repeat"),
        pytest.param(r"((a*)*)*b", "exponential", id="and another one round it"),
        pytest.param(r"(x+x+)+y", "exponential", id="two repeats of one thing in a repeat"),
        pytest.param(r"(?:a|b|ab)+c", "exponential", id="an alternative that is made of two others"),
        pytest.param(r"(?:\w+\s?)*$", "exponential", id="words with a space that may be missing"),
        pytest.param(r"(?:\s*\w+\s*)+x", "exponential", id="space on both sides"),
        pytest.param(r"(?:.*,)*x", "exponential", id="anything, and a comma"),
        pytest.param(r"(?:a?b?)*c", "exponential", id="options alone"),
        pytest.param(r"(?:a{1,50}){1,50}b", "exponential", id="many times many is no bound"),
        pytest.param(r"(?:(?:ab|a)b?){9,}c", "exponential", id="a letter that either part can take"),
        pytest.param(r"a.*b.*c", "steps on one line", id="three things that are anywhere"),
        pytest.param(r"error.*.*.*x", "steps on one line", id="a gap, a gap and a gap"),
        pytest.param(r"\s*\s*\s*\s*x", "steps on one line", id="space again and again"),
        pytest.param(r"(\w)\1", "refers back", id="a reference back"),
        pytest.param(r"(?=.*foo)bar", "without a limit", id="looking ahead to the end of the line"),
        pytest.param(r"x(?!\w+:)", "without a limit", id="and for what is not there"),
    ],
)
def test_refused(pattern: str, because: str) -> None:
    assert because in (fault(pattern) or "")


ACCEPTED = [
    pytest.param(r"\[Rank (\d+)\].*Watchdog.*timeout", "[Rank 1]Watchdog", id="two gaps between long words"),
    pytest.param(
        r"iteration\s+(\d+)/\s*(\d+) \|.*lm loss: ([\d.E+-]+).*grad norm: ([\d.]+)x",
        "iteration 1/1 |lm loss: 1grad norm: 1",
        id="a line of Megatron with three values",
    ),
    pytest.param(r"foo.{0,80}bar.{0,80}baz", "foobar", id="short gaps"),
    pytest.param(r"(?:\d+\.)+x", "1.", id="numbers with dots"),
    pytest.param(r"(?:[a-z]+, )*end", "a, ", id="words with commas"),
    pytest.param(r"(?:ab|cd)*e", "abcd", id="alternatives that begin in different ways"),
    pytest.param(r"([^|]*\|){5,}x", "|", id="a table's columns"),
    pytest.param(r"(?:\d{1,3}\.){3}\d{1,3}x", "1.", id="an address"),
    pytest.param(r"^\s*(?:[a-z_][\w.]*\.)?[a-z_]\w*(?:error|exception)\bx", "aerror.", id="a class with its package"),
    pytest.param(r"(?!INFO)\w+Error:x", "aError", id="looking ahead a little"),
    pytest.param(r"(?<!\w)\w{1,40}x:", "x", id="looking behind"),
    pytest.param(r"\s+$", " ", id="space at the end"),
    pytest.param(r"(?:a{2}){3,20}b", "a", id="pairs"),
]


@pytest.mark.parametrize(("pattern", "unit"), ACCEPTED)
def test_accepted_and_done_with_a_line_made_to_hurt(pattern: str, unit: str) -> None:
    assert fault(pattern) is None
    compiled = re.compile(pattern, re.ASCII)
    for line in (unit * MATCH_LIMIT, " " * MATCH_LIMIT, "a" * MATCH_LIMIT, unit + "1" * MATCH_LIMIT):
        compiled.search(line[:MATCH_LIMIT])


def test_case_makes_alternatives_the_same() -> None:
    assert fault(r"(?:ab|AB)*c") is None
    assert fault(r"(?:ab|AB)*c", ignore_case=True) is not None
