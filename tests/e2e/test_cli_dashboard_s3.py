"""``lastbeat dashboard`` over a bucket: what watching costs it, and a store that fails, hangs and comes back."""

import json
import signal
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from support.cli import LASTBEAT, start
from support.proxy import FaultProxy, Stall
from support.s3 import S3Server
from support.waiting import LIMIT_S, until


def get(address: str) -> Any:
    try:
        with urlopen(address, timeout=LIMIT_S) as answer:
            return json.loads(answer.read())
    except HTTPError as refused:
        return json.loads(refused.read())


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
