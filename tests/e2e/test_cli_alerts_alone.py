"""An id for which a script has only raised alerts: nobody calls it RUNNING."""

import json
import sys
from pathlib import Path

import pytest

from support.cli import LASTBEAT, call

RAISES = "import lastbeat; assert lastbeat.alert('disks', 'warning', '/data is nearly full', root='training-runs')"


@pytest.fixture
def raised(tmp_path: Path) -> Path:
    (tmp_path / "training-runs").mkdir()
    done = call([sys.executable], "-c", RAISES, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


COMMANDS = {
    "watch": ("watch", "--run-id", "disks", "--once", "--dry-run"),
    "fleet": ("fleet", "--once"),
    "show": ("show", "disks"),
    "sweep": ("sweep", "--once"),
}


def test_no_command_says_that_it_runs_or_timed_out(raised: Path) -> None:
    for _ in range(2):
        said = {name: call(LASTBEAT, *command, cwd=raised).stdout for name, command in COMMANDS.items()}
        documents = [call(LASTBEAT, *command, "--json", cwd=raised).stdout for command in COMMANDS.values()]
        assert not [text for text in (*said.values(), *documents) if "RUNNING" in text or "TIMED_OUT" in text]
        assert "Run disks: NO_HEARTBEAT\n" in said["watch"]
        detail = "Scripts have only raised alerts; no heartbeat was written"
        assert f"Run disks: NO_HEARTBEAT\nDetail: {detail}\n" in said["show"]
        assert "1 NO_HEARTBEAT" in said["fleet"]
        assert "1 without a heartbeat" in said["sweep"]


def test_it_needs_nobody_and_its_alert_claims_no_status(raised: Path) -> None:
    call(LASTBEAT, "sweep", "--once", cwd=raised)
    assert call(LASTBEAT, "show", "disks", cwd=raised).returncode == 0
    record = json.loads((raised / "training-runs" / "disks" / "_watchdog.json").read_text())
    (alert,) = record["outbox"]
    assert (alert["event"], alert["message"]["status"]) == ("ALERT", "NO_HEARTBEAT")
    assert record["status"] == "NO_HEARTBEAT"


def test_with_its_first_heartbeat_it_is_a_run(raised: Path) -> None:
    call(LASTBEAT, "sweep", "--once", cwd=raised)
    call(LASTBEAT, "beat", "--run-id", "disks", cwd=raised)
    assert "1 running" in call(LASTBEAT, "sweep", "--once", cwd=raised).stdout
    assert "Run disks: RUNNING\n" in call(LASTBEAT, "show", "disks", cwd=raised).stdout
