"""Where an alert links to."""

from pathlib import Path

import pytest

from lastbeat.settings import load, opening


@pytest.mark.parametrize(
    ("settings", "link"),
    [
        pytest.param({"LASTBEAT_DASHBOARD_URL": "https://runs.example.com"}, "https://runs.example.com/#/runs/run%3A1",
                     id="a dashboard"),
        pytest.param({"LASTBEAT_DASHBOARD_URL": "https://h/team/"}, "https://h/team/#/runs/run%3A1", id="below a path"),
        pytest.param({"LASTBEAT_DASHBOARD_URL": "https://h/x/_watchdog/index.html"},
                     "https://h/x/_watchdog/index.html#/runs/run%3A1", id="the page that passes write"),
        pytest.param({}, None, id="a directory without one has none"),
        pytest.param({"MONITORING_ROOT": "s3://b-1/p", "LASTBEAT_DASHBOARD_URL": "https://h"}, "https://h/#/runs/run%3A1",
                     id="it outranks the console of S3"),
    ],
)  # fmt: skip
def test_run_link(tmp_path: Path, settings: dict[str, str], link: str | None) -> None:
    assert opening.run_link(load({"MONITORING_ROOT": str(tmp_path), **settings}, {}, tmp_path), "run:1") == link
