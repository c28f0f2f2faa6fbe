"""Log monitors of launchers taken over: what becomes of them, and what is said of the rest."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.scanning.matching import Matcher, compiled
from lastbeat.explain.scanning.splitting import Splitter
from lastbeat.explain.signals.importing import ImportedMonitor, import_monitor
from lastbeat.explain.signals.loading import CatalogueError
from lastbeat.model.signal import Catalogue, Signal
from support.catalogues import read
from support.checkout import ROOT

MONITORS = sorted((ROOT / "tests" / "monitors").glob("*.yaml"))
CORPUS = ROOT / "tests" / "corpus" / "files"
each_monitor = pytest.mark.parametrize("path", MONITORS, ids=lambda path: str(path.stem))


def take(path: Path) -> ImportedMonitor:
    return import_monitor(path.read_text("utf-8"), path.name)


def loaded(found: ImportedMonitor) -> Catalogue:
    return read({"/taken.yaml": found.text}, "/taken.yaml")


def own(found: ImportedMonitor) -> dict[str, Signal]:
    return {each.name: each for each in loaded(found).signals if each.source == "/taken.yaml"}


def signal_of(entry: Mapping[str, Any]) -> Signal:
    """What becomes of one entry of the second generation."""
    monitor = {"class_name": "SlurmLogMonitor", "log_events": [{"name": "s", **entry}]}
    (signal,) = own(import_monitor(yaml.safe_dump(monitor), "m.yaml")).values()
    return signal


HYDRA: list[Any] = [
    pytest.param("[/monitoring: megatron_basic, _self_]", ["megatron_basic"], id="by its group"),
    pytest.param("[monitor: megatron_basic]", ["megatron_basic"], id="of a group that is near"),
    pytest.param("[override /monitoring: megatron_basic.yaml]", ["megatron_basic"], id="in place of another one"),
    pytest.param("['optional monitoring@job.monitor': megatron_basic]", ["megatron_basic"], id="put elsewhere"),
    pytest.param("[/monitoring/megatron_basic]", ["megatron_basic"], id="as a path"),
    pytest.param("[/monitoring: [base, nccl]]", ["nccl", "base"], id="several, of which the last one wins"),
    pytest.param("[/monitoring: null, /monitoring: base, /slurm: juwels]", ["base"], id="none, and other groups"),
    pytest.param("{/monitoring: base}", ["base"], id="without a list"),
]


@pytest.mark.parametrize(("defaults", "extends"), HYDRA)
def test_hydras_defaults_name_catalogues(defaults: str, extends: Sequence[str]) -> None:
    found = import_monitor(f"defaults: {defaults}", "m.yaml")
    assert yaml.safe_load(found.text)["extends"] == extends
    loaded(found)
    # Beside a monitor of its own the file says the same.
    beside = import_monitor(f"defaults: {defaults}\nmonitoring:\n  log_events: [{{name: s, pattern: x}}]", "m.yaml")
    assert yaml.safe_load(beside.text)["extends"] == extends
    assert own(beside).keys() == {"s"}


def test_other_groups_are_one_note() -> None:
    text = "defaults: [/slurm: juwels, backend: megatron, /monitoring: ours, /monitoring: default]"
    others, ours = import_monitor(text, "m.yaml").notes
    assert others.startswith("m.yaml:1: defaults of other groups (2 entries: slurm: juwels, backend: megatron): left")
    assert ours.startswith("m.yaml:1: defaults: /monitoring: ours: import that file as well, and name its catalogue")


@each_monitor
def test_the_result_is_a_catalogue(path: Path) -> None:
    found = take(path)
    assert own(found)
    assert path.name in found.text.splitlines()[0]
    for note in found.notes:
        assert re.match(rf"{re.escape(path.name)}:\d+: .+: .+", note), note


def entries(path: Path) -> list[dict[str, Any]]:
    document = yaml.safe_load(path.read_text("utf-8"))
    document = document.get("job", document)
    found: list[dict[str, Any]] = document.get("log_signals") or document["log_events"]
    return found


def patterns(path: Path) -> dict[str, "re.Pattern[str]"]:
    """As the launcher searches for them, by name."""
    default = "substring" if path.stem == "job" else "regex"
    found = {}
    for entry in entries(path):
        kind = entry.get("pattern_type", default)
        if kind in {"regex", "progress", "substring"} and entry["name"] in own(take(path)):
            text = re.escape(entry["pattern"]) if kind == "substring" else entry["pattern"]
            found[entry["name"]] = re.compile(text, re.MULTILINE)
    return found


LINES = (
    " validation loss at iteration 1000 on test set | lm loss value: 2.345678E+00 | lm loss PPL: 1.04E+01",
    "  successfully saved checkpoint from iteration     500 to /scratch/ckpt",
    " [2025-08-04 17:16:21] iteration      100/    1000 | lm loss: 2.345678E+00 | grad norm: 1.0",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0",
    "NCCL ERROR 12",
    "NCCL ERROR",
    "found NaN in local gradient norm",
    "CUDA out of memory (again)",
    "saved checkpoint to /scratch/ckpt",
    "Launcher is up",
    "[after training is done] datetime: 2025-08-04 17:16:21",
    "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2025-08-04T17:16:21 DUE TO TIME LIMIT ***",
    "OSError: [Errno 122] Disk quota exceeded",
    "train.py: error: unrecognized arguments: --x",
    "FileNotFoundError: [Errno 2] No such file or directory: '/s/iter_0001000/__3_1.distcp'",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "nothing in particular",
    "",
)


@each_monitor
def test_its_patterns_match_the_same_lines(path: Path) -> None:
    """Of lines made for them, and of all labelled logs."""
    signals, written = own(take(path)), patterns(path)
    assert written.keys() <= signals.keys()
    lines = set(LINES)
    for log in CORPUS.glob("*.log"):
        splitter = Splitter()
        for batch in (splitter.feed(log.read_bytes()), splitter.finish()):
            lines |= {batch.line(index).text for index in range(len(batch))}
    short = [line for line in lines if len(line) <= 2000]
    assert len(short) > 1000
    for name, pattern in written.items():
        taken = compiled(signals[name])
        assert [line for line in short if pattern.search(line)] == [line for line in short if taken.search(line)], name
    # And so that nothing before the patterns stands in their way.
    matcher = Matcher(tuple(signals.values()))
    for line in LINES:
        wanted = {name for name, pattern in written.items() if pattern.search(line)}
        assert wanted == {signal.name for signal, _ in matcher.matches(line)} & written.keys(), line


def test_limits_are_taken_over() -> None:
    first, _, _ = [loaded(take(path)) for path in MONITORS[::-1]]
    assert (first.inactivity_s, first.inactivity_check_s, first.poll_s) == (1200, 120, 180)
    assert [loaded(take(path)).inactivity_s for path in MONITORS] == [1200, 900, 1200]


MEANINGS = yaml.safe_load((Path(__file__).parent / "monitor_entries.yaml").read_text("utf-8"))


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in MEANINGS.items()])
def test_an_entry_means(row: Mapping[str, Any]) -> None:
    signal = signal_of(row["entry"])
    assert {key: getattr(signal, key) for key in row["means"]} == row["means"]


def test_an_error_type_of_its_own_is_declared() -> None:
    text = "log_signals:\n- {name: s, pattern: x, mode: crash, metadata: {error_type: ours}}"
    found = import_monitor(text, "m.yaml")
    assert loaded(found).error_types["ours"].meaning == "Taken over from m.yaml."
    assert found.notes == (
        "m.yaml:2: error_type: ours: it is none of lastbeat's; say under error_types what it means, and what to do",
    )


def test_a_nul_in_a_reason_is_no_part_of_the_hint() -> None:
    action = {"class_name": "CancelAction", "reason": "free\0 it"}
    assert signal_of({"pattern": "x", "action": action}).hint == "free it"


def test_each_note_is_one_line_whatever_an_entry_is_called() -> None:
    found = import_monitor('log_events: [{name: "a\\nb", pattern: x, pattern_type: "c\\nd", other: 1}]', "m.yaml")
    first, second = found.notes
    assert first == "m.yaml:1: other (a b): left out; nothing here uses it"
    assert second.startswith("m.yaml:1: pattern_type: c d (a b): it is none of regex")


NOTES = [
    ("log_signals", "log_path_template: name logs with --log or LASTBEAT_LOGS"),
    ("log_signals", "termination_command: run the program under 'lastbeat exec'"),
    ("log_signals", "metadata.issue (gradient_nan): alerts tell"),
    ("log_events", "defaults: our_cluster: import that file as well"),
    ("log_events", "state_events (timeout): a job's state is not asked for"),
    ("log_events", "state: StartedState (started)"),
    ("log_events", "the prefix of a rank in a pattern (of_a_rank)"),
    ("log_events", "pattern_type: inflight (in_flight): it is none of regex, substring, inactivity, progress"),
    ("log_events", "two_lines: its pattern spans lines"),
    ("log_events", "broken: its pattern does not compile"),
    ("log_events", "filled_in: its pattern is filled in elsewhere"),
    ("log_events", "extract_groups: 3 (checkpoint): the pattern has no such group"),
    ("log_events", "name: out of memory!: its signal is called out_of_memory"),
    ("job", "match_once (quota)"),
    ("job", "no error_type (bad_flag)"),
    ("job", "a reason with places to fill (bad_flag)"),
    ("job", "pattern_type: progress (frozen): set LASTBEAT_STALL_MINUTES=20"),
    ("job", "inactivity_polls (silent)"),
]


@pytest.mark.parametrize(("stem", "said"), NOTES)
def test_what_has_no_counterpart_is_told(stem: str, said: str) -> None:
    (path,) = (path for path in MONITORS if path.stem == stem)
    notes = take(path).notes
    assert any(re.sub(r"^\S+:\d+: ", "", note).startswith(said) for note in notes), "\n".join(notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "m.yaml: neither it nor monitoring, monitor, job in it has log_signals or log_events"),
        ("signals: {s: x}", "name the file of a log monitor"),
        ("[1]", "name the file of a log monitor"),
        ("defaults: [/slurm: juwels]", "or a configuration whose defaults name /monitoring or /restart"),
        ("log_events: {a: b}", "m.yaml:1: log_events is a mapping; it has to be a list"),
        ("log_events:\n- {pattern: x}", "m.yaml:2: log_events.0.name is missing; add it"),
        ("log_events:\n- {name: s, pattern: [x]}", "m.yaml:2: log_events.0.pattern is a list"),
        ("log_events:\n- &a {name: s, pattern: x}\n- *a", "m.yaml:3: aliases (*a) are not taken"),
        ("log_events: " + "[" * 30, "nested more than 24 levels"),
    ],
)
def test_what_is_no_monitor_is_refused(text: str, said: str) -> None:
    with pytest.raises(CatalogueError) as caught:
        import_monitor(text, "m.yaml")
    assert said in str(caught.value)


KEYS = st.sampled_from(
    ["class_name", "name", "reason", "action", "conditions", "severity", "error_type", "kind", "subsystem", "a", "b"]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=10)
    | st.sampled_from(["crash", "(a)(b", "x+", "a.*(?P<m>.+)", "match", "CrashState", "{x} ${y}", "oom", "substring"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | KEYS, inner, max_size=4),
    max_leaves=8,
)
ENTRY_KEYS = ["pattern_type", "state", "mode", "action", "actions", "metadata", "extract_groups", "progress_group",
              "inactivity_timeout_s", "progress_timeout_s", "match_once", "condition", "other"]  # fmt: skip
MONITOR_KEYS = ["class_name", "defaults", "inactivity_threshold_seconds", "poll_interval_seconds", "state_events",
                "termination_string", "log_path", "other"]  # fmt: skip
ENTRIES = st.builds(
    lambda name, pattern, rest: {"name": name, "pattern": pattern, **rest},
    st.text(min_size=1, max_size=12),
    st.sampled_from(["x+", "CUDA out of memory", "(a)|b", "a.*(?P<m>.+)", "{", "", "NCCL.*(?P<k>.{0,9})"]) | VALUES,
    st.dictionaries(st.sampled_from(ENTRY_KEYS), VALUES, max_size=5),
)


@given(st.dictionaries(st.sampled_from(MONITOR_KEYS), VALUES, max_size=4), st.lists(ENTRIES, max_size=4), st.booleans())
def test_whatever_a_monitor_says_the_result_can_be_used_or_it_is_refused(
    monitor: dict[str, Any], events: list[dict[str, Any]], first: bool
) -> None:
    document = {**monitor, "log_signals" if first else "log_events": events}
    text = yaml.dump(document, Dumper=_NoAliases, allow_unicode=True)
    told: list[str] = []
    try:
        found = import_monitor(text, "m.yaml")
    except CatalogueError as refused:
        told = str(refused).splitlines()
    if told:
        assert all(line.startswith("m.yaml") for line in told)
        return
    assert all(note.startswith("m.yaml") and "\n" not in note for note in found.notes)
    loaded(found)


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True
