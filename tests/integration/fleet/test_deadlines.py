"""A pass that has a deadline ends by it, whatever request of it hangs, and what it could not do is done by the next."""

import json
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lastbeat import settings as configuration
from lastbeat.fleet.configured import configured_sweep
from lastbeat.fleet.sweep import Sweep
from lastbeat.model.fleet import PassReport
from lastbeat.settings.channels import configured_channels
from lastbeat.views.left_gists import left_for_views
from support.http_sink import Answer, HttpSink
from support.proxy import FaultProxy, Stall
from support.s3 import S3Server
from support.waiting import until

RUNS = [f"run-{number}" for number in range(6)]
TIME_S = 3.0
"""A request that hangs is given up after ten seconds, tried again, and given up for good after twenty."""
HANGS = [
    pytest.param("", "", id="everything"),
    pytest.param("GET", "list-type=2", id="the listing"),
    pytest.param("GET", "fleet.json.z", id="reading the fleet's memory"),
    pytest.param("PUT", "fleet.json.z", id="writing the fleet's memory"),
    pytest.param("GET", "groups.json", id="reading the ledger of groups"),
    pytest.param("PUT", "groups.json", id="writing the ledger of groups"),
    pytest.param("GET", "last_pass.json", id="reading the last mark"),
    pytest.param("PUT", "last_pass.json", id="writing the mark"),
    pytest.param("GET", "index.html", id="looking how old the page is"),
    pytest.param("GET", "/run-3/", id="reading one run"),
    pytest.param("PUT", "/run-3/", id="writing one record"),
]


class Fleet:
    """Six runs that all went silent at once, and what watches them through the proxy."""

    def __init__(self, server: S3Server, proxy: FaultProxy, sink: HttpSink, folder: Path) -> None:
        self.bucket = server.bucket()
        self._sink = sink
        silent = datetime.now(timezone.utc) - timedelta(hours=1)
        for run_id in RUNS:
            body = json.dumps({"run_id": run_id, "last_update": silent.isoformat()}).encode()
            server.put(self.bucket, f"training-runs/{run_id}/metadata.json", body, silent)
        self._environment = {
            **server.environment(),
            "AWS_ENDPOINT_URL": proxy.url,
            "MONITORING_BUCKET": self.bucket,
            "LASTBEAT_WEBHOOK_URL": f"{sink.url}/hook",
            "LASTBEAT_STATE_DIR": str(folder / "state"),
            "LASTBEAT_PAGE_MINUTES": "5",
            "LASTBEAT_SWEEP": "lease_seconds:20",
            "LASTBEAT_GROUPS": "minutes:0.05",
        }
        self._folder = folder

    def sweep(self) -> Sweep:
        settings = configuration.load(environ=self._environment, directory=self._folder)
        return configured_sweep(
            settings,
            configured_channels(settings),
            clock=lambda: datetime.now(timezone.utc),
            make_views=left_for_views,
        )

    def told(self) -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in self._sink.requests]


def short_pass(sweep: Sweep) -> PassReport:
    return sweep.run(deadline=time.monotonic() + TIME_S)


@pytest.fixture
def fleet(s3_server: S3Server, fault_proxy: FaultProxy, sink: HttpSink, tmp_path: Path) -> Fleet:
    return Fleet(s3_server, fault_proxy, sink, tmp_path)


@pytest.mark.parametrize(("method", "contains"), HANGS)
def test_a_pass_ends_in_time_and_what_is_left_is_done_by_a_later_one(
    fleet: Fleet, fault_proxy: FaultProxy, method: str, contains: str
) -> None:
    sweep = fleet.sweep()
    fault_proxy.inject(Stall(), method=method, contains=contains)
    # Twice: what hung the first time may hang still.
    for _ in range(2):
        # On a busy machine a pass may end before it comes to the request that hangs.
        until(lambda: short_pass(sweep), lambda _: fault_proxy.hanging)
    fault_proxy.clear()
    until(sweep.run, lambda report: report.statuses == {"TIMED_OUT": len(RUNS)} and not report.pending)
    told = [run_id for each in fleet.told() for run_id in each.get("members") or [each["run_id"]]]
    assert set(told) == set(RUNS)


def test_a_channel_that_hangs_holds_no_pass_up_either(fleet: Fleet, sink: HttpSink) -> None:
    sink.otherwise = Answer(trickle=True)
    sweep = fleet.sweep()
    for _ in range(2):
        # A pass that waited until the sending was given up would leave none. On a busy machine it may send nothing.
        until(lambda: short_pass(sweep), lambda _: sink.endless)
