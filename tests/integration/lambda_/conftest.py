"""The very zip that is deployed, built once, and a fleet of its own for each test."""

import json
import os
import platform
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from support.checkout import ROOT
from support.lambda_runtime import Environment, environment
from support.made_once import made_once
from support.proxy import FaultProxy
from support.s3 import S3Server
from support.sns import Topic, topic

RUNTIMES = [(3, 11), (3, 12), (3, 13), (3, 14)]
PREFIX = "training-runs"


ARCHITECTURE, OTHER = ("x86_64", "arm64") if platform.machine() == "x86_64" else ("arm64", "x86_64")
CLUSTER = """\
description: What happens on our cluster only.
extends: [parts/licences.yaml, megatron_production]
signals:
  cuda_out_of_memory: {hint: 'Use the profile small-batch.'}
"""
LICENCES = """\
extends: []
error_types:
  licence: {restartable: true, meaning: The licence server has no seat left., hint: lmstat -a}
signals:
  seat_denied:
    pattern: 'LicenceError: no seat for (?P<product>\\w{1,40})'
    error_type: licence
    severity: critical
    verdict: crash
    hint: 'No seat for {product}: lmstat -a shows who holds them.'
"""


def package(out: Path, architecture: str = ARCHITECTURE, *more: str) -> Path:
    """Build the zip for this Python, and for this machine unless said otherwise."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    options = ("--architecture", architecture, "--runtime", version, "--out", str(out), *more)
    command, env = [str(ROOT / "infra" / "package.sh"), *options], {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="session")
def function_zip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.version_info[:2] not in RUNTIMES:
        pytest.skip("Lambda has no such Python, so there is no zip for it")
    return made_once(tmp_path_factory, "zip", lambda folder: package(folder / "lambda.zip")) / "lambda.zip"


@pytest.fixture(scope="session")
def own_zip(function_zip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of the other architecture, with a user's own catalogue. ``function_zip`` knows where there can be none."""

    def made(folder: Path) -> None:
        (folder / "parts").mkdir()
        (folder / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
        (folder / "parts" / "licences.yaml").write_text(LICENCES, encoding="utf-8")
        package(folder / "lambda.zip", OTHER, "--signals", str(folder / "cluster.yaml"))

    return made_once(tmp_path_factory, "own-zip", made) / "lambda.zip"


@pytest.fixture(scope="session")
def function(function_zip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip, unpacked as Lambda does it."""

    def unpack(folder: Path) -> None:
        with zipfile.ZipFile(function_zip) as archive:
            archive.extractall(folder)

    return made_once(tmp_path_factory, "task", unpack)


@dataclass
class Deployed:
    """A function with its bucket, topic and queue; ``start`` gives an execution environment of it."""

    server: S3Server
    s3: Any
    sqs: Any
    folder: Path
    scratch: Path
    bucket: str
    topic: Topic
    queue_url: str
    stack: ExitStack
    variables: dict[str, str]
    numbers: Iterator[int] = field(default_factory=count)

    def start(self, **more: str) -> Environment:
        log = self.scratch / f"{next(self.numbers)}.log"
        running: AbstractContextManager[Environment] = environment(self.folder, log, self.variables | more)
        return self.stack.enter_context(running)

    def through(self, proxy: FaultProxy) -> None:
        self.variables["AWS_ENDPOINT_URL"] = proxy.url

    def put(self, run_id: str, name: str, text: str = "") -> None:
        self.s3.put_object(Bucket=self.bucket, Key=f"{PREFIX}/{run_id}/{name}", Body=text.encode())

    def beat(self, run_id: str) -> None:
        self.put(run_id, "metadata.json", json.dumps({"run_id": run_id, "phase": "train"}))

    def ended_under_watch(self, names: Sequence[str]) -> None:
        """Runs that a pass saw alive and that have completed since: what a first pass finds ended is one notice."""
        for name in names:
            self.beat(name)
        self.start().invoke(SCHEDULE)
        for name in names:
            self.put(name, "_complete")

    def record(self, run_id: str) -> dict[str, Any]:
        key = f"{PREFIX}/{run_id}/_watchdog.json"
        found: dict[str, Any] = json.loads(self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read())
        return found

    def alerts(self) -> list[tuple[str, str]]:
        """Run id and status of each alert that was published since the last call, in order."""
        told = [json.loads(each["Message"]) for each in self.topic.received()]
        return sorted((each["run_id"], each["status"]) for each in told)

    def messages(self) -> list[dict[str, Any]]:
        """What lies in the queue, as Lambda hands it to the function; the queue is empty afterwards."""
        found: list[dict[str, Any]] = []
        while batch := self.sqs.receive_message(
            QueueUrl=self.queue_url, MaxNumberOfMessages=10, AttributeNames=["SentTimestamp"]
        ).get("Messages"):
            for each in batch:
                found.append(message(each["MessageId"], each["Body"], **each.get("Attributes", {})))
                self.sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=each["ReceiptHandle"])
        return found


def message(number: str, body: object, **attributes: str) -> dict[str, Any]:
    text = body if isinstance(body, str) else json.dumps(body)
    arn = "arn:aws:sqs:us-east-1:123456789012:lastbeat"
    return {
        "messageId": number,
        "receiptHandle": "handle",
        "body": text,
        "attributes": attributes,
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": "us-east-1",
    }


def object_created(bucket: str, key: str) -> dict[str, Any]:
    """As EventBridge hands on what S3 tells it."""
    return {
        "version": "0",
        "source": "aws.s3",
        "detail-type": "Object Created",
        "account": "123456789012",
        "region": "us-east-1",
        "detail": {"bucket": {"name": bucket}, "object": {"key": key, "size": 0}, "reason": "PutObject"},
    }


SCHEDULE = {"version": "0", "source": "aws.scheduler", "detail-type": "Scheduled Event", "detail": "{}"}


@pytest.fixture(scope="session")
def clients(s3_server: S3Server) -> tuple[Any, Any]:
    """S3 and SQS: a client takes longer to make than most of what it is asked."""
    return s3_server.client(), s3_server.sqs()


@pytest.fixture
def deployed(s3_server: S3Server, clients: tuple[Any, Any], function: Path, tmp_path: Path) -> Iterator[Deployed]:
    with deployment(s3_server, clients, function, tmp_path) as made:
        yield made


@contextmanager
def deployment(s3_server: S3Server, clients: tuple[Any, Any], function: Path, tmp_path: Path) -> Iterator[Deployed]:
    """``function`` with a bucket, a topic and a queue that nobody else has."""
    s3, sqs = clients
    alerts = topic(s3_server)
    queue = sqs.create_queue(QueueName=f"work-{alerts.arn[-12:]}")["QueueUrl"]
    bucket = s3_server.bucket()
    variables = s3_server.environment() | {
        "MONITORING_BUCKET": bucket,
        "MONITORING_PREFIX": PREFIX,
        "MONITORING_REGION": "us-east-1",
        "SNS_TOPIC_ARN": alerts.arn,
        "LASTBEAT_STATE_DIR": str(tmp_path / "state"),
        "LASTBEAT_QUEUE_URL": queue,
        "LASTBEAT_SLACK_WEBHOOK_FROM": "",
    }
    with ExitStack() as stack:
        yield Deployed(s3_server, s3, sqs, function, tmp_path, bucket, alerts, queue, stack, variables)
