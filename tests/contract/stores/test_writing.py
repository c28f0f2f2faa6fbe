"""Every store writes a key whole, keeps its conditions, lets one of many racing writers win, and clears a folder."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from lastbeat.stores.port import Cleared, ConflictError, Expect, Store
from lastbeat.stores.registry import parse
from lastbeat.stores.s3_store import s3_store
from lastbeat.stores.selftest import honours_conditions
from support.row_by_row import check_each, labelled
from support.s3 import REGION, S3Server
from support.there import there

if TYPE_CHECKING:
    from contract.stores.conftest import Root

KEY = "run-1/_watchdog.json"
WRITERS = 16


def _body(store: Store) -> bytes:
    blob = there(store.read(KEY, 1000))
    return blob.body


def test_an_update_of_a_missing_key_is_refused(store: Store) -> None:
    version = store.write(KEY, b"first")
    store.delete(KEY)
    with pytest.raises(ConflictError):
        store.write(KEY, b"second", version)
    assert store.read(KEY, 10) is None


def test_a_write_without_condition_replaces_everything(store: Store) -> None:
    store.write(KEY, b"a long first body")
    store.write(KEY, b"short")
    assert _body(store) == b"short"


def test_deleting_twice_is_no_error(store: Store) -> None:
    store.write(KEY, b"x")
    store.delete(KEY)
    store.delete(KEY)
    store.delete("never/there")
    assert store.read(KEY, 10) is None
    assert store.list("run-1/").entries == ()


def test_the_self_test_finds_that_conditions_are_kept_and_changes_nothing(store: Store) -> None:
    version = store.write(KEY, b"{}", Expect.NOTHING)
    assert honours_conditions(store, KEY, b"{}", version)
    blob = there(store.read(KEY, 10))
    assert (blob.body, blob.version) == (b"{}", version)


def _race(root: "Root", expects: list[Expect | str]) -> list[int]:
    """Indices of the writers that won, out of one for each condition, all let go at once."""
    barrier = Barrier(len(expects))
    stores = [root.open() for _ in expects]

    def write(index: int) -> bool:
        barrier.wait()
        try:
            stores[index].write(KEY, f"writer {index}".encode(), expects[index])
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(len(expects)) as pool:
        return [index for index, won in enumerate(pool.map(write, range(len(expects)))) if won]


def test_of_sixteen_that_create_at_once_one_wins(root: "Root", store: Store) -> None:
    for _ in range(root.races):
        (winner,) = _race(root, [Expect.NOTHING] * WRITERS)
        assert _body(store) == f"writer {winner}".encode()
        store.delete(KEY)


def test_of_sixteen_that_update_at_once_one_wins(root: "Root", store: Store) -> None:
    version = store.write(KEY, b"begin")
    for _ in range(root.races):
        (winner,) = _race(root, [version] * WRITERS)
        blob = there(store.read(KEY, 100))
        assert blob.body == f"writer {winner}".encode()
        version = store.write(KEY, b"begin again", blob.version)


@pytest.mark.parametrize(("key", "kind"), labelled([
    ("a page is a page", "_watchdog/index.html", "text/html; charset=utf-8"),
    ("a document is JSON", "run-1/metadata.json", "application/json"),
    ("what is neither is not said to be", "_watchdog/fleet.json.z", None),
]))  # fmt: skip
@pytest.mark.parametrize("name", ["s3_server", "seaweed"])
def test_a_browser_is_told_what_it_gets(name: str, key: str, kind: str | None, request: pytest.FixtureRequest) -> None:
    server: S3Server = request.getfixturevalue(name)
    bucket = server.bucket()
    version = s3_store(parse(f"s3://{bucket}/runs"), server.environment(), region=REGION).write(key, b"{}")
    answer = server.client().get_object(Bucket=bucket, Key=f"runs/{key}")
    assert version
    assert answer["Body"].read() == b"{}"
    if kind is None:
        assert answer["ContentType"] not in {"text/html; charset=utf-8", "application/json"}
    else:
        assert answer["ContentType"] == kind
    assert answer.get("CacheControl") == ("no-cache" if key.endswith(".html") else None)


def test_a_folder_is_cleared_and_nothing_beside_it(root: "Root") -> None:
    store = root.open()
    for key in ("a/_error", "a/logs/x.txt", "a/metadata.json", "a-b/metadata.json", "ab/_error", "_watchdog/a/x"):
        store.write(key, b"12345")
    cleared = store.clear("a/")
    assert (cleared.count, cleared.size_bytes, cleared.more) == (3, 15, False)
    assert store.list("a/").entries == ()
    # SeaweedFS shows a folder that has become empty for a while.
    assert set(store.folders()) - {"a"} == {"a-b", "ab", "_watchdog"}
    assert {entry.key for entry in store.list("").entries} == {"a-b/metadata.json", "ab/_error", "_watchdog/a/x"}


def test_one_key_may_stay_until_the_last(root: "Root") -> None:
    store = root.open()
    for key in ("a/_error", "a/_watchdog.json", "a/ranks/0.json", "a/ranks/1.json"):
        store.write(key, b"x")
    rounds: list[Cleared] = []
    while not rounds or rounds[-1].more:
        rounds.append(store.clear("a/", keep="_watchdog.json", limit=1))
        assert len(rounds) < 10
    assert sum(each.count for each in rounds) == 3
    assert [entry.key for entry in store.list("a/").entries] == ["a/_watchdog.json"]
    assert store.clear("a/").count == 1
    assert store.clear("a/").count == 0, "what is gone is no error"


def test_only_a_folder_right_below_the_root_is_cleared(root: "Root") -> None:
    store = root.open()
    store.write("a/b/c", b"x")

    def is_refused(prefix: str) -> None:
        with pytest.raises(ValueError, match=r"folder|key"):
            store.clear(prefix)
        assert store.read("a/b/c", 10) is not None

    check_each(((repr(prefix), (prefix,)) for prefix in ("", "a", "a/b/", "../", "./", "/")), is_refused)
