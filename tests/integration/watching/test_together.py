"""Watchers in separate processes on one run in S3, killed and raced: one alert a transition, none lost."""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from support import monitor
from support.assassin import Assassin
from support.http_sink import Answer, HttpSink, http_sink
from support.proxy import FaultProxy, Stamp
from support.s3 import S3Server
from support.there import there
from support.waiting import LIMIT_S

RUN = "mistral-20250804-171621"
KILLS = 20
MOMENTS = 24
"""A pass has about as many at which it can be killed; one that is to die later lives."""


def now() -> datetime:
    return datetime.now(timezone.utc)


class Training:
    """What a training script does to its run, with boto3."""

    def __init__(self, server: S3Server) -> None:
        self.s3 = server.client()
        self.bucket = server.bucket()
        self.attempt = 0
        self.failed: list[int] = []

    def put(self, name: str, body: str = "") -> None:
        self.s3.put_object(Bucket=self.bucket, Key=f"training-runs/{RUN}/{name}", Body=body.encode())

    def begin(self) -> None:
        self.attempt += 1
        document = {"run_id": RUN, "attempt": self.attempt, "last_update": now().isoformat(), "phase": "train"}
        self.put("metadata.json", json.dumps(document))

    def fail(self) -> None:
        self.failed.append(self.attempt)
        self.put("_error", f"RuntimeError: attempt {self.attempt}")

    def record(self) -> dict[str, Any] | None:
        try:
            answer = self.s3.get_object(Bucket=self.bucket, Key=f"training-runs/{RUN}/_watchdog.json")
        except self.s3.exceptions.NoSuchKey:
            return None
        record: dict[str, Any] = json.loads(answer["Body"].read())
        return record


@pytest.fixture
def slack() -> Iterator[HttpSink]:
    with http_sink() as sink:
        yield sink


def settings(server: S3Server, training: Training, slack: HttpSink, **extra: str) -> dict[str, str]:
    return {
        **server.environment(),
        "MONITORING_BUCKET": training.bucket,
        "SLACK_WEBHOOK_URL": f"{slack.url}/services/T/B/X",
        **extra,
    }


def alerts(slack: HttpSink) -> list[str]:
    return [json.loads(request.body)["text"].split(". ")[0] for request in slack.requests]


def test_eight_watchers_at_once_send_one_alert_a_transition(
    s3_server: S3Server, slack: HttpSink, tmp_path: Path
) -> None:
    training = Training(s3_server)
    env = settings(s3_server, training, slack)

    def all_look(count: int) -> set[str]:
        watchers = [
            monitor.start(tmp_path / str(number), env, "--run-id", RUN, "--once", "--json") for number in range(count)
        ]
        outputs = [watcher.communicate(timeout=LIMIT_S) for watcher in watchers]
        return {json.loads(out)["status"] for out, _ in outputs}

    training.begin()
    # A beginning causes no alert, so one watcher is enough.
    assert all_look(1) == {"RUNNING"}
    training.fail()
    assert all_look(8) == {"FAILED"}
    assert Counter(alerts(slack)) == {f"❌ FAILED: {RUN}": 1}
    record = there(training.record())
    assert [entry["after"] for entry in record["history"]] == ["RUNNING", "FAILED"]
    assert record["delivered"] == 1


def test_killed_twenty_times_while_the_channel_fails_every_third_request(
    s3_server: S3Server, fault_proxy: FaultProxy, slack: HttpSink, tmp_path: Path
) -> None:
    """At any of the requests that it makes, before and after the store or the channel has it."""
    training = Training(s3_server)
    env = settings(
        s3_server,
        training,
        slack,
        AWS_ENDPOINT_URL=fault_proxy.url,
        LASTBEAT_SWEEP="lease_seconds:20",
        STALE_MINUTES="600",
    )
    assassin = Assassin()
    fault_proxy.witness = assassin.event
    slack.heard = assassin.event
    answered = 0

    def every_third_fails() -> Answer:
        nonlocal answered
        answered += 1
        return Answer(status=503) if answered % 3 == 0 else Answer()

    slack.answer = every_third_fails  # type: ignore[method-assign]
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    kills = transitions = 0
    ahead_s = 0.0
    deadline = time.monotonic() + 280

    def look() -> None:
        """A pass, or as much of it as it lives for, at the time that the store has come to."""
        nonlocal kills
        fault_proxy.clear()
        fault_proxy.inject(Stamp({"Date": format_datetime(now() + timedelta(seconds=ahead_s), usegmt=True)}))
        watcher = monitor.start(tmp_path, env, "--run-id", RUN, "--once", "--json")
        assassin.aim(watcher, chance.randint(1, MOMENTS) if kills < KILLS else 0)
        watcher.communicate(timeout=LIMIT_S)
        kills += watcher.returncode == -signal.SIGKILL

    while kills < KILLS:
        assert time.monotonic() < deadline, f"only {kills} kills (seed {seed})"
        record = training.record()
        waiting = sum(not d["sent_at"] for a in record["outbox"] for d in a["deliveries"].values()) if record else 0
        if transitions == 0 or (record is not None and record["transitions"] > transitions and waiting < 20):
            # The last thing that training did was seen; only then does it go on, so each must be told. And it does
            # not outrun what the outbox can hold, as no real run can.
            transitions = record["transitions"] if record else 0
            training.begin() if transitions % 2 == 0 else training.fail()
        elif waiting:
            # Claims of the dead run out, and a channel that failed is asked again.
            ahead_s += 5
        look()
    while (answer := monitor.once(tmp_path, env, RUN))["alerts"]["pending"]:
        assert time.monotonic() < deadline, f"alerts still wait: {answer} (seed {seed})"
        ahead_s += 20
        look()
    record = there(training.record())
    told = [json.loads(request.body)["text"] for request in slack.requests]
    missing = [n for n in training.failed if not any(f"RuntimeError: attempt {n}." in text for text in told)]
    assert (missing, record["dropped"]) == ([], 0), f"lost (seed {seed})"
    assert record["alerts"] == len(training.failed), f"decided twice (seed {seed})"
    assert record["delivered"] == len(training.failed)
