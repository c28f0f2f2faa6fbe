"""Restart policies as people write them."""

from datetime import datetime, timezone
from pathlib import Path

import pytest

from lastbeat.jobs.restarts.loading import RestartPolicyError, load, names, shipped_text
from lastbeat.model.restart import JobEnd, Mode, Reaction, RestartPolicy
from lastbeat.watch.decide.restart import decide_restart
from support.row_by_row import labelled

THEIRS = """\
policies:
  - mode: crash
    implementation: {class_name: SelectiveRestartPolicy, max_retries: 3, default_action: stop, \
restart_on_error_types: [nccl, nccl_timeout], restart_on_subsystems: [distributed], \
restart_on_signals: [cuda_hang], exclude_error_types: [oom]}
"""


def loaded(tmp_path: Path, text: str) -> object:
    path = tmp_path / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return load(str(path))


def faults(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(RestartPolicyError) as refused:
        loaded(tmp_path, text)
    return [line.removeprefix(f"{tmp_path}/") for line in str(refused.value).splitlines()]


def test_a_file_in_the_form_that_other_systems_have(tmp_path: Path) -> None:
    (tmp_path / "theirs.yaml").write_text(THEIRS, encoding="utf-8")
    found = load(str(tmp_path / "theirs.yaml"))
    rule = found.rules[Mode.CRASH]
    assert (found.name, set(found.rules)) == ("theirs", {Mode.CRASH})
    assert (rule.kind, rule.max_retries, rule.otherwise) == ("selective", 3, "stop")
    assert rule.error_types == frozenset({"nccl", "nccl_timeout"})
    assert rule.excluded == frozenset({"oom"})
    assert {"nccl_remote", "tcpstore", "rendezvous"} <= rule.subsystems["distributed"]
    assert {"hang_stated", "cuda_device_assert"} <= rule.signals["cuda_hang"]


TOP = """\
class_name: SelectiveRestartPolicy
max_retries: 2
default_action: stop
restart_on_error_types: [nccl]
exclude_error_types: [oom]
on: {failed: stop}
"""


def test_a_class_at_the_top_decides_about_each_end_that_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "top.yaml").write_text(TOP, encoding="utf-8")
    found = load(str(tmp_path / "top.yaml"))
    assert set(found.rules) == {Mode.CRASH, Mode.STALL, Mode.TIMEOUT}
    (rule,) = set(map(repr, found.rules.values()))
    assert "max_retries=2" in rule
    assert found.rules[Mode.STALL].error_types == frozenset({"nccl"})
    assert found.rules[Mode.STALL].excluded == frozenset({"oom"})
    assert found.reactions == {"failed": (Reaction(action="stop"),)}
    # As with blocks for each mode.
    assert restarts(found, JobEnd(Mode.CRASH, "nccl"))
    assert not restarts(found, JobEnd(Mode.CRASH, "oom"))
    assert not restarts(found, JobEnd(Mode.SUCCESS))


@pytest.mark.parametrize("name", names())
def test_each_shipped_policy_can_be_copied_and_used(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.yaml").write_text(shipped_text(name), encoding="utf-8")
    assert load(str(tmp_path / f"{name}.yaml")) == load(name)


def test_what_is_said_beside_the_modes(tmp_path: Path) -> None:
    text = """\
budgets:
  error_types: {nccl: 2}
  same_cause: 4
  window: {restarts: 5, hours: 12}
same_step_times: 2
least_confidence: 0.7
longest_delay_s: 300
exclude_stragglers: true
on_permanent: leave
on:
  checkpoint_saved: {command: [evaluate, '{checkpoint}'], limit_s: 60}
  cuda_hang: restart
  failed: [stop, {note: 'look at {run_id}'}]
"""
    (tmp_path / "own.yaml").write_text(text, encoding="utf-8")
    found = load(str(tmp_path / "own.yaml"))
    assert (found.type_budgets, found.cause_budget) == ({"nccl": 2}, 4)
    assert (found.window_restarts, found.window_s) == (5, 43200.0)
    assert (found.same_step_times, found.least_confidence, found.longest_delay_s) == (2, 0.7, 300)
    assert (found.exclude_stragglers, found.on_permanent) == (True, "leave")
    assert found.reactions == {
        "checkpoint_saved": (Reaction(command=("evaluate", "{checkpoint}"), limit_s=60),),
        "cuda_hang": (Reaction(action="restart"),),
        "failed": (Reaction(action="stop"), Reaction(note="look at {run_id}")),
    }


def restarts(policy: RestartPolicy, end: JobEnd) -> bool:
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return decide_restart(policy, end, (), now, delay_s=0.0, chance=0.0).restart


BLOCK = "policies:\n  - mode: crash\n    implementation: {class_name: SelectiveRestartPolicy, "
FAULTS = [
    ("a signal to add that there is not", "also: [cuda_device_side_asert]\n",
     "own.yaml:1: there is no signal 'cuda_device_side_asert' (did you mean 'cuda_device_side_assert'?)"),
    ("an empty file", "", "own.yaml: the file is empty; it has to hold policies: with a block for each mode"),
    ("an error type that there is not", BLOCK + "restart_on_error_types: [nccl, nccl_timeot]}\n",
     "own.yaml:3: there is no error type 'nccl_timeot' (did you mean 'nccl_timeout'?)"),
    ("a subsystem that there is not", BLOCK + "restart_on_subsystems: [distribute]}\n",
     "own.yaml:3: there is no subsystem 'distribute' (did you mean 'distributed'?)"),
    ("a key that there is not", BLOCK + "max_retry: 3}\n",
     "own.yaml:3: policies.0.implementation: unknown key 'max_retry' (did you mean 'max_retries'?)"),
    ("a class that there is not", "policies:\n  - mode: crash\n    implementation: {class_name: SelectiveRestart}\n",
     ("own.yaml:3: policies.0.implementation.class_name: 'SelectiveRestart' is none of NoRestartPolicy, "
     "AlwaysRestartPolicy, SelectiveRestartPolicy (did you mean 'SelectiveRestartPolicy'?)")),
    ("a mode twice", ("policies:\n  - mode: crash\n    implementation: {class_name: NoRestartPolicy}\n"
     "  - mode: crash\n    implementation: {class_name: NoRestartPolicy}\n"),
     "own.yaml:4: the mode crash has a block already; put both into one"),
    ("choices in a policy that chooses nothing",
     "policies:\n  - mode: crash\n    implementation: {class_name: AlwaysRestartPolicy, default_action: stop}\n",
     ("own.yaml:3: policies.0.implementation: default_action belongs to a SelectiveRestartPolicy; "
     "AlwaysRestartPolicy chooses nothing")),
    ("a class at the top that there is not", "class_name: SelectiveRestart\n",
     ("own.yaml:1: class_name: 'SelectiveRestart' is none of NoRestartPolicy, AlwaysRestartPolicy, "
     "SelectiveRestartPolicy (did you mean 'SelectiveRestartPolicy'?)")),
    ("an excluded type that there is not, at the top",
     "class_name: SelectiveRestartPolicy\nexclude_error_types:\n  - ooom\n",
     "own.yaml:3: there is no error type 'ooom' (did you mean 'oom'?)"),
    ("a class at the top, and blocks for the modes", "class_name: AlwaysRestartPolicy\npolicies: []\n",
     "own.yaml:2: policies and class_name both stand here; give each mode its own block, or take policies out"),
    ("a command for a shell", "on: {checkpoint_saved: {command: 'rm -rf {checkpoint}'}}\n",
     ("own.yaml:1: on.checkpoint_saved.0.command is text; it has to be a list, [program, argument, …], because "
     "no shell reads it")),
    ("a value that there is not", "on: {failed: {note: '{run}'}}\n",
     ("own.yaml:1: on.failed.0.note: names the value {run}, which does not exist (did you mean 'run_id'?); there "
     "are: run_id, attempt, status, reason, error_type, signal, step, checkpoint, job_id")),
    ("an event that there is not", "on: {checkpoint_save: restart}\n",
     ("own.yaml:1: on: there is no signal, condition or transition 'checkpoint_save' "
      "(did you mean 'checkpoint_saved'?)")),
    ("two things in one", "on: {failed: {note: a, action: stop}}\n",
     "own.yaml:1: on.failed.0 has to say exactly one of note, action and command"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fault"), labelled(FAULTS))
def test_a_fault_is_told_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    assert fault in faults(tmp_path, text)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("megatron_transent", "there is no such restart policy (did you mean 'megatron_transient'?)"),
        ("./nowhere.yaml", "cannot be read: No such file or directory"),
    ],
)
def test_a_policy_that_there_is_not(name: str, said: str) -> None:
    with pytest.raises(RestartPolicyError) as refused:
        load(name)
    assert said in str(refused.value)
