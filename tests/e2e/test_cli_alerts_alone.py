"""An id for which a script has only raised alerts: nobody calls it RUNNING."""

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
