"""``policy`` as users run it: what is restarted, and why."""

import json
from pathlib import Path

from support.cli import LASTBEAT, call

OWN = """\
policies:
  - mode: crash
    implementation: {class_name: SelectiveRestartPolicy, max_retries: 1, restart_on_error_types: [ncll]}
"""


def test_a_policy_is_chosen_and_asked(tmp_path: Path) -> None:
    listed = call(LASTBEAT, "policy", "list", cwd=tmp_path)
    assert (listed.returncode, "Recommended" in listed.stdout) == (0, True)
    shown = call(LASTBEAT, "policy", "show", "megatron_transient", cwd=tmp_path)
    (tmp_path / "own.yaml").write_text(shown.stdout, encoding="utf-8")
    checked = call(LASTBEAT, "policy", "check", "own.yaml", cwd=tmp_path)
    assert (checked.returncode, checked.stdout.splitlines()[0]) == (0, "own.yaml can be used:")
    asked = ("policy", "explain", "--policy", "own.yaml", "--error-type", "nccl", "--attempt")
    second = call(LASTBEAT, *asked, "2", cwd=tmp_path, LASTBEAT_RESTART_DELAY_SECONDS="10")
    assert second.stdout.splitlines() == [
        "restart: Transient failure detected (error_type=nccl)",
        "budgets: crash 2/3, 24 h 2/10",
        "delay: at most 20 s (chosen at random below that)",
    ]
    fourth = call(LASTBEAT, *asked, "4", "--json", cwd=tmp_path)
    found = json.loads(fourth.stdout)
    assert (found["action"], found["reason"]) == ("stop", "retry budget exhausted (attempt 4/3)")
    (tmp_path / "own.yaml").write_text(f"on_permanent: leave\n{shown.stdout}", encoding="utf-8")
    of_oom = call(LASTBEAT, *asked[:5], "oom", cwd=tmp_path)
    assert of_oom.stdout.splitlines() == [
        "stop: Permanent failure detected (excluded error_type: oom)",
        "a job that is not restarted and still runs: is left running (on_permanent: leave)",
    ]


def test_a_policy_with_a_fault_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN, encoding="utf-8")
    said = call(LASTBEAT, "policy", "check", "own.yaml", cwd=tmp_path)
    assert said.returncode == 3
    assert "own.yaml:3: there is no error type 'ncll' (did you mean 'nccl'?)" in said.stderr
