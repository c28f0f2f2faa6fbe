"""A log in S3, appended to the only way there is: written again, whole or its last part."""

import pytest

from lastbeat.explain.signals.loading import load
from lastbeat.stores.registry import parse
from lastbeat.stores.retrying import RetryingStore
from lastbeat.stores.s3_store import s3_store
from lastbeat.watch.observe.listing import run_files
from lastbeat.watch.observe.logs import RunLogs
from support.proxy import FaultProxy, s3_error
from support.s3 import REGION, S3Server

NAME = "logs/rank3.log"
KEY = f"run-1/{NAME}"


def steps(first: int, count: int) -> str:
    return "".join(
        f"step {number}/10000 loss 2.5, a line as long as they are\n" for number in range(first, first + count)
    )


@pytest.mark.parametrize("window", [False, True])
def test_each_look_asks_once_for_what_is_new(s3_server: S3Server, fault_proxy: FaultProxy, *, window: bool) -> None:
    env = s3_server.environment() | {"AWS_ENDPOINT_URL": fault_proxy.url}
    store = RetryingStore(s3_store(parse(f"s3://{s3_server.bucket()}/runs"), env, region=REGION))
    logs = RunLogs(store, "run-1", lambda: load("default"))
    costs: list[tuple[int, int]] = []
    for count in (2000, 2100, 2200, 2300):
        store.write(KEY, steps(count - 2000 if window else 0, 2000 if window else count).encode())
        for _ in range(2):
            files = run_files(store, "run-1")
            fault_proxy.clear()
            report = logs.look(files)
            assert (report.step, report.notes, report.unread) == (count - 1, (), ())
            costs.append((fault_proxy.count("GET"), sum(asked.body_bytes for asked in fault_proxy.passed)))
    requests = [requests for requests, _ in costs]
    if window:
        assert requests == [1, 0, 2, 0, 1, 0, 1, 0]
    else:
        assert requests == [1, 0] * 4
        assert max(size for _, size in costs[1:]) < len(steps(0, 100)) + 5000


def test_a_store_that_refuses_the_log_is_no_sign_of_anything(s3_server: S3Server, fault_proxy: FaultProxy) -> None:
    env = s3_server.environment() | {"AWS_ENDPOINT_URL": fault_proxy.url}
    store = s3_store(parse(f"s3://{s3_server.bucket()}/runs"), env, region=REGION)
    logs = RunLogs(store, "run-1", lambda: load("default"))
    store.write(KEY, steps(0, 100).encode())
    files = run_files(store, "run-1")
    fault_proxy.inject(s3_error(403, "AccessDenied"))
    report = logs.look(files)
    assert (report.step, report.unread) == (None, (NAME,))
    assert "access denied" in report.notes[0]
    fault_proxy.clear()
    assert logs.look(files).step == 99
