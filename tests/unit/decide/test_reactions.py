"""Values in notes and commands: each within one argument, whatever training wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.watch.decide.reactions import arguments, filled

VALUES = {"step": "1500", "reason": "{run_id}; rm -rf / $(x)", "run_id": "llama", "signal": "--delete"}
COMMANDS = [
    ("values within arguments", ("eval", "--step={step}", "{run_id}"), ("eval", "--step=1500", "llama")),
    ("a value that looks like several arguments is one", ("tell", "{reason}"), ("tell", "{run_id}; rm -rf / $(x)")),
    ("what is not known becomes nothing", ("eval", "{checkpoint}", "x{job_id}y"), ("eval", "", "xy")),
    ("a value is no option", ("eval", "{signal}"), ("eval", " --delete")),
    ("an option that its author wrote stays one", ("eval", "-{signal}"), ("eval", "---delete")),
    ("braces that name nothing stay", ("eval", "{}", "{a b}"), ("eval", "{}", "{a b}")),
]


@pytest.mark.parametrize(("command", "expected"), [row[1:] for row in COMMANDS], ids=[row[0] for row in COMMANDS])
def test_the_arguments_of_a_command(command: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert arguments(command, VALUES) == expected


@given(st.lists(st.text(max_size=20), max_size=6), st.dictionaries(st.sampled_from(["step", "reason"]), st.text()))
def test_values_add_and_take_no_argument_and_begin_no_option(command: list[str], values: dict[str, str]) -> None:
    found = arguments(command, values)
    assert len(found) == len(command)
    for template, argument in zip(command, found, strict=True):
        assert not argument.startswith("-") or template.startswith("-")


@given(st.text(), st.text())
def test_what_stands_in_a_value_is_never_filled(one: str, other: str) -> None:
    values = {"reason": one, "step": other}
    assert filled("{reason}|{step}", values) == f"{one}|{other}"
