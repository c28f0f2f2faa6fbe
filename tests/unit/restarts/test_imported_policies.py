"""Restart policies and actions of other launchers, as a policy of lastbeat's."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.signals.loading import DEFAULT, CatalogueError
from lastbeat.explain.signals.loading import load as catalogue
from lastbeat.jobs.restarts.importing import ImportedConfiguration, import_configuration
from lastbeat.jobs.restarts.loading import RestartPolicyError, load, load_text
from lastbeat.jobs.restarts.names import KnownNames
from lastbeat.model.restart import Mode, Reaction, RestartPolicy
from support.catalogues import read
from support.checkout import ROOT

MONITORS = {path.stem: path for path in (ROOT / "tests" / "monitors").glob("*.yaml")}


def loaded(found: ImportedConfiguration) -> RestartPolicy:
    """The policy, with the names of the catalogue that was made of the same file."""
    known = read({"/taken.yaml": found.catalogue}, "/taken.yaml") if found.catalogue else catalogue(DEFAULT)
    return load_text(found.policy, "policy.yaml", "taken", KnownNames.of(known))


def take(text: str) -> ImportedConfiguration:
    return import_configuration(text, "m.yaml")


def take_actions(entry: str) -> tuple[RestartPolicy | None, Sequence[str]]:
    """An entry ``s`` whose line is a crash of the type oom, with these actions."""
    text = f"""\
log_events:
- name: s
  pattern: ran out
  state: {{class_name: CrashState}}
  metadata: {{error_type: oom, trigger: yes}}
  {entry}
"""
    found = take(text)
    return loaded(found) if found.policy else None, found.notes


def waits(*conditions: str, action: str) -> str:
    return f"actions: [{{class_name: EventAction, conditions: [{', '.join(conditions)}], action: {action}}}]"


RESTART = "{class_name: RestartAction}"
EVAL = "{class_name: ExecutionAction, command: [python, eval.py, '{job_id}']}"
ACTIONS: list[Any] = [
    pytest.param("actions: [{class_name: ErrorNoteAction, note: 'look at {job_name}'}]",
                 [Reaction(note="look at {run_id}")], id="a note"),
    pytest.param(f"actions: [{EVAL}]", [Reaction(command=("python", "eval.py", "{job_id}"))], id="a command"),
    pytest.param(f"action: {RESTART}", [Reaction(action="restart")], id="a restart"),
    pytest.param("action: {class_name: TerminationAction}", [Reaction(action="stop")], id="an end of the job"),
    pytest.param("actions: [{class_name: LogAction, message: m}, {class_name: CancelAction}]",
                 [Reaction(note="m"), Reaction(action="stop")], id="two, by their later names"),
    pytest.param("actions: [{class_name: RunCommandAction, command: [sleep, 5]}]", [Reaction(command=("sleep", "5"))],
                 id="a number is an argument"),
    pytest.param(waits("{class_name: MetadataCondition, key: trigger, equals: yes}", action=EVAL),
                 [Reaction(command=("python", "eval.py", "{job_id}"))], id="a condition that the entry itself meets"),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "reactions"), ACTIONS)
def test_an_action_becomes_a_reaction(entry: str, reactions: Sequence[Reaction]) -> None:
    policy, _ = take_actions(entry)
    assert policy is not None
    assert policy.reactions == {"s": tuple(reactions)}


LEFT_OUT: list[Any] = [
    pytest.param(
        waits("{class_name: CommandCondition, command: x}", action="{class_name: CancelAction}"),
        "m.yaml:2: CancelAction under CommandCondition (s): left out; write it under on: of the policy if it holds "
        "always",
        id="a condition that nothing here checks",
    ),
    pytest.param(waits("{class_name: MetadataCondition, key: trigger, equals: no}", action=EVAL),
                 "ExecutionAction under MetadataCondition (s): left out",
                 id="a condition that the entry does not meet"),
    pytest.param(waits("{class_name: MaxAttemptsCondition, max_attempts: 2}", action="{class_name: CancelAction}"),
                 "CancelAction under MaxAttemptsCondition (s): left out", id="a limit on what is no restart"),
    pytest.param(
        "actions: [{class_name: ExecutionAction, command: 'rm -rf {job_id}'}]",
        "ExecutionAction (s): left out; command is text; it has to be a list, [program, argument, …], because no "
        "shell reads it",
        id="a command for a shell",
    ),
    pytest.param(
        "actions: [{class_name: ExecutionAction, command: [a, '{output_dir}', '${x.y}']}]",
        "ExecutionAction: command (s): left out; lastbeat does not know ${x.y}, {output_dir}. Write it under on: "
        "with {run_id}, {attempt}, ",
        id="what is filled in there alone",
    ),
    pytest.param("actions: [{class_name: PublishEventAction, event_name: x}]",
                 "PublishEventAction (s): lastbeat alerts people; what LASTBEAT_WEBHOOK_URL calls",
                 id="an action that nothing here does"),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "note"), LEFT_OUT)
def test_what_a_policy_cannot_say_is_left_out_with_a_word(entry: str, note: str) -> None:
    policy, notes = take_actions(entry)
    assert policy is None
    assert any(note in each for each in notes), "\n".join(notes)


def test_what_the_line_says_is_not_taken_for_a_value_of_the_same_name() -> None:
    text = """\
log_events:
- name: s
  pattern: 'at (?P<step>\\d+) because (?P<reason>.*)'
  pattern_type: regex
  extract_groups: {step: step, reason: reason}
  actions: [{class_name: LogAction, message: 'at {step}'}, {class_name: LogAction, message: '{reason}'}]
"""
    found = take(text)
    assert loaded(found).reactions == {"s": (Reaction(note="at {step}"),)}
    assert any("lastbeat does not know {reason}" in each for each in found.notes)


def test_keys_of_an_action_that_nothing_uses_are_noted() -> None:
    _, notes = take_actions("action: {class_name: RestartAction, pre_command: x, cwd: ''}")
    assert "m.yaml:2: RestartAction.pre_command (s): left out; nothing here uses it" in notes


def test_without_a_policy_what_an_action_restarts_is_restarted_and_nothing_else() -> None:
    policy, notes = take_actions(waits("{class_name: MaxAttemptsCondition, max_attempts: 2}", action=RESTART))
    assert policy is not None
    (rule,) = policy.rules.values()
    assert policy.rules.keys() == {Mode.CRASH}
    assert (rule.kind, rule.otherwise, rule.max_retries, list(rule.signals)) == ("selective", "stop", 3, ["s"])
    # The first attempt is one of two.
    assert policy.type_budgets == {"oom": 1}
    assert any(
        "the file names no restart policy, so policies: allows at most 3 restarts in a row" in each for each in notes
    )


STATES: list[Any] = [
    pytest.param("name: x, state: {class_name: CrashState}", {"failed"}, id="a crash, by its state"),
    pytest.param("name: stalled", {"timed_out"}, id="a stall"),
    pytest.param("name: timeout", {"timed_out"}, id="a timeout"),
    pytest.param("name: cancelled", {"cancelled"}, id="cancelled"),
    pytest.param("name: pending", set(), id="no change of a run"),
]


@pytest.mark.parametrize(("entry", "on"), STATES)
def test_a_state_of_the_job_is_a_change_of_the_run(entry: str, on: set[str]) -> None:
    text = f"log_events: []\nstate_events: [{{{entry}, actions: [{{class_name: LogAction, message: m}}]}}]"
    found = take(text)
    assert (loaded(found).reactions.keys() if found.policy else set()) == on
    assert on or any("LogAction on pending (pending): left out; on: has started" in each for each in found.notes)


def test_what_a_saved_checkpoint_leads_to_follows_each_checkpoint() -> None:
    text = """\
log_events:
- name: saved
  pattern: 'saved (\\d+) to (?P<path>\\S+)'
  pattern_type: regex
  metadata: {kind: checkpoint}
  extract_groups: {checkpoint_path: path, at_iteration: 1}
  actions:
  - class_name: EventAction
    mode: queue
    conditions: [{class_name: FileExistsCondition, path: '{checkpoint_path}', blocking: true}]
    action:
      class_name: RunCommandAction
      command: [evaluate, '{checkpoint_path}', '--step={at_iteration}']
"""
    found = take(text)
    command = Reaction(command=("evaluate", "{checkpoint}", "--step={step}"))
    assert loaded(found).reactions == {"checkpoint_saved": (command,)}
    assert any("'lastbeat restart supervise' needs --checkpoint-dir" in each for each in found.notes)


def test_a_signal_that_is_called_as_a_change_of_the_run_is_not_mixed_up_with_it() -> None:
    found = take(f"log_events: [{{name: failed, pattern: x, action: {RESTART}}}]")
    assert found.policy == ""
    assert any("under on: failed is a change of the run" in each for each in found.notes)


# Policies.


def test_a_named_policy_and_actions_are_one_policy() -> None:
    text = f"""\
defaults: [/restart: megatron_checkpoint_eval]
monitoring:
  log_events:
  - {{name: s, pattern: ran out, metadata: {{error_type: oom}}, actions: [{RESTART}]}}
"""
    found = loaded(take(text))
    shipped = load("megatron_checkpoint_eval")
    assert found.rules == shipped.rules
    assert found.reactions == {**shipped.reactions, "s": (Reaction(action="restart"),)}


TOP = """\
class_name: SelectiveRestartPolicy
max_retries: 2
restart_reason: again
restart_on_error_types: [nccl, nccl_collective]
restart_on_signals: [cuda_hang]
exclude_error_types: [oom]
"""


def test_a_policy_with_a_class_at_its_top() -> None:
    found = take(TOP)
    assert found.catalogue == ""
    assert loaded(found).rules.keys() == {Mode.CRASH, Mode.STALL, Mode.TIMEOUT}
    rule = loaded(found).rules[Mode.CRASH]
    assert (rule.max_retries, rule.error_types, rule.excluded) == (2, frozenset({"nccl"}), frozenset({"oom"}))
    assert list(rule.signals) == ["cuda_hang"]
    assert found.notes == (
        "m.yaml:3: restart_reason: left out; lastbeat says why in its own words",
        "m.yaml:4: restart_on_error_types: nccl_collective: there is no such error type here; left out",
    )


def test_the_same_within_a_whole_configuration_wins_over_a_name() -> None:
    inside = "".join(f"  {line}\n" for line in TOP.splitlines())
    found = take(f"defaults: [/restart: default]\nrestart:\n{inside}job:\n  log_events: [{{name: s, pattern: x}}]\n")
    assert loaded(found).rules == loaded(take(TOP)).rules
    assert "m.yaml:5: restart_reason: left out; lastbeat says why in its own words" in found.notes
    assert "m.yaml:1: defaults: /restart: default: the policy in the file replaces it" in found.notes


def test_a_policy_with_blocks() -> None:
    text = "policies:\n- mode: crash\n  implementation: {class_name: AlwaysRestartPolicy, reason: r, max_retries: 1}\n"
    assert {mode: rule.max_retries for mode, rule in loaded(take(text)).rules.items()} == {Mode.CRASH: 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class_name: SelectiveRestartPolicy\nmax_retries: -1", "m.yaml:2: max_retries"),
        ("class_name: OurRestartPolicy", "m.yaml:1: class_name: 'OurRestartPolicy' is none of NoRestartPolicy"),
        ("policies: 1", "m.yaml:1: policies is a number"),
        ("restart:\n  class_name: AlwaysRestartPolicy\n  max_retry: 1", "m.yaml:3: unknown key 'max_retry'"),
        (
            "defaults: [/restart: ours]",
            "m.yaml: there is nothing to take over; import the files that its defaults name",
        ),
    ],
)
def test_what_is_no_policy_is_refused(text: str, said: str) -> None:
    with pytest.raises(RestartPolicyError) as refused:
        take(text)
    assert said in str(refused.value)


@pytest.mark.parametrize("stem", ["job", "log_events"])
def test_the_policy_of_a_monitor_can_be_used(stem: str) -> None:
    path: Path = MONITORS[stem]
    found = import_configuration(path.read_text("utf-8"), path.name)
    assert loaded(found).reactions
    assert "\non:\n" in found.policy


# Whatever a file says.

WORDS = st.sampled_from(
    ["RestartAction", "ExecutionAction", "ErrorNoteAction", "TerminationAction", "MaxAttemptsCondition", "failed",
     "AlwaysRestartPolicy", "SelectiveRestartPolicy", "checkpoint", "{step}", "{x}", "${y}", "default", "/restart",
     "on", "oom"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | WORDS, inner, max_size=3),
    max_leaves=6,
)
ACTION = st.fixed_dictionaries(
    {"class_name": WORDS | st.text(max_size=8)},
    optional=dict.fromkeys(("note", "command", "reason", "conditions", "message", "action", "cwd"), VALUES),
)
ENTRY = st.fixed_dictionaries(
    {
        "name": WORDS | st.text(min_size=1, max_size=8),
        "pattern": st.sampled_from(["x+", "CUDA out of memory", "(a)|b"]),
    },
    optional={
        "actions": st.lists(ACTION, max_size=3),
        "condition": VALUES,
        "state": VALUES,
        "metadata": st.dictionaries(st.sampled_from(["kind", "error_type"]), WORDS),
    },
)
WHOLE = st.fixed_dictionaries(
    {},
    optional={
        "log_events": st.lists(ENTRY, max_size=3),
        "state_events": st.lists(ENTRY, max_size=2),
        "defaults": st.lists(st.dictionaries(WORDS, WORDS | VALUES, max_size=2) | WORDS, max_size=3),
        "restart": st.dictionaries(st.sampled_from(["class_name", "max_retries", "reason", "on"]), VALUES | WORDS),
        "policies": VALUES,
    },
)


@given(WHOLE)
def test_whatever_a_file_says_the_policy_can_be_used_or_the_file_is_refused(whole: Mapping[str, Any]) -> None:
    text = yaml.dump(whole, Dumper=_NoAliases, allow_unicode=True)
    told: list[str] = []
    try:
        found = take(text)
    except (CatalogueError, RestartPolicyError) as refused:
        told = str(refused).splitlines()
    if told:
        assert all(line.startswith("m.yaml") for line in told)
        return
    assert all(note.startswith("m.yaml") and "\n" not in note for note in found.notes)
    assert found.catalogue or found.policy
    if found.policy:
        loaded(found)


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True
