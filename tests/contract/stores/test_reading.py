"""Every store reads what was written, a part of it at most, and knows what is not there."""

from datetime import timedelta

import pytest

from contract.stores.conftest import READ
from lastbeat.stores.port import Store
from support.row_by_row import check_each
from support.there import there

KINDS = READ
BODY = b"first line\n" + bytes(range(256)) * 40 + b"\nlast line"


BOUNDED = {
    "the first bytes": (10, False, BODY[:10]),
    "the last bytes": (9, True, BODY[-9:]),
    "one byte": (1, False, BODY[:1]),
    "exactly all": (len(BODY), False, BODY),
    "more than there is, from the start": (1 << 20, False, BODY),
    "more than there is, from the end": (1 << 20, True, BODY),
    "nothing, only to know of it": (0, False, b""),
}


def test_a_read_is_bounded_and_knows_the_whole_size(store: Store) -> None:
    store.write("run-1/metadata.json", BODY)

    def is_bounded(limit_bytes: int, from_end: bool, expected: bytes) -> None:
        blob = there(store.read("run-1/metadata.json", limit_bytes, from_end=from_end))
        assert blob.body == expected
        assert blob.size_bytes == len(BODY)

    check_each(BOUNDED.items(), is_bounded)


STARTED = {
    "from the first byte on": (0, 10, BODY[:10]),
    "a part of the middle": (5, 10, BODY[5:15]),
    "all the rest, and room for more": (1000, 1 << 20, BODY[1000:]),
    "the last byte": (len(BODY) - 1, 10, BODY[-1:]),
    "right behind the end": (len(BODY), 10, b""),
    "far behind the end": (1 << 30, 10, b""),
    "nothing, only to know of it": (5, 0, b""),
}


def test_a_read_may_start_anywhere_and_behind_the_end_there_is_nothing(store: Store) -> None:
    version = store.write("run-1/logs/rank0.log", BODY)

    def starts_there(start: int, limit_bytes: int, expected: bytes) -> None:
        blob = there(store.read("run-1/logs/rank0.log", limit_bytes, start=start))
        assert (blob.body, blob.size_bytes, blob.version) == (expected, len(BODY), version)

    check_each(STARTED.items(), starts_there)


def test_behind_the_end_of_an_empty_or_a_missing_object_is_nothing(store: Store) -> None:
    version = store.write("run-1/logs/rank0.log", b"")
    blob = there(store.read("run-1/logs/rank0.log", 100, start=7))
    assert (blob.body, blob.size_bytes, blob.version) == (b"", 0, version)
    assert store.read("run-1/logs/rank1.log", 100, start=7) is None


@pytest.mark.parametrize("from_end", [False, True])
def test_an_empty_object_is_there_and_empty(store: Store, from_end: bool) -> None:
    version = store.write("run-1/_complete", b"")
    blob = there(store.read("run-1/_complete", 100, from_end=from_end))
    assert (blob.body, blob.size_bytes, blob.version) == (b"", 0, version)
    assert abs(blob.modified - store.clock()) < timedelta(minutes=1)


MISSING = {
    "a missing key": "run-1/_error",
    "a missing folder": "run-2/_error",
    "a key below a key": "run-1/metadata.json/x",
    "a folder itself": "run-1",
}


def test_what_is_not_there_reads_as_none(store: Store) -> None:
    store.write("run-1/metadata.json", b"{}")

    def reads_as_none(key: str, from_end: bool) -> None:
        assert store.read(key, 100, from_end=from_end) is None

    ends = (("from the start", False), ("from the end", True))
    check_each(
        ((f"{what}, {end}", (key, from_end)) for what, key in MISSING.items() for end, from_end in ends), reads_as_none
    )


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


def test_what_was_written_now_is_about_as_old_as_the_stores_clock_says(store: Store) -> None:
    before = store.clock()
    store.write("run-1/metadata.json", b"{}")
    blob = there(store.read("run-1/metadata.json", 1))
    # Stores count whole seconds, and clocks that differ by less than two are taken for the same.
    assert before - timedelta(seconds=3) <= blob.modified <= store.clock() + timedelta(seconds=3)
    assert blob.modified.utcoffset() == timedelta(0)
    assert store.clock().utcoffset() == timedelta(0)
