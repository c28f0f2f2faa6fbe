"""``lastbeat sweep`` as processes of its own over a fleet in S3, most of them killed by SIGKILL at any moment. The
store's clock is ahead of the machine's, and further with each pass: nobody waits for leases and limits to run out."""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from support import cli, waiting
from support.assassin import Assassin
from support.http_sink import HttpSink
from support.proxy import FaultProxy, Stamp
from support.s3 import S3Server

SEED = 20260106
KILLS = 9
IN_A_ROW = 3
MOMENTS = 40
"""At so many the first pass can be killed, and each later one at as many as the last that lived had: so most die, and
while there is something to tell. In a pass over runs of which all is told, a death shows nothing."""
PASS_S = 8.0
"""From one pass to the next, by the store's clock."""
BEAT_S = 0.5
"""Between two beats of everybody while a pass is under way; more would leave the server no time for the pass."""
STALE_S = 30.0
LIMIT_S = 1200.0
"""Generous: it takes about a quarter of a minute on a machine that has nothing else to do."""

Told = Counter[tuple[str, str, int]]
"""(run, event, attempt), 0 for an alert about many runs."""

END = {"complete": ("_complete", "SUCCEEDED"), "fail": ("_error", "FAILED")}
LIVES = {
    "ends": ["beat", "complete"],
    "breaks": ["beat", "fail"],
    "hangs": ["beat", "silence", "beat", "complete"],
    "dies": ["beat", "silence"],
    "restarts": ["beat", "fail", "again", "complete"],
}
"""What each does, one thing after the other, the next only when the last was seen: no machine is too slow for that."""
SEEN = {"beat": "RUNNING", "again": "RUNNING", "silence": "TIMED_OUT", "complete": "SUCCEEDED", "fail": "FAILED"}


@dataclass
class Run:
    """One run and its script."""

    run_id: str
    script: list[str]
    step: int = 0
    attempt: int = 1
    told: Told = field(default_factory=Counter)
    last_beat: float = 0.0
    late: bool = False
    """It beat so late that whoever takes it for silent is right."""

    @property
    def doing(self) -> str:
        return self.script[self.step]


class Fleet:
    """The runs, as their trainings write them with boto3."""

    def __init__(self, server: S3Server) -> None:
        self.server = server
        self.s3 = server.client()
        self.bucket = server.bucket()
        self.runs = [Run(f"{name}-{n}", script) for name, script in LIVES.items() for n in range(3)]
        self.ahead = timedelta()

    @property
    def now(self) -> datetime:
        """The store's time."""
        return datetime.now(timezone.utc) + self.ahead

    def put(self, run: Run, name: str, text: str = "") -> None:
        self.server.put(self.bucket, f"training-runs/{run.run_id}/{name}", text.encode(), self.now)

    def beat(self) -> None:
        """Everybody who lives."""
        for run in self.runs:
            if run.doing in {"beat", "again"}:
                now = self.now.timestamp()
                run.late = run.late or (run.last_beat > 0 and now - run.last_beat > STALE_S / 2)
                said = self.now.isoformat()
                self.put(run, "metadata.json", json.dumps({"attempt": run.attempt, "last_update": said}))
                run.last_beat = now

    def go_on(self) -> bool:
        """Take every run whose last step was seen to the next one; whether any has steps left."""
        for run in self.runs:
            record = self.record(run)
            if record is None or record["status"] != SEEN[run.doing] or record["attempt"]["number"] != run.attempt:
                continue
            if run.step + 1 == len(run.script):
                continue
            before, run.step, run.last_beat = run.doing, run.step + 1, 0.0
            if run.doing == "again":
                run.attempt += 1
            if run.doing in END:
                name, event = END[run.doing]
                self.put(run, name)
                run.told[run.run_id, event, run.attempt] += 1
            if run.doing == "silence":
                run.told[run.run_id, "TIMED_OUT", run.attempt] += 1
            if before == "silence":
                run.told[run.run_id, "RECOVERED", run.attempt] += 1
        return any(not self.is_over(run) for run in self.runs)

    def is_over(self, run: Run) -> bool:
        record = self.record(run)
        return run.step + 1 == len(run.script) and record is not None and record["status"] == SEEN[run.doing]

    def record(self, run: Run) -> dict[str, Any] | None:
        return self.document(f"{run.run_id}/_watchdog.json")

    def document(self, key: str) -> dict[str, Any] | None:
        try:
            answer = self.s3.get_object(Bucket=self.bucket, Key=f"training-runs/{key}")
        except self.s3.exceptions.NoSuchKey:
            return None
        found: dict[str, Any] = json.loads(answer["Body"].read())
        return found

    def unsettled(self) -> Iterator[tuple[str, str]]:
        """(run, event) of each alert that is decided and not written down as told."""
        for run in self.runs:
            for alert in (self.record(run) or {}).get("outbox", ()):
                if not all(delivery["sent_at"] for delivery in alert["deliveries"].values()):
                    yield run.run_id, alert["event"]


@pytest.mark.timeout(1500)
def test_every_transition_is_told_by_sweeps_that_are_killed(
    s3_server: S3Server, fault_proxy: FaultProxy, sink: HttpSink, tmp_path: Path
) -> None:
    fleet = Fleet(s3_server)
    assassin = Assassin()
    fault_proxy.witness = assassin.event
    sink.heard = assassin.event
    settings: dict[str, Any] = {
        **s3_server.environment(),
        "AWS_ENDPOINT_URL": fault_proxy.url,
        "MONITORING_BUCKET": fleet.bucket,
        "LASTBEAT_WEBHOOK_URL": f"{sink.url}/alerts",
        "LASTBEAT_STATE_DIR": str(tmp_path / "state"),
        "LASTBEAT_INTERVAL_SECONDS": "1",
        "LASTBEAT_GROUPS": "minutes:0.05",
        "LASTBEAT_SWEEP": "read_minutes:0.02,lease_seconds:20",
        "STALE_MINUTES": str(STALE_S / 60),
        "ALERT_ON": "failed,timed_out,succeeded,recovered",
    }
    chance = random.Random(SEED)
    deadline = time.monotonic() + LIMIT_S
    died: Counter[tuple[str, str]] = Counter()
    kills, in_a_row, moments, going_on, pending = 0, 0, MOMENTS, True, 1
    while going_on or pending or kills < KILLS:
        assert time.monotonic() < deadline, (
            f"{kills} kills, pending {pending}: {[r for r in fleet.runs if not fleet.is_over(r)]}"
        )
        fleet.ahead += timedelta(seconds=PASS_S)
        fleet.beat()
        fault_proxy.clear()
        fault_proxy.inject(Stamp({"Date": format_datetime(fleet.now, usegmt=True)}))
        sweep = cli.start(cli.LASTBEAT, "sweep", "--once", "--json", cwd=tmp_path, **settings)
        # One that lives in between takes the runs on, so that there is always something to tell.
        assassin.aim(sweep, chance.randint(1, moments) if kills < KILLS and in_a_row < IN_A_ROW else 0)
        until = time.monotonic() + waiting.LIMIT_S
        beaten = time.monotonic()
        while sweep.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
            if time.monotonic() - beaten > BEAT_S:
                fleet.beat()
                beaten = time.monotonic()
        out, err = sweep.communicate(timeout=60)
        if sweep.returncode == -signal.SIGKILL:
            kills, in_a_row, pending = kills + 1, in_a_row + 1, 1
            died.update(set(fleet.unsettled()))
        else:
            in_a_row, moments = 0, max(assassin.seen, 1)
            # On a busy machine a server may take too long to answer; the next pass sees more.
            assert sweep.returncode in {0, 1, 2, 3}, err
            told = json.loads(out)
            pending = told["alerts"]["pending"] or int(sweep.returncode == 3)
        going_on = fleet.go_on()
    assert faults(fleet, sink, died) == []


def faults(fleet: Fleet, sink: HttpSink, died: Counter[tuple[str, str]]) -> list[str]:
    told: Counter[tuple[str, str]] = Counter()
    for request in sink.requests:
        alert = json.loads(request.body)
        told.update((run_id, alert["event"]) for run_id in alert["members"] or [alert["run_id"]])
    wanted: Counter[tuple[str, str]] = Counter()
    for run in fleet.runs:
        for (run_id, event, _), times in run.told.items():
            wanted[run_id, event] += times
    late = {run.run_id for run in fleet.runs if run.late}
    missing = [
        f"{what} told {told[what]} times instead of {wanted[what]}" for what in wanted if told[what] < wanted[what]
    ]
    wrong = [
        f"{what} told {told[what]} times, {wanted[what]} was right, and {died[what]} deaths explain as many more"
        for what in told
        if told[what] > wanted[what] + died[what] and what[0] not in late
    ]
    return missing + wrong
