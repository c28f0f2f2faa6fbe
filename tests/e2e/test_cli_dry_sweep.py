"""``sweep --dry-run`` as users run it."""

import json
from pathlib import Path

from support.cli import LASTBEAT, RunFolder, call
from support.http_sink import http_sink


def test_a_dry_sweep_shows_what_would_be_sent_and_leaves_nothing(tmp_path: Path) -> None:
    for name in ("run-1", "run-2"):
        RunFolder(tmp_path / "training-runs", name).put("_error", "CUDA out of memory")
    before = sorted(tmp_path.rglob("*"))
    with http_sink() as sink:
        dry = call(
            LASTBEAT, "sweep", "--dry-run", cwd=tmp_path, LASTBEAT_WEBHOOK_URL=sink.url, LASTBEAT_PAGE_MINUTES="1"
        )
        assert dry.returncode == 2, dry.stderr
        as_json = call(LASTBEAT, "sweep", "--dry-run", "--json", cwd=tmp_path, LASTBEAT_WEBHOOK_URL=sink.url)
        assert sink.requests == []
    assert "2 failed" in dry.stdout.splitlines()[0]
    assert "A pass would send 2 alerts." in dry.stdout
    assert "FAILED: run-1" in dry.stdout
    (line,) = as_json.stdout.splitlines()
    assert [each["payload"]["run_id"] for each in json.loads(line)["would_send"]] == ["run-1", "run-2"]
    nobody = call(LASTBEAT, "sweep", "--dry-run", cwd=tmp_path)
    assert nobody.stdout.count("Would alert, but no channel is set up:") == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dry_sweep_counts_transitions_and_the_alerts_that_tell_them(tmp_path: Path) -> None:
    for number in range(12):
        RunFolder(tmp_path / "training-runs", f"run-{number}").put("_error", "CUDA out of memory")
    dry = call(LASTBEAT, "sweep", "--dry-run", cwd=tmp_path)
    assert "A pass would send 12 transitions in 1 alert." in dry.stdout
    assert "pending" not in dry.stdout
