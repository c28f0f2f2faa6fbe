"""The way from nothing to the first survived ``scancel``, as docs/restart.md has it, on Slurm."""

import json
import os
import subprocess
import sys
from pathlib import Path

from support.checkout import ROOT
from support.cli import environment
from support.markdown import Document

LIMIT_S = 200.0
# What a person does between two commands.
WAITED = {
    "tail supervise.log": 'until [ "$(grep -c run_started supervise.log)" -ge 1 ]; do sleep 0.2; done',
    "lastbeat show first": 'until [ "$(grep -c run_started supervise.log)" -ge 2 ]; do sleep 0.2; done',
}


def way() -> str:
    """The block of commands."""
    blocks = Document.read(ROOT / "docs" / "restart.md").blocks
    (block,) = [each for each in blocks if "scancel --name=first-r0" in each.text]
    return block.text


def test_it_is_survived(tmp_path: Path, slurm_conf: Path) -> None:
    script = way().replace("pipx install .", ":", 1)
    assert script.startswith(":")
    script = script.replace("--interval 10", "--interval 1")
    for command, wait in WAITED.items():
        assert f"\n{command}" in script
        script = script.replace(f"\n{command}", f"\n{wait}\n{command}")
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "lastbeat").write_text(f'#!/bin/sh\nexec {sys.executable} -m lastbeat_cli "$@"\n', encoding="utf-8")
    (bin_ / "lastbeat").chmod(0o755)
    settings = environment(
        tmp_path,
        LASTBEAT_STATE_DIR=str(tmp_path / "first" / "state"),
        LASTBEAT_RESTART_DELAY_SECONDS="0",
        SLURM_CONF=str(slurm_conf),
    )
    settings["PATH"] = f"{bin_}{os.pathsep}{settings['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", f"{script}\nwait\n"],
        cwd=tmp_path,
        env=settings,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    log = (tmp_path / "first" / "supervise.log").read_text(encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr + log
    record = json.loads((tmp_path / "first/training-runs/first/_watchdog.json").read_text(encoding="utf-8"))
    assert [each["error_type"] for each in record["restarts"]] == ["cancelled"], log
    assert "Transient failure detected (error_type=cancelled)" in done.stdout
    assert (record["status"], record["job"]["number"]) == ("CANCELLED", 1)
