"""What S3 and the network can do wrong, each told by its right name, within its time, and without a secret."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from contract.stores.test_s3_redirects import CALLS
from lastbeat.stores.port import (
    ConflictError,
    DeniedError,
    Expect,
    MissingStoreError,
    Store,
    StoreError,
    UnreachableError,
)
from lastbeat.stores.registry import parse
from lastbeat.stores.retrying import RetryingStore
from lastbeat.stores.s3_store import s3_store
from lastbeat.stores.selftest import honours_conditions
from support.proxy import (
    Answer,
    DropAnswer,
    Fault,
    FaultProxy,
    Reset,
    Stall,
    StallBody,
    Stamp,
    Strip,
    s3_error,
)
from support.row_by_row import check_each, labelled
from support.s3 import REGION, SECRET_KEY, S3Server
from support.there import there

KEY = "run-1/metadata.json"


@pytest.fixture
def url(s3_server: S3Server) -> str:
    return f"s3://{s3_server.bucket()}/runs"


@pytest.fixture
def env(s3_server: S3Server, fault_proxy: FaultProxy) -> dict[str, str]:
    return s3_server.environment() | {"AWS_ENDPOINT_URL": fault_proxy.url}


@pytest.fixture
def store(url: str, env: dict[str, str], fault_proxy: FaultProxy) -> Store:
    """A store with one run in it, behind the proxy."""
    made = s3_store(parse(url), env, region=REGION)
    made.write(KEY, b'{"step": 1}')
    fault_proxy.clear()
    return made


@pytest.fixture
def hurried(store: Store, url: str, env: dict[str, str]) -> Store:
    """The same, which waits for an answer for half a second only."""
    return s3_store(parse(url), env, region=REGION, connect_s=0.5, request_s=0.5)


@pytest.mark.parametrize(("fault", "kind", "says", "advises"), labelled([
    ("asked to slow down", s3_error(503, "SlowDown"), UnreachableError, "slow down", ""),
    ("an internal error", s3_error(500, "InternalError"), UnreachableError, "500", ""),
    ("too many requests", Answer(429, ""), UnreachableError, "429", ""),
    ("S3's own time-out", s3_error(400, "RequestTimeout"), UnreachableError, "gave up", ""),
    ("the connection breaks", Reset(), UnreachableError, "connection", "endpoint"),
    ("access denied", s3_error(403, "AccessDenied"), DeniedError, "denied", "s3:"),
    ("forbidden without a word", Answer(403, ""), DeniedError, "403", ""),
    ("an expired token", s3_error(400, "ExpiredToken"), DeniedError, "expired", "sso login"),
    ("a wrong access key", s3_error(403, "InvalidAccessKeyId", "<AWSAccessKeyId>AKIASECRETKEYID</AWSAccessKeyId>"),
     DeniedError, "access key is not known", "AWS_ACCESS_KEY_ID"),
    ("a wrong secret key", s3_error(403, "SignatureDoesNotMatch", "<StringToSign>AKIASECRETKEYID</StringToSign>"),
     DeniedError, "secret key", "AWS_SECRET_ACCESS_KEY"),
    ("our clock is off", s3_error(403, "RequestTimeTooSkewed"), DeniedError, "clock is off", "timedatectl"),
    ("a missing bucket", s3_error(404, "NoSuchBucket"), MissingStoreError, "no such bucket", "create"),
    ("the wrong region, which names the right one", s3_error(400, "AuthorizationHeaderMalformed",
     "<Region>eu-west-1</Region>"), MissingStoreError, "eu-west-1", "MONITORING_REGION=eu-west-1"),
    ("the wrong region, which names the right one in a header", Answer(301, "", {"x-amz-bucket-region": "eu-west-1"}),
     MissingStoreError, "eu-west-1", "MONITORING_REGION=eu-west-1"),
    ("the wrong region, which names none", s3_error(301, "PermanentRedirect"), MissingStoreError, "another region",
     "MONITORING_REGION"),
    ("a web server's 404", Answer(404, "<html>Not Found</html>"), StoreError, "object store", "endpoint"),
    ("a web page for everything", Answer(200, "<html>Log in to the hotel</html>"), StoreError, "", "endpoint"),
]))  # fmt: skip
def test_an_answer_is_told_by_its_kind(
    store: Store,
    fault_proxy: FaultProxy,
    fault: Fault,
    kind: type[StoreError],
    says: str,
    advises: str,
) -> None:
    fault_proxy.inject(fault)

    def is_told_by_its_kind(call: Callable[[Store], object]) -> None:
        with pytest.raises(StoreError) as raised:
            call(store)
        assert type(raised.value) is kind
        assert says in str(raised.value)
        assert advises in raised.value.advice
        _is_fit_for_people(raised.value)

    check_each(((name, (call,)) for name, call in CALLS.items()), is_told_by_its_kind)


def _is_fit_for_people(error: StoreError) -> None:
    shown = f"{error} {error.advice}"
    assert "\n" not in shown
    assert len(shown) < 300
    for never in ("<", "?", "AKIASECRETKEYID", SECRET_KEY, "Debug source"):
        assert never not in shown
    # Not in a traceback either.
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    "fault", [pytest.param(Stall(), id="no answer"), pytest.param(StallBody(), id="an answer that stops")]
)
def test_a_stalling_server_is_given_up_in_time(
    hurried: Store, fault_proxy: FaultProxy, call: Callable[[Store], object], fault: Fault
) -> None:
    fault_proxy.inject(fault)
    raised = _raised_by(call, hurried)
    if raised is None or isinstance(raised, ConflictError):
        # The status was all there was to say, and it had come.
        assert isinstance(fault, StallBody)
    else:
        assert type(raised) is UnreachableError
        assert "no answer in time" in str(raised)
        _is_fit_for_people(raised)


def _raised_by(call: Callable[[Store], object], store: Store) -> StoreError | None:
    try:
        call(store)
    except StoreError as error:
        return error
    return None


def test_a_lost_answer_leaves_the_write_done_and_the_outcome_unknown(store: Store, fault_proxy: FaultProxy) -> None:
    fault_proxy.inject(DropAnswer(), times=1)
    with pytest.raises(UnreachableError):
        RetryingStore(store).write("run-1/_watchdog.json", b"mine", Expect.NOTHING)
    assert there(store.read("run-1/_watchdog.json", 100)).body == b"mine"
    assert fault_proxy.count("PUT") == 1


def test_a_race_that_s3_calls_a_conflict_is_lost(store: Store, fault_proxy: FaultProxy) -> None:
    fault_proxy.inject(s3_error(409, "ConditionalRequestConflict"))
    for call in (CALLS["create"], CALLS["update"]):
        with pytest.raises(ConflictError):
            call(store)


def test_a_large_object_costs_what_was_asked_for(store: Store, s3_server: S3Server, fault_proxy: FaultProxy) -> None:
    store.write("run-1/_error", b"x" * 5_000_000)
    fault_proxy.clear()
    for part in ({"from_end": False}, {"from_end": True}, {"start": 3_000_000}):
        blob = there(store.read("run-1/_error", 4096, **part))
        assert (len(blob.body), blob.size_bytes) == (4096, 5_000_000)
    assert sum(p.body_bytes for p in fault_proxy.passed) == 3 * 4096


@pytest.mark.parametrize(("size", "from_end"), labelled([
    ("the start of a large object", 9_000_000, False),
    ("the end of a middling one", 5_000_000, True),
]))  # fmt: skip
def test_a_server_that_gives_no_ranges_is_read_all_the_same(
    store: Store, fault_proxy: FaultProxy, size: int, from_end: bool
) -> None:
    body = b"start" + b"x" * (size - 8) + b"end"
    store.write("run-1/_error", body)
    fault_proxy.inject(Strip(("Range",)))
    blob = there(store.read("run-1/_error", 4096, from_end=from_end))
    assert blob.body == (body[-4096:] if from_end else body[:4096])
    assert blob.size_bytes == size
    # The second lies behind the first piece that arrives.
    for start in (2, 1_000_000):
        assert there(store.read("run-1/_error", 6, start=start)).body == body[start : start + 6]


@pytest.mark.parametrize("part", [{"from_end": True}, {"start": 8_900_000}])
def test_a_part_far_inside_of_a_large_object_cannot_be_had_without_ranges(
    store: Store, fault_proxy: FaultProxy, part: dict[str, int]
) -> None:
    store.write("run-1/_error", b"x" * 9_000_000)
    fault_proxy.inject(Strip(("Range",)))
    with pytest.raises(StoreError, match="whole objects only"):
        store.read("run-1/_error", 4096, **part)  # type: ignore[arg-type]


@pytest.mark.parametrize("header", ["If-None-Match", "If-Match"])
def test_a_server_that_ignores_a_condition_is_found_out(store: Store, fault_proxy: FaultProxy, header: str) -> None:
    version = store.write("run-1/_watchdog.json", b"{}", Expect.NOTHING)
    fault_proxy.inject(Strip((header,)))
    assert not honours_conditions(store, "run-1/_watchdog.json", b"{}", version)
    assert there(store.read("run-1/_watchdog.json", 10)).body == b"{}"


def test_ages_go_by_the_servers_clock(store: Store, fault_proxy: FaultProxy) -> None:
    fault_proxy.inject(Stamp({"Date": "Fri, 01 Mar 2030 12:00:00 GMT"}), method="HEAD")
    first = store.clock()
    # A busy machine may take a while to ask.
    assert timedelta(0) <= first - datetime(2030, 3, 1, 12, tzinfo=timezone.utc) < timedelta(minutes=1)
    assert store.clock() >= first
    assert fault_proxy.count() == 2, "a time that is so far from ours is asked for twice"


def test_a_server_that_tells_no_time_leaves_our_own(
    hurried: Store, fault_proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    fault_proxy.inject(Reset())
    assert abs(hurried.clock().timestamp() - time.time()) < 60
    assert hurried.clock() <= hurried.clock()
    assert fault_proxy.count("HEAD") == 1, "it is asked once"
    assert caplog.records == [], "nobody knows yet whether there is a store at all"
    fault_proxy.clear()
    assert hurried.read("run-1/_error", 10) is None
    assert sum("does not tell its time" in r.message for r in caplog.records) == 1


def test_one_odd_time_is_not_believed(store: Store, fault_proxy: FaultProxy) -> None:
    fault_proxy.inject(Stamp({"Date": "Fri, 01 Mar 2030 12:00:00 GMT"}), method="HEAD", times=1)
    assert abs(store.clock().timestamp() - time.time()) < 60
