"""Every store writes a key whole, keeps its conditions, and lets one of many racing writers win."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from lastbeat.stores.port import ConflictError, Expect, Store
from lastbeat.stores.registry import parse
from lastbeat.stores.s3_store import s3_store
from lastbeat.stores.selftest import honours_conditions
from support.row_by_row import labelled
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
