"""What every match must contain."""

import re
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.scanning import line_templates
from lastbeat.explain.scanning.literals import required
from lastbeat.explain.scanning.template_regex import template_regex
from lastbeat.explain.signals.loading import load
from lastbeat.model.signal import Signal
from support.row_by_row import check_each

PATTERNS = [
    "CUDA out of memory",
    r"nccl\b.{0,60}error",
    r"(?:cuda|hip)(?: error)?:? out of memory|OutOfMemoryError",
    r"^\s*(?:[a-z_][\w.]*\.)?[a-z_]\w*(?:error|exception)\b",
    r"(?i:foo)bar[xy]\d",
    r"(?i)xid \(.{1,9}\): \d+",
    r"exit ?(?:code|status)? ?:? ?(?:137|-9)\b",
    r"(?:ab){2,}c|(?:de){3}|f{2}",
    r"loss:?\s*(?:nan|inf)\b",
    r"[^x]{2}yes|no[\W_]+way",
    r"\[Errno \d{1,3}\] \w+ (?P<a>a|b)+ end$",
    r"(?:a|b|)(?:c|d)?ef",
    r"\d+|x",
    r"[A-Z]rror(?=:)(?!x)\b",
    r"\^C|\*{3} \d",
    "Grüße|naïve",
    r"(?:a(?:b(?:c{1,3})?){1,6})+z",
]


@pytest.mark.parametrize(
    ("pattern", "ignore_case", "expected"),
    [
        pytest.param("CUDA out of memory", False, {"CUDA out of memory"}, id="plain text is its own literal"),
        pytest.param("CUDA out of memory", True, {"cuda out of memory"}, id="in lower case where case does not count"),
        pytest.param(r"a\.cpp:\d+ failed badly", False, {" failed badly"}, id="the rarer of two stretches"),
        pytest.param(r"loss.{0,9} diverged", False, {" diverged"}, id="not what healthy training prints all the time"),
        pytest.param("Broken pipe|EPIPE", False, {"Broken pipe", "EPIPE"}, id="one of each alternative"),
        pytest.param(r"abc(?:def)?ghi", False, {"abcdefghi", "abcghi"}, id="with and without an option"),
        pytest.param(r"[Ee]rror 5", False, {"Error 5", "error 5"}, id="a choice of few characters is spelt out"),
        pytest.param(r"(?:fatal ){2}", False, {"fatal fatal "}, id="a fixed number of times"),
        pytest.param(r"\d+ .", False, set(), id="nothing is known of digits"),
        pytest.param(r"fatal|\d+", False, set(), id="nor of one alternative among others"),
        pytest.param(r"(?=fatal)\w+", False, set(), id="what is looked at is not taken"),
        pytest.param(r"(fatal)? \1\d", False, set(), id="nor is what may be there"),
    ],
)
def test_required_literals(pattern: str, ignore_case: bool, expected: set[str]) -> None:
    assert set(required(pattern, ignore_case=ignore_case)) == expected


def test_plain_text_is_no_pattern() -> None:
    assert required("a.b (c)", substring=True) == ("a.b (c)",)


@given(data=st.data(), pattern=st.sampled_from(PATTERNS), ignore_case=st.booleans())
def test_whatever_matches_contains_what_is_demanded(data: st.DataObject, pattern: str, ignore_case: bool) -> None:
    compiled = re.compile(pattern, re.ASCII | (re.IGNORECASE if ignore_case else 0))
    line = data.draw(st.from_regex(compiled).filter(lambda text: "\n" not in text))
    found = compiled.search(line)
    assert found is not None
    matched = found[0]
    literals = required(pattern, ignore_case=ignore_case)
    known = matched.lower() if ignore_case else matched
    # A look ahead sees what is behind the match, so the line is what must contain it.
    assert not literals or any(literal in known for literal in literals)
    one = line_templates.TemplateIndex([Signal("x", pattern, ignore_case=ignore_case)])
    assert one.letterless or one.possible(line_templates.template_of(line)) == (0,)
    assert (
        template_regex(pattern, ignore_case=ignore_case).pattern.search(line_templates.template_of(line).decode())
        is not None
    )


def test_each_built_in_signal_can_be_told_by_its_letters() -> None:
    built_in = [signal for signal in load("megatron_production").signals if not signal.substring]
    check_each(((signal.name, (signal,)) for signal in built_in), can_be_told_by_its_letters)


def can_be_told_by_its_letters(signal: Signal) -> None:
    one = line_templates.TemplateIndex([signal])
    assert not one.letterless, "each alternative of a pattern needs two letters in a row, or ^ and one"
    template_regex(signal.pattern, ignore_case=signal.ignore_case)


@given(text=st.text(max_size=60))
def test_a_template_is_made_of_characters_one_by_one(text: str) -> None:
    letters = "".join(map(partial(line_templates.fold, ignore_case=False), text))
    assert line_templates.template_of(text) == letters.encode()
