"""Every store reads what was written, a part of it at most, and knows what is not there."""

from datetime import timedelta

import pytest

from contract.stores.conftest import READ
from lastbeat.stores.port import Store

KINDS = READ
BODY = b"first line\n" + bytes(range(256)) * 40 + b"\nlast line"


@pytest.mark.parametrize(
    ("limit_bytes", "from_end", "expected"),
    [
        pytest.param(10, False, BODY[:10], id="the first bytes"),
        pytest.param(9, True, BODY[-9:], id="the last bytes"),
        pytest.param(1, False, BODY[:1], id="one byte"),
        pytest.param(len(BODY), False, BODY, id="exactly all"),
        pytest.param(1 << 20, False, BODY, id="more than there is, from the start"),
        pytest.param(1 << 20, True, BODY, id="more than there is, from the end"),
        pytest.param(0, False, b"", id="nothing, only to know of it"),
    ],
)
def test_a_read_is_bounded_and_knows_the_whole_size(
    store: Store, limit_bytes: int, from_end: bool, expected: bytes
) -> None:
    store.write("run-1/metadata.json", BODY)
    blob = store.read("run-1/metadata.json", limit_bytes, from_end=from_end)
    assert blob is not None
    assert blob.body == expected
    assert blob.size_bytes == len(BODY)


@pytest.mark.parametrize(
    ("start", "limit_bytes", "expected"),
    [
        pytest.param(0, 10, BODY[:10], id="from the first byte on"),
        pytest.param(5, 10, BODY[5:15], id="a part of the middle"),
        pytest.param(1000, 1 << 20, BODY[1000:], id="all the rest, and room for more"),
        pytest.param(len(BODY) - 1, 10, BODY[-1:], id="the last byte"),
        pytest.param(len(BODY), 10, b"", id="right behind the end"),
        pytest.param(1 << 30, 10, b"", id="far behind the end"),
        pytest.param(5, 0, b"", id="nothing, only to know of it"),
    ],
)
def test_a_read_may_start_anywhere_and_behind_the_end_there_is_nothing(
    store: Store, start: int, limit_bytes: int, expected: bytes
) -> None:
    version = store.write("run-1/logs/rank0.log", BODY)
    blob = store.read("run-1/logs/rank0.log", limit_bytes, start=start)
    assert blob is not None
    assert (blob.body, blob.size_bytes, blob.version) == (expected, len(BODY), version)


def test_behind_the_end_of_an_empty_or_a_missing_object_is_nothing(store: Store) -> None:
    version = store.write("run-1/logs/rank0.log", b"")
    blob = store.read("run-1/logs/rank0.log", 100, start=7)
    assert blob is not None
    assert (blob.body, blob.size_bytes, blob.version) == (b"", 0, version)
    assert store.read("run-1/logs/rank1.log", 100, start=7) is None


@pytest.mark.parametrize("from_end", [False, True])
def test_an_empty_object_is_there_and_empty(store: Store, from_end: bool) -> None:
    version = store.write("run-1/_complete", b"")
    blob = store.read("run-1/_complete", 100, from_end=from_end)
    assert blob is not None
    assert (blob.body, blob.size_bytes, blob.version) == (b"", 0, version)
    assert abs(blob.modified - store.clock()) < timedelta(minutes=1)


@pytest.mark.parametrize("from_end", [False, True])
@pytest.mark.parametrize(
    "key",
    [
        pytest.param("run-1/_error", id="a missing key"),
        pytest.param("run-2/_error", id="a missing folder"),
        pytest.param("run-1/metadata.json/x", id="a key below a key"),
        pytest.param("run-1", id="a folder itself"),
    ],
)
def test_what_is_not_there_reads_as_none(store: Store, key: str, from_end: bool) -> None:
    store.write("run-1/metadata.json", b"{}")
    assert store.read(key, 100, from_end=from_end) is None


def test_write_read_and_listing_show_one_version(store: Store) -> None:
    written = store.write("run-1/metadata.json", b'{"step": 1}')
    blob = store.read("run-1/metadata.json", 4)
    tail = store.read("run-1/metadata.json", 4, from_end=True)
    (entry,) = store.list("run-1/").entries
    assert blob is not None
    assert tail is not None
    assert written == blob.version == tail.version == entry.version
    assert blob.modified == tail.modified == entry.modified
    assert entry.size_bytes == blob.size_bytes == 11


def test_another_body_is_another_version(store: Store) -> None:
    first = store.write("run-1/metadata.json", b'{"step": 1}')
    assert store.write("run-1/metadata.json", b'{"step": 2}') != first


def test_what_was_written_now_is_about_as_old_as_the_stores_clock_says(store: Store) -> None:
    before = store.clock()
    store.write("run-1/metadata.json", b"{}")
    blob = store.read("run-1/metadata.json", 1)
    assert blob is not None
    # Stores count whole seconds, and clocks that differ by less than two are taken for the same.
    assert before - timedelta(seconds=3) <= blob.modified <= store.clock() + timedelta(seconds=3)
    assert blob.modified.utcoffset() == timedelta(0)
    assert store.clock().utcoffset() == timedelta(0)
