"""Where an alert links to."""

from pathlib import Path

import pytest

from lastbeat.settings import load, opening
from support.row_by_row import labelled


@pytest.mark.parametrize(("settings", "link"), labelled([
    ("a dashboard", {"LASTBEAT_DASHBOARD_URL": "https://runs.example.com"}, "https://runs.example.com/#/runs/run%3A1"),
    ("below a path", {"LASTBEAT_DASHBOARD_URL": "https://h/team/"}, "https://h/team/#/runs/run%3A1"),
    ("the page that passes write", {"LASTBEAT_DASHBOARD_URL": "https://h/x/_watchdog/index.html"},
     "https://h/x/_watchdog/index.html#/runs/run%3A1"),
    ("a directory without one has none", {}, None),
    ("it outranks the console of S3", {"MONITORING_ROOT": "s3://b-1/p", "LASTBEAT_DASHBOARD_URL": "https://h"},
     "https://h/#/runs/run%3A1"),
]))  # fmt: skip
def test_run_link(tmp_path: Path, settings: dict[str, str], link: str | None) -> None:
    assert opening.run_link(load({"MONITORING_ROOT": str(tmp_path), **settings}, {}, tmp_path), "run:1") == link
