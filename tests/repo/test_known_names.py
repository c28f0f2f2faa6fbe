"""What the documents say of names that people know from other frameworks is true: ours exist, with these values.
(Settings and options of all documents are looked at in test_docs.py.)"""

import re

import lastbeat
from lastbeat.jobs.restarts import files
from lastbeat.model import learned_limits
from lastbeat.training import entry as training
from lastbeat.training.entry import RunOptions
from lastbeat.training.sdk.run import Run
from support.checkout import ROOT

PAGE = ROOT / "docs" / "coming-from.md"
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
