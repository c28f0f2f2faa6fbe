"""A channel that is added to a fleet is not sent the last day's alerts."""

import json
from pathlib import Path

from support.cli import LASTBEAT, RunFolder, call
from support.http_sink import http_sink


def sweep(folder: Path, *arguments: str, **settings: str) -> None:
    call(LASTBEAT, "sweep", "--once", *arguments, cwd=folder, **settings)


def fails(folder: Path, run_id: str) -> None:
    run = RunFolder(folder / "training-runs", run_id)
    run.metadata()
    run.put("_error", "RuntimeError: boom")


def test_it_gets_what_is_decided_from_then_on(tmp_path: Path) -> None:
    with http_sink() as sink:
        fails(tmp_path, "before")
        sweep(tmp_path)
        sweep(tmp_path, "--dry-run", LASTBEAT_WEBHOOK_URL=sink.url)
        for _ in range(2):
            sweep(tmp_path, LASTBEAT_WEBHOOK_URL=sink.url)
        fails(tmp_path, "after")
        sweep(tmp_path, LASTBEAT_WEBHOOK_URL=sink.url)
        assert [json.loads(each.body)["run_id"] for each in sink.requests] == ["after"]


def test_a_sweep_registers_its_channels_though_nothing_is_to_be_told(tmp_path: Path) -> None:
    (tmp_path / "training-runs").mkdir()
    known = tmp_path / "training-runs" / "_watchdog" / "channels.json"
    sweep(tmp_path, "--dry-run", LASTBEAT_WEBHOOK_URL="http://127.0.0.1:9/")
    assert not known.exists()
    sweep(tmp_path, LASTBEAT_WEBHOOK_URL="http://127.0.0.1:9/")
    assert json.loads(known.read_text())["channels"] == {"webhook": None}
