"""Requests stay at the endpoint's host: what a session token opens is nobody else's to see."""

from collections.abc import Callable, Iterator

import pytest

from lastbeat.stores.port import Expect, MissingStoreError, Store, StoreError
from lastbeat.stores.registry import parse
from lastbeat.stores.s3_store import s3_store
from support.proxy import Answer, FaultProxy, run_proxy
from support.row_by_row import check_each
from support.s3 import REGION, S3Server

KEY = "run-1/metadata.json"
_BOTO3 = "encoding-type=url"
"""What boto3 asks listings for, and obstore does not."""

CALLS: dict[str, Callable[[Store], object]] = {
    "list": lambda store: store.list("run-1/"),
    "folders": lambda store: store.folders(),
    "read": lambda store: store.read(KEY, 100),
    "read the middle": lambda store: store.read(KEY, 100, start=3),
    "read the end": lambda store: store.read(KEY, 100, from_end=True),
    "write": lambda store: store.write(KEY, b"{}"),
    "create": lambda store: store.write("run-1/new", b"{}", Expect.NOTHING),
    "update": lambda store: store.write(KEY, b"{}", '"abc"'),
    "delete": lambda store: store.delete(KEY),
}


@pytest.fixture
def elsewhere(s3_server: S3Server) -> Iterator[FaultProxy]:
    """Another way to the same server, which counts what comes."""
    with run_proxy(s3_server.url) as proxy:
        yield proxy


def _named(proxy: FaultProxy, host: str) -> str:
    return proxy.url.replace("127.0.0.1", host)


def _store(server: S3Server, endpoint: str, bucket: str = "bucket") -> Store:
    env = server.environment() | {"AWS_ENDPOINT_URL": endpoint, "AWS_SESSION_TOKEN": "a token of this session"}
    return s3_store(parse(f"s3://{bucket}/runs"), env, region=REGION, connect_s=2.0, request_s=5.0)


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_to_another_host_is_not_followed_and_said(
    s3_server: S3Server, fault_proxy: FaultProxy, elsewhere: FaultProxy, status: int
) -> None:
    there = f"{_named(elsewhere, 'localhost')}/bucket/runs/{KEY}?list-type=2"
    fault_proxy.inject(Answer(status, "", {"Location": there}))

    def is_not_followed(call: Callable[[Store], object]) -> None:
        elsewhere.clear()
        with pytest.raises(StoreError) as raised:
            call(_store(s3_server, fault_proxy.url))
        assert elsewhere.count() == 0
        assert not raised.value.retryable
        shown = f"{raised.value} {raised.value.advice}"
        assert "another" in shown
        assert "AWS_ENDPOINT_URL" in shown or "MONITORING_REGION" in shown
        assert "a token of this session" not in shown

    check_each(((name, (call,)) for name, call in CALLS.items()), is_not_followed)


def test_a_redirect_that_names_the_region_is_told_as_the_region(
    s3_server: S3Server, fault_proxy: FaultProxy, elsewhere: FaultProxy
) -> None:
    headers = {"Location": _named(elsewhere, "localhost"), "x-amz-bucket-region": "eu-west-1"}
    fault_proxy.inject(Answer(307, "", headers))
    with pytest.raises(MissingStoreError, match="lies in region eu-west-1"):
        _store(s3_server, fault_proxy.url).read(KEY, 10)
    assert elsewhere.count() == 0


@pytest.mark.parametrize("host", ["LocalHost", "127.1"])
def test_the_endpoint_is_its_own_host_however_it_is_written(
    s3_server: S3Server, fault_proxy: FaultProxy, host: str
) -> None:
    store = _store(s3_server, _named(fault_proxy, host), s3_server.bucket())
    store.write(KEY, b"here")
    blob = store.read(KEY, 10)
    assert blob is not None
    assert blob.body == b"here"


@pytest.mark.parametrize("call", [CALLS["list"], CALLS["folders"]])
def test_the_other_way_of_listing_follows_none_either(
    s3_server: S3Server, fault_proxy: FaultProxy, elsewhere: FaultProxy, call: Callable[[Store], object]
) -> None:
    bucket = s3_server.bucket()
    # A key that obstore has no name for sends listings through boto3.
    s3_server.client().put_object(Bucket=bucket, Key="runs//x", Body=b"1")
    s3_server.client().put_object(Bucket=bucket, Key="runs/run-1//x", Body=b"1")
    there = f"{_named(elsewhere, 'localhost')}/{bucket}?list-type=2"
    store = _store(s3_server, fault_proxy.url, bucket)
    call(store)
    assert any(_BOTO3 in passed.target for passed in fault_proxy.passed)
    fault_proxy.inject(Answer(307, "", {"Location": there}), contains=_BOTO3)
    with pytest.raises(StoreError):
        call(store)
    assert elsewhere.count() == 0


def test_asking_for_the_time_follows_none(s3_server: S3Server, fault_proxy: FaultProxy, elsewhere: FaultProxy) -> None:
    fault_proxy.inject(Answer(302, "", {"Location": _named(elsewhere, "localhost")}))
    _store(s3_server, fault_proxy.url).clock()
    assert elsewhere.count() == 0
    assert fault_proxy.count("HEAD") == 1
