"""A store in which single requests hang: each alert comes once, whichever request it is and whatever became of it."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from support import cli, monitor, waiting
from support.http_sink import HttpSink, http_sink
from support.proxy import Fault, FaultProxy, HoldBack, Stall, StallAnswer
from support.s3 import S3Server

RUN = "mistral-20250804-171621"
SENT = b'"sent_at": "'


@pytest.fixture
def slack() -> Iterator[HttpSink]:
    with http_sink() as sink:
        yield sink


class Fleet:
    """A bucket behind the proxy, and what people are told of the runs in it."""

    def __init__(self, server: S3Server, proxy: FaultProxy, slack: HttpSink, home: Path) -> None:
        self.s3 = server.client()
        self.bucket = server.bucket()
        self._server = server
        self._slack = slack
        self._home = home
        self._env = {
            **server.environment(),
            "AWS_ENDPOINT_URL": proxy.url,
            "MONITORING_BUCKET": self.bucket,
            "SLACK_WEBHOOK_URL": f"{slack.url}/services/T/B/X",
        }

    def fail(self) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=f"training-runs/{RUN}/_error", Body=b"boom")

    def beat_long_ago(self, run_id: str) -> None:
        then = datetime.now(timezone.utc) - timedelta(minutes=20)
        document = json.dumps({"last_update": then.isoformat()}).encode()
        self._server.put(self.bucket, f"training-runs/{run_id}/metadata.json", document, then)

    def watch(self) -> dict[str, Any]:
        return monitor.once(self._home, self._env, RUN)

    def sweep(self) -> dict[str, Any]:
        done = cli.call(cli.LASTBEAT, "sweep", "--once", "--json", cwd=self._home, **self._env)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def told(self) -> list[str]:
        return [json.loads(request.body)["text"].split(". ")[0] for request in self._slack.requests]

    def record(self, key: str = f"{RUN}/_watchdog.json") -> dict[str, Any]:
        answer = self.s3.get_object(Bucket=self.bucket, Key=f"training-runs/{key}")
        record: dict[str, Any] = json.loads(answer["Body"].read())
        return record


@pytest.fixture
def fleet(s3_server: S3Server, fault_proxy: FaultProxy, slack: HttpSink, tmp_path: Path) -> Fleet:
    return Fleet(s3_server, fault_proxy, slack, tmp_path)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(StallAnswer(), id="it arrives, and its answer does not"),
        pytest.param(HoldBack(), id="it arrives when another one has taken its place"),
    ],
)
def test_the_write_of_what_was_sent_hangs(fleet: Fleet, fault_proxy: FaultProxy, fault: Fault) -> None:
    fleet.fail()
    fault_proxy.inject(fault, method="PUT", contains="_watchdog.json", body=SENT, times=1)
    first = fleet.watch()
    assert (first["status"], first["alerts"]["pending"]) == ("FAILED", 0)
    written = fleet.record()
    if isinstance(fault, HoldBack):
        fault.until.set()
        assert fault.arrived.wait(waiting.LIMIT_S)
    assert fleet.watch()["alerts"]["pending"] == 0
    assert fleet.told() == [f"❌ FAILED: {RUN}"]
    assert fleet.record() == written, "the one that was late changed nothing, and nobody had to write it again"
    assert written["delivered"] == 1


def test_the_write_that_a_group_was_told_of_hangs(fleet: Fleet, fault_proxy: FaultProxy) -> None:
    for number in range(5):
        fleet.beat_long_ago(f"run-{number}")
    fault_proxy.inject(Stall(), method="PUT", contains="_watchdog/groups.json", body=SENT, times=1)
    fleet.sweep()
    fleet.sweep()
    assert len(fleet.told()) == 1, fleet.told()
    assert fleet.record("_watchdog/groups.json")["delivered"] == 1
