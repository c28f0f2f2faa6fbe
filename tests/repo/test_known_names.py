"""What the documents say of names that people know from other frameworks is true: ours exist, with these values.
(Settings and options of all documents are looked at in test_docs.py.)"""

import ast
import re

import pytest

import lastbeat
from lastbeat.jobs.restarts import files
from lastbeat.model import learned_limits
from lastbeat.training import entry as training
from lastbeat.training.entry import RunOptions
from lastbeat.training.sdk.run import Run
from support.checkout import ROOT
from support.markdown import Document

PAGE = ROOT / "docs" / "coming-from.md"
KNOWN = [
    "enable_ft_package",
    "calc_ft_timeouts",
    "num_in_job_restarts",
    "num_job_retries_on_failure",
    "initial_rank_heartbeat_timeout",
    "rank_heartbeat_timeout",
    "exit_signal_handler",
    "preempt_time",
]
ARGUMENTS = RunOptions.__annotations__


def rows() -> list[tuple[str, str]]:
    """Theirs and ours, of each row of the table headed so."""
    found, within = list[tuple[str, str]](), False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        within = bool(cells) and (within or cells == ["in those", "here"])
        if within and len(cells) == 2 and cells[0].startswith("`"):
            found.append((cells[0], cells[1]))
    return found


@pytest.mark.parametrize("name", KNOWN)
def test_a_name_that_people_know_has_one_of_ours(name: str) -> None:
    assert any(f"`{name}`" in theirs for theirs, _ in rows())


def words(pattern: str) -> set[str]:
    spans = [span for _, ours in rows() for span in re.findall(r"`([^`]+)`", ours)]
    return {match for span in spans for match in re.findall(pattern, span)}


def test_every_argument_exists() -> None:
    named = words(r"^([a-z_]+)=")
    assert {"sections", "out_of_section", "learn", "exit_signal", "stall_minutes"} <= named
    assert named - {"worker_init_fn"} <= set(ARGUMENTS), "that one is DataLoader's own"


def test_every_method_of_a_run_exists() -> None:
    named = words(r"\brun\.([a-z_]+)")
    assert {"should_stop", "all_should_stop", "section", "step"} <= named
    assert all(hasattr(Run, name) for name in named)


def test_every_function_and_field_of_a_policy_exists() -> None:
    assert words(r"\blastbeat\.([a-z_]+)") == {"ignore_stop_signals"}
    assert hasattr(lastbeat, "ignore_stop_signals")
    (field,) = words(r"^([a-z_]+): \d+$")
    assert any(field in getattr(each, "model_fields", {}) for each in vars(files).values())


def test_values_are_those_of_the_code() -> None:
    told = dict(rows())
    assert told["`safety_factor`"] == f"{learned_limits.FACTOR:g}"
    assert told["`initial_rank_heartbeat_timeout`"].startswith(f"{training._STARTING_S:.0f} s ")


def test_the_example_says_all_of_it_as_it_can_be_said() -> None:
    blocks = [block for block in Document.read(ROOT / "docs" / "sections.md").blocks if block.language == "python"]
    calls = [
        node
        for block in blocks
        for node in ast.walk(ast.parse(block.text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lastbeat.run"
    ]
    said = [{keyword.arg for keyword in call.keywords} for call in calls]
    assert any(one >= {"sections", "learn", "exit_signal"} for one in said)
    assert all(one <= set(ARGUMENTS) for one in said)
