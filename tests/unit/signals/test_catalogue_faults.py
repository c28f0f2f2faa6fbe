"""Catalogue files that cannot be used: what is said of them, and how long that takes."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.signals.catalogue_files import AbsenceEntry, CatalogueFile, SignalEntry
from lastbeat.explain.signals.loading import CatalogueError, load_setting
from support.catalogues import own, read
from support.row_by_row import check_each

KEYS = [key for model in (CatalogueFile, SignalEntry, AbsenceEntry) for key in model.model_fields]
FAULTS = [
    ("signals:\n  s:\n    pattern: '(abc'", 4, ("does not compile", "backslash|needs a \\")),
    ("signals:\n  s:\n    pattern: '(a+)+$'", 4, ("more than one way",)),
    ("signals:\n  s:\n    pattern: 'a*'", 4, ("matches the empty line",)),
    ("signals:\n  s:\n    pattern: '(\\w+) \\1'", 4, ("refers back",)),
    ("signals:\n  s:\n    pattern: '[[a]'", 4, ("does not compile", "nested set")),
    ("signals:\n  s: {pattern: x, sevrity: error}", 3, ("unknown key 'sevrity'", "did you mean 'severity'?")),
    ("signals:\n  s: {pattern: x, severity: fatal}", 3, ("severity: 'fatal' is none of critical, error, warning",)),
    (
        "signals:\n  s: {pattern: x, error_type: ooom}",
        3,
        ("no error type 'ooom'", "did you mean 'oom'?", "error_types"),
    ),
    ("signals:\n  s:\n    pattern: '(?P<a>x)'\n    extract: {size: b}", 5, ("group 'b'", "lacks", "it has a")),
    ("signals:\n  s: {pattern: x, extract: {size: b}}", 3, ("it has no named group",)),
    ("signals:\n  s: {pattern: x, hint: 'free {size}'}", 3, ("{size}", "extract gives no 'size'")),
    ("signals:\n  s: {hint: 'no pattern'}", 3, ("has no pattern", "no extended file has a signal of that name")),
    ("signals:\n  s: {extract: [a]}", 3, ("extract: belongs to a pattern",)),
    ("signals:\n  s: {pattern: x, substring: y}", 3, ("pattern and substring", "one pattern")),
    ("signals:\n  s: 3", 3, ("is a number", "has to be text")),
    ("signals:\n  s: {pattern: x, restartable: maybe}", 3, ("restartable is text", "true or false")),
    ("signals:\n  s: x\n  s: y", 4, ("'s' stands twice (line 3)",)),
    ("signals:\n  'a b': x", 3, ("'a b' is no name",)),
    ("signals:\n- pattern: x", 3, ("without a name",)),
    ("absences:\n  a: {signal: nope, every_s: 9}", 3, ("signal 'nope', which is not there",)),
    ("absences:\n  a: {pattern: x}", 3, ("says no time",)),
    ("absences:\n  a: {every_s: 5}", 3, ("either a signal or a pattern",)),
    ("absences:\n  a: {pattern: x, every_s: -5}", 3, ("seconds above 0",)),
    ("limits: {inactivity_s: 15m}", 2, ("inactivity_s has to be a number of seconds",)),
    ("silence: [cuda_om]", 2, ("'cuda_om', which no extended file has",)),
    ("signals:\n  s: !!python/object/apply:os.system ['true']", 3, ("tagged", "not taken")),
    ("signals:\n  s: &x {pattern: y}\n  t: *x", 4, ("aliases (*x)", "write it out")),
    ("signals: [[[[[[[[[[[[1]]]]]]]]]]]]", 2, ("nested more than",)),
    ("signals:\n\ts: x", 3, ("not YAML",)),
    ('signals:\n  s: {pattern: "a\\d"}', 3, ("not YAML", "a backslash has to be doubled")),
    ("description: a: b", 2, ("not YAML", "mapping values")),
    ("? [1, 2]\n: x", 2, ("a key has to be a name",)),
    ("signals:\n  s: {<<: {pattern: x}}", 3, ("<<", "write it out")),
    ("signals:\n  ~: x", 3, ("'~' is no name",)),
    ("signals:\n  s:\n    pattern: x\n    hint: 2025-01-01", 5, ("hint is a time", "quoted")),
    ("signals:\n  s: {pattern: x, severity: off}", 3, ("severity is true or false", "one of critical, error")),
    ('signals:\n  s: {pattern: x, hint: "a\\0b"}', 3, ("holds a NUL",)),
    ("signals:\n  s: {pattern: x, regex: y}", 3, ("regex and pattern both stand here",)),
    ("signals:\n  s: {substring: true}", 3, ("substring: true, but no pattern",)),
    ("signals:\n  s: {ignore_case: true}", 3, ("ignore_case belongs to a pattern",)),
    ("signals:\n  s: {pattern: x, extract: 3}", 3, ("'field: group' lines",)),
    ("absences:\n  a:", 3, ("absences.a is empty", "'key: value' lines")),
    ("limits: {inactivity_s: 0x10}", 2, ("number of seconds",)),
    ("limits: {poll: 3}", 2, ("unknown key 'poll' (did you mean 'poll_s'?)",)),
    ("silence: 3", 2, ("silence is a number", "a list")),
]


def test_each_fault_is_told_with_its_line_and_what_to_do() -> None:
    check_each(((repr(fault[0]), fault) for fault in FAULTS), is_told_with_its_line)


def is_told_with_its_line(text: str, line: int, said: Sequence[str]) -> None:
    with pytest.raises(CatalogueError) as caught:
        own(text)
    told = str(caught.value)
    assert told.startswith("/own.yaml:")
    assert line in {fault.line for fault in caught.value.faults}, told
    for words in said:
        assert any(word in told for word in words.split("|")), told


def test_what_is_wrong_in_itself_hides_nothing_else() -> None:
    """Faults at every depth: of keys, of values, of patterns, and of what a file says of others."""
    text = """\
extends: [/other.yaml, 3]
error_types:
  licence: {restartable: maybe}
signals:
  broken: {pattern: '(', role: rot}
  typed: {pattern: seat, error_type: licence}
  mistyped: {pattern: text, error_type: ooom}
  again: {hint: Changes something that other.yaml has.}
  gone: {hint: Changes nothing.}
absences:
  waits: {signal: broken, every_s: 60}
  nowhere: {signal: nowhere_at_all, every_s: 60}
limits: {inactivity_s: soon, poll_s: 30}
silence: [broken, never_there]
"""
    with pytest.raises(CatalogueError) as caught:
        read({"/own.yaml": text, "/other.yaml": "extends: []\nsignals: {again: text}\nlimit: {}"})
    assert [(fault.file, fault.line) for fault in caught.value.faults] == [
        ("/other.yaml", 3),
        ("/own.yaml", 1),  # 3 is no name
        ("/own.yaml", 3),
        ("/own.yaml", 5),
        ("/own.yaml", 5),
        ("/own.yaml", 7),
        ("/own.yaml", 9),
        ("/own.yaml", 12),  # that "waits" waits for a broken one is no fault of its own
        ("/own.yaml", 13),
        ("/own.yaml", 14),  # never_there; "broken" is there
    ], str(caught.value)


def test_of_countless_faults_only_some_are_told() -> None:
    many = "signals:\n" + "".join(f"  s{number}: {{pattern: x, sevrity: y}}\n" for number in range(1900))
    with pytest.raises(CatalogueError) as caught:
        own(many)
    assert len(caught.value.faults) == 200
    assert str(caught.value).endswith("… and 150 more")


SETTINGS = [
    pytest.param(
        "megatron_prodution", {}, ("did you mean 'megatron_production'?", "has a slash"), id="a name mistyped"
    ),
    pytest.param("/none.yaml", {}, ("/none.yaml: it cannot be read: No such file",), id="a file that is not there"),
    pytest.param("/a.yaml", {"/a.yaml": "extends: [/a.yaml]"}, ("extends itself",), id="a file that extends itself"),
    pytest.param(
        "/a.yaml",
        {"/a.yaml": "extends: [b.yaml]", "/b.yaml": "extends: [a.yaml]"},
        ("/b.yaml:1", "/a.yaml → /b.yaml → /a.yaml"),
        id="files that extend each other",
    ),
    pytest.param("/a.yaml", {"/a.yaml": "x" * 1_000_001}, ("1,000,001 characters",), id="a file that is no catalogue"),
    pytest.param(
        "/a.yaml",
        {"/a.yaml": "extends: []\nsignals:\n" + "".join(f"  s{number}: text{number}\n" for number in range(2001))},
        ("more than 2,000 signals",),
        id="more signals than anybody needs",
    ),
    pytest.param("/a.yaml", {"/a.yaml": "a: \0"}, ("not YAML",), id="bytes that no text has"),
]


@pytest.mark.parametrize(("setting", "files", "said"), SETTINGS)
def test_refused_are(setting: str, files: Mapping[str, str], said: Sequence[str]) -> None:
    with pytest.raises(CatalogueError) as caught:
        read(files, setting)
    for words in said:
        assert words in str(caught.value)


def test_what_is_no_text_is_refused() -> None:
    def text_of(name: str) -> str:
        return b"\xff\xfe".decode("utf-8")

    with pytest.raises(CatalogueError, match="not UTF-8"):
        load_setting("/own.yaml", text_of)


YAML = st.recursive(
    st.sampled_from(["x", "'(?P<a>x+)'", "3", "true", "null", "root", "oom", "'{a}'", "~", "1e3", "!!binary aGk="]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(
            st.sampled_from([*KEYS, "inactivity_s", "s"]),
            inner,
            max_size=4,
        ).map(lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}")
    ),
    max_leaves=12,
)


@given(YAML | st.text(max_size=200))
def test_whatever_a_file_says_it_is_read_or_refused(text: str) -> None:
    told: list[str] = []
    try:
        read({"/own.yaml": text})
    except CatalogueError as error:
        told = str(error).splitlines()
    assert all(": " in line or line.startswith("… and ") for line in told)


def test_a_large_hostile_file_is_refused() -> None:
    for text in ("[" * 200_000, "a: " + "&a [" * 50_000, "- " * 100_000, "{" + "a: b, " * 40_000 + "}"):
        with pytest.raises(CatalogueError):
            read({"/own.yaml": text})
