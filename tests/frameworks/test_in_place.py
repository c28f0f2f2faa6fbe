"""Four ranks, of which one hangs: ``lastbeat exec`` ends them all, and starts them again."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

from frameworks.trained import ROOT, SCRIPTS, forked, torchrun, train
from support.row_by_row import labelled

RANKS, HANGS = 4, 2

ROWS = [
    ("in its step, which the others wait for elsewhere", torchrun, "step", "step:20", f"rank {HANGS}: step for "),
    ("outside of all sections", forked, "outside", "step:20,out_of_section:20", f"rank {HANGS}: in no section for "),
]  # fmt: skip


@pytest.mark.parametrize(("launcher", "where", "limits", "why"), labelled(ROWS))
def test_the_rank_that_the_others_wait_for_is_found_and_all_start_again(
    tmp_path: Path, launcher: Callable[[int], list[str]], where: str, limits: str, why: str
) -> None:
    command = [sys.executable, *launcher(RANKS), str(SCRIPTS / "hangs.py"), where, f"{HANGS}"]
    own = ["--run-id", "hangs", "--max-restarts", "2", "--grace", "3", "--section-timeouts", limits]
    more = {"PYTHONPATH": f"{ROOT / 'core'}:{ROOT / 'cli'}", "LASTBEAT_GUARDIAN": "off"}
    trained = train(tmp_path, ["-m", "lastbeat_cli", "exec", *own, "--", *command], more)
    assert trained.status == 0, trained.output
    first = trained.text("hangs", "in_place/0.txt").splitlines()[0]
    # One that waits may be late before it; who is behind is named all the same.
    assert first.startswith(f"Hang: {why}") or f"rank {HANGS} is behind the others" in first, first
    assert "restarting in place, 1 of 2" in trained.output
    assert trained.document("hangs", "metadata.json")["attempt"] == 2
    assert {"_complete"} <= trained.names("hangs")
    assert "_error" not in trained.names("hangs")
