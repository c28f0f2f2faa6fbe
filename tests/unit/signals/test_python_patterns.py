"""Regular expressions of scripts, made into patterns of a catalogue."""

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.signals.python_patterns import WHOLE, translate_pattern, unfit

CASES = [
    pytest.param("x+y", {}, {"pattern": "x+y"}, id="what needs nothing stays as it is"),
    pytest.param(r"iteration +([0-9]+)/ *(\d+)", {"total": 2},
                 {"pattern": r"iteration +([0-9]+)/ *(?P<total>\d+)", "extract": {"total": "total"}},
                 id="a group that is asked for by its number gets a name"),
    pytest.param(
        r"(?:a|b)\((c[)(]d)(?P<known>e)(f)",
        {"third": 3, "second": "known", "again": 2},
        {
            "pattern": r"(?:a|b)\((c[)(]d)(?P<known>e)(?P<third>f)",
            "extract": {"third": "third", "second": "known", "again": "known"},
        },
        id="parentheses that open no group do not count, and a name is not given twice",
    ),
    pytest.param("nan|inf", {"line": WHOLE}, {"pattern": "(?P<line>nan|inf)", "extract": {"line": "line"}},
                 id="all of it"),
    pytest.param("(a)b", {"0": 0}, {"pattern": "(?P<group_0>(a)b)", "extract": {"0": "group_0"}}, id="group 0 is all"),
    pytest.param("(?im)^error", {}, {"pattern": "^error", "ignore_case": True}, id="flags have keys of their own"),
    pytest.param("NCCL ERROR.*?(?P<code>[\\w]+).*?(?P<message>.+)", {"m": "message"},
                 {"pattern": "NCCL ERROR.*?(?P<code>[\\w]+)(?P<message>.+)", "extract": {"m": "message"}},
                 id="a repeat of anything before a last group of anything is not needed"),
    pytest.param(r"a\.*(?P<x>.+)", {}, {"pattern": r"a\.*(?P<x>.+)"}, id="but a repeat of dots is"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "groups", "fields"), CASES)
def test_a_pattern_becomes(pattern: str, groups: Mapping[str, object], fields: Mapping[str, object]) -> None:
    made = translate_pattern(pattern, groups)
    assert (made.fields, made.missing, made.fault) == (fields, (), None)


def test_groups_that_are_not_there_are_told() -> None:
    made = translate_pattern("(a)(?P<b>c)", {"x": 3, "y": "nope", "z": True, "u": -1, "v": None, "w": "b"})
    assert made.missing == (3, "nope", True, -1, None)
    assert made.fields["extract"] == {"w": "b"}


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("(a", "does not compile"), ("(a+)+$", "more than one way"), ("a*", "empty line"), (".*a.*b.*c.*d", "steps")],
)
def test_what_cannot_be_used_is_told(pattern: str, said: str) -> None:
    assert said in (translate_pattern(pattern, {}).fault or "")


@pytest.mark.parametrize(
    ("pattern", "substring", "said"),
    [
        (" ", True, "no pattern"),
        ("${x}", False, "filled in"),
        ("a\\nb", False, "spans lines"),
        ("a\nb", True, "spans lines"),
        ("\0", True, "NUL"),
        ("a" * 4001, True, "4,000"),
    ],
)
def test_what_no_line_can_hold_is_unfit(pattern: str, substring: bool, said: str) -> None:
    assert said in (unfit(pattern, substring=substring) or "")


def test_a_backslash_before_an_n_is_no_newline() -> None:
    assert unfit("C:\\\\new", substring=False) is None
    assert unfit("a\\nb", substring=True) is None


ATOMS = st.sampled_from(["a", "b", " ", r"\(", "[(a)]", "[^b]", r"\d", "(a)", "(?:b|a)", "(?P<n>ab)", r"\[", "a|b"])
PATTERNS = st.lists(ATOMS, min_size=1, max_size=5).map("".join).filter(lambda text: text.count("?P<n>") < 2)
TAILS = st.sampled_from(["", ".*(?P<t>.+)", ".*?(?P<t>.{0,200})", ".*(?P<t>.{2,3})", ".*?(?P<t>.*)", "x.*(?P<t>.+?)"])
LINES = st.text("ab (x[])1", max_size=12)


@given(PATTERNS, TAILS, st.lists(LINES, max_size=8))
def test_the_same_lines_match_and_groups_keep_what_they_hold(pattern: str, tail: str, lines: list[str]) -> None:
    written = re.compile(pattern + tail, re.MULTILINE)
    groups = {f"f{number}": number for number in range(written.groups + 1)}
    made = translate_pattern(pattern + tail, groups)
    if made.fault is not None:
        return
    taken = re.compile(made.fields["pattern"], re.ASCII)
    assert taken.groups == written.groups + 1
    for line in lines:
        before, after = written.search(line), taken.search(line)
        assert (before is None) == (after is None)
        if before is not None and after is not None and not tail:
            assert [after[made.fields["extract"][f"f{number}"]] for number in groups.values()] == [
                before[number] for number in groups.values()
            ]
