"""Catalogue files of users: what they may say."""

from collections.abc import Mapping

import pytest

from lastbeat.explain.signals.loading import load
from lastbeat.model.signal import Catalogue, Signal
from support.catalogues import own, read


def signal(text: str) -> Signal:
    """The one signal ``s`` with these fields."""
    (found,) = own("signals:\n  s:\n" + "".join(f"    {line}\n" for line in text.splitlines())).signals
    return found


def names(catalogue: Catalogue) -> set[str]:
    return {each.name for each in catalogue.signals}


SIGNALS = [
    pytest.param(
        "pattern: 'quota of (?P<user>\\w+) is used up'\n"
        "error_type: storage\nsubsystem: nfs\nseverity: critical\nrole: root\nverdict: crash\nrestartable: false\n"
        "extract: {who: user}\nhint: 'Ask {who} on {host}.'",
        {
            "pattern": r"quota of (?P<user>\w+) is used up",
            "error_type": "storage",
            "subsystem": "nfs",
            "severity": "critical",
            "role": "root",
            "verdict": "crash",
            "restartable": False,
            "extract": {"who": "user"},
            "hint": "Ask {who} on {host}.",
            "source": "/own.yaml",
        },
        id="everything that a signal can say",
    ),
    pytest.param(
        "pattern: 'x+y'",
        {"pattern": "x+y", "substring": False, "severity": "error", "role": "root", "kind": None, "verdict": None},
        id="a pattern alone is a regular expression, and the rest is as usual",
    ),
    pytest.param("regex: 'x+y'", {"pattern": "x+y", "substring": False}, id="regex is another word for it"),
    pytest.param("substring: 'x+(y'", {"pattern": "x+(y", "substring": True}, id="plain text needs no backslash"),
    pytest.param("pattern: '(?P<step>\\d+) of (?P<total>\\d+)'", {"extract": {"step": "step", "total": "total"}},
                 id="named groups are fields of their names"),
    pytest.param("pattern: '(?P<step>\\d+) of (?P<total>\\d+)'\nextract: [step]", {"extract": {"step": "step"}},
                 id="only some of them, as a list"),
    pytest.param("pattern: 'Abc'\nignore_case: true", {"ignore_case": True, "literals": ("abc",)}, id="in any case"),
    pytest.param("pattern: 'saved'\nkind: checkpoint", {"kind": "checkpoint", "severity": "info"}, id="a healthy line"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SIGNALS)
def test_a_signal_says(text: str, expected: Mapping[str, object]) -> None:
    found = signal(text)
    assert {key: getattr(found, key) for key in expected} == expected


def test_the_short_forms() -> None:
    found = own("signals:\n  one: 'some text'\n").signals
    assert [(each.name, each.pattern) for each in found] == [("one", "some text")]
    found = own("signals:\n- {name: one, pattern: some text}\n- {name: two, substring: '('}\n").signals
    assert [each.name for each in found] == ["one", "two"]


def test_a_type_of_ones_own_and_a_change_of_a_built_in_one() -> None:
    catalogue = own(
        "error_types:\n  licence: {restartable: true, meaning: No seat., hint: lmstat -a}\n  oom: {hint: Ask Ann.}\n"
        "signals:\n  s: {pattern: no seat, error_type: licence}\n"
    )
    assert catalogue.error_types["licence"].hint == "lmstat -a"
    assert catalogue.error_types["oom"].hint == "Ask Ann."
    assert catalogue.error_types["oom"].restartable is False
    assert load("default").error_types["oom"].hint != "Ask Ann."


def test_without_extends_a_file_stands_on_the_default_or_on_what_is_named_before_it() -> None:
    files = {"/own.yaml": "signals: {s: some text}"}
    assert names(load("default")) < names(read(files))
    beneath = load("megatron_basic")
    found = read(files, "megatron_basic, /own.yaml")
    assert names(found) - names(beneath) == {"s"}


def test_paths_are_relative_to_the_file_that_names_them() -> None:
    files = {
        "/etc/own.yaml": "extends: [parts/a.yaml, lightning]",
        "/etc/parts/a.yaml": "extends: [b.yml, ../c.yaml]\nsignals: {a: text a}",
        "/etc/parts/b.yml": "extends: []\nsignals: {b: text b}",
        "/etc/parts/../c.yaml": "extends: []\nsignals: {c: text c}",
    }
    found = read(files, "/etc/own.yaml")
    assert [each.name for each in found.signals[:3]] == ["a", "b", "c"]
    assert "lightning_done" in {each.name for each in found.signals}


def test_where_several_match_the_more_specific_file_is_meant() -> None:
    found = [each.source for each in load("default").signals]
    assert found.index("huggingface") < found.index("python")
    mine = read({"/own.yaml": "signals: {s: some text}"}).signals
    assert mine[0].name == "s", "a user's own signals come before all others"


def test_a_signal_is_replaced_changed_or_silenced() -> None:
    files = {
        "/a.yaml": "extends: []\nsignals:\n  one: {pattern: first, severity: critical}\n  two: second\n  three: third",
        "/own.yaml": (
            "extends: [/a.yaml]\nsilence: [three]\nsignals:\n  one: {hint: Call Ann.}\n  two: {pattern: other}\n"
        ),
    }
    found = {each.name: each for each in read(files).signals}
    assert found.keys() == {"one", "two"}
    assert (found["one"].pattern, found["one"].severity, found["one"].hint) == ("first", "critical", "Call Ann.")
    assert (found["two"].pattern, found["two"].source) == ("other", "/own.yaml")


def test_limits_and_absence_rules() -> None:
    catalogue = own(
        "limits: {inactivity_s: 900, poll_s: 30.5}\n"
        "signals:\n  saved: {pattern: checkpoint saved, kind: checkpoint}\n"
        "absences:\n"
        "  no_checkpoint: {signal: saved, within_s: 1800, every_s: 600, hint: df -h}\n"
        "  no_life: {substring: 'still (', every_s: 60}\n"
    )
    assert (catalogue.inactivity_s, catalogue.poll_s, catalogue.inactivity_check_s) == (900, 30.5, None)
    first, second = catalogue.absences
    assert (first.signal, first.within_s, first.every_s, first.hint) == ("saved", 1800, 600, "df -h")
    assert (second.signal, second.within_s, second.every_s) == ("no_life", 60, 60)
    (waited_for,) = [each for each in catalogue.signals if each.name == "no_life"]
    assert (waited_for.pattern, waited_for.substring, waited_for.kind) == ("still (", True, "expected")


def test_an_absence_rule_goes_with_the_signal_that_is_silenced() -> None:
    files = {
        "/a.yaml": "extends: []\nabsences: {rule: {pattern: alive, every_s: 60}}",
        "/own.yaml": "extends: [/a.yaml]\nsilence: [rule]",
    }
    assert read(files).absences == ()


@pytest.mark.parametrize("text", ["", "# nothing\n", "null", "---\n", "signals:\n", "signals: {}", "extends:\n"])
def test_a_file_may_say_nothing(text: str) -> None:
    assert names(read({"/own.yaml": text})) <= names(load("default"))
