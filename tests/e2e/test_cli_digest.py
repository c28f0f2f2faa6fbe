"""``lastbeat report digest``: the last day in one message."""

import json
from pathlib import Path

from support.cli import LASTBEAT, RunFolder, call


def test_it_names_what_ended_with_a_link(tmp_path: Path) -> None:
    root = tmp_path / "training-runs"
    RunFolder(root, "well").metadata()
    RunFolder(root, "llama").put("_error", "RuntimeError: boom\n")
    call(LASTBEAT, "sweep", "--once", cwd=tmp_path)
    settings = {"LASTBEAT_DASHBOARD_URL": "https://runs.example.com", "LASTBEAT_DIGEST": "08:00 Europe/Zurich"}
    told = call(LASTBEAT, "digest", cwd=tmp_path, **settings)
    assert (told.returncode, told.stderr) == (0, "")
    first, reason, *_ = told.stdout.splitlines()
    assert (first, reason.split(".")[0]) == ("🌅 DIGEST: the last day", "1 run needs attention")
    assert "https://runs.example.com/#/runs/llama" in told.stdout
    found = json.loads(call(LASTBEAT, "report", "digest", "--json", cwd=tmp_path, **settings).stdout)
    assert (found["event"], found["members"], found["member_count"]) == ("DIGEST", ["llama"], 1)
    assert not (root / "_watchdog" / "digest.json").exists(), "who looks sends nothing"
