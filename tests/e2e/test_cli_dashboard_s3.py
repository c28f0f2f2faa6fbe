"""``lastbeat dashboard`` over a bucket: what watching costs it, and a store that fails, hangs and comes back."""

import json
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from lastbeat.stores.kind import S3_LIST
from support.cli import LASTBEAT, start
from support.dashboard import run_dashboard
from support.proxy import FaultProxy, Stall
from support.recorder import run_recorder
from support.s3 import S3Server
from support.waiting import LIMIT_S, until

RUNS = 30
LISTING = S3_LIST.dollars({"LIST": 1})


def fleet_of(server: S3Server) -> str:
    """A bucket with runs that live."""
    bucket, client = server.bucket(), server.client()
    for number in range(RUNS):
        for name, body in (("metadata", '{"phase": "train"}'), ("progress", '{"step": 1, "total_steps": 9}')):
            client.put_object(Bucket=bucket, Key=f"training-runs/run-{number}/{name}.json", Body=body.encode())
    return bucket


def get(address: str) -> Any:
    try:
        with urlopen(address, timeout=LIMIT_S) as answer:
            return json.loads(answer.read())
    except HTTPError as refused:
        return json.loads(refused.read())


def test_however_many_watch_the_store_is_asked_for_a_listing_an_interval_at_most(
    s3_server: S3Server, tmp_path: Path
) -> None:
    bucket = fleet_of(s3_server)
    with run_recorder(s3_server.url) as recorder:
        settings = s3_server.environment() | {"AWS_ENDPOINT_URL": recorder.url}
        with run_dashboard(f"s3://{bucket}/training-runs", tmp_path, **settings) as address:
            until(lambda: get(f"{address}data/fleet"), lambda it: len(it["runs"]) == RUNS and it["unread"] == 0)
            for number in range(4):
                get(f"{address}data/runs/run-{number}")
            opened, began = len(recorder.calls), time.monotonic()

            def listings() -> int:
                return sum(call.action == "s3:ListBucket" for call in recorder.calls[opened:])

            def browse(number: int) -> int:
                asked = 0
                # On a machine that has much else to do as long as it takes for some listings.
                while (spent := time.monotonic() - began) < 8 or (spent < LIMIT_S and listings() <= 2):
                    get(f"{address}data/fleet?look=run-{number}")
                    get(f"{address}data/runs/run-{number % 4}")
                    asked += 1
                    time.sleep(0.2)
                return asked

            with ThreadPoolExecutor(12) as browsers:
                asked = sum(browsers.map(browse, range(12)))
            intervals = time.monotonic() - began
            calls = Counter(call.action for call in recorder.calls[opened:])
    cost = S3_LIST.dollars({"LIST": calls["s3:ListBucket"], "GET": calls["s3:GetObject"]})
    assert asked > 12
    assert calls["s3:ListBucket"] > 2
    assert set(calls) <= {"s3:ListBucket", "s3:GetObject"}
    # One more at either end, where a round had begun or was not yet paid for.
    assert cost <= (intervals + 2) * LISTING


def test_a_store_that_hangs_holds_up_neither_the_page_nor_the_end(
    s3_server: S3Server, fault_proxy: FaultProxy, tmp_path: Path
) -> None:
    fault_proxy.inject(Stall())
    settings: dict[str, Any] = s3_server.environment() | {"AWS_ENDPOINT_URL": fault_proxy.url}
    process = start(LASTBEAT, "dashboard", "--root", "s3://some-bucket/training-runs", cwd=tmp_path, **settings)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with urlopen(address, timeout=LIMIT_S) as page:
            assert page.status == 200
        fleet = get(f"{address}data/fleet")
        assert (fleet["at"], fleet["runs"]) == (None, [])
        known = fault_proxy.count()
        asked = until(fault_proxy.count, lambda count: count > known)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=LIMIT_S) == 0
        assert fault_proxy.count() == asked, "a request that is waited for is tried again"
    finally:
        process.kill()
        process.communicate()
