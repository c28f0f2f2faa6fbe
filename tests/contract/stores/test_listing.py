"""Every store lists in the order of the keys' bytes, page after page; a prefix is a folder, and each is named."""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from contract.stores.conftest import READ
from lastbeat.stores.directory import DirectoryStore
from lastbeat.stores.port import Entry, Store
from lastbeat.stores.registry import parse
from lastbeat.stores.s3_store import s3_store
from support.row_by_row import check_each

if TYPE_CHECKING:
    from contract.stores.conftest import Root
    from support.s3 import S3Server

KINDS = READ
HOSTILE = [
    "run 1/meta data.json",
    'run"1/say "hi".json',
    "run+1/a+b&c=d;e.json",
    "run=@:1/x.json",
    "run%20/1%2F.json",
    "lauf-ü/größe.json",
    "run-🔥/🙂.json",
    "run-<1>/{x}|^`.json",
    "run\\1/back\\slash.json",
]


def _put(store: Store, keys: list[str]) -> None:
    # The writers of a folder take turns, and give up after a few seconds of waiting for the others.
    with ThreadPoolExecutor(1 if isinstance(store, DirectoryStore) else 8) as pool:
        list(pool.map(lambda key: store.write(key, key.encode()), keys))


def _keys(store: Store, prefix: str, start_after: str = "", limit: int = 1000) -> list[str]:
    return [entry.key for entry in store.list(prefix, start_after, limit).entries]


def _in_order(root: "Root", keys: list[str]) -> list[str]:
    return sorted(keys, key=lambda k: [part.encode() for part in k.split("/")] if root.by_folder else [k.encode()])


def _all_pages(store: Store, prefix: str, limit: int) -> list[Entry]:
    found: list[Entry] = []
    more = True
    while more:
        page = store.list(prefix, found[-1].key if found else "", limit)
        found += page.entries
        more = page.more and bool(page.entries)
    return found


def test_more_keys_than_one_page_holds_are_all_found_once_and_in_order(store: Store) -> None:
    keys = [f"run-1/checkpoints/{n:05}.pt" for n in range(1030)] + ["run-1/_error", "run-1/metadata.json"]
    _put(store, keys)
    first = store.list("run-1/")
    assert len(first.entries) == 1000
    assert first.more
    assert [e.key for e in _all_pages(store, "run-1/", 1000)] == sorted(keys)
    # Over the folder of checkpoints in one step.
    assert _keys(store, "run-1/", "run-1/checkpoints0") == ["run-1/metadata.json"]
    assert _keys(store, "run-1/", "run-1/checkpoints/01028.pt") == [
        "run-1/checkpoints/01029.pt",
        "run-1/metadata.json",
    ]


def test_small_pages_go_through_everything(root: "Root", store: Store) -> None:
    keys = ["Z/1", "a-b/1", "a.b", "a/b", "a/b-c", "a/c/d", "a0/1", "ab", "ä/1"]
    _put(store, keys)
    expected = _in_order(root, keys)
    for limit in (1, 2, 9):
        found = _all_pages(store, "", limit)
        assert [e.key for e in found] == expected
        assert [e.size_bytes for e in found] == [len(k.encode()) for k in expected]


# What a store that lists folder by folder has after texts that are no key of its own.
BY_FOLDER = {
    "r/a/1": ["r/a/2", "r/a-b", "r/a0", "r/b"],
    "r/a": ["r/a-b", "r/a0", "r/b"],
    "r/a/": ["r/a/1", "r/a/2", "r/a-b", "r/a0", "r/b"],
    "r/a/~": ["r/a-b", "r/a0", "r/b"],
    "r/a-zz": ["r/a0", "r/b"],
}


STARTS = {
    "nothing: all": ("", ["r/a-b", "r/a/1", "r/a/2", "r/a0", "r/b"]),
    "a key: what follows it": ("r/a/1", ["r/a/2", "r/a0", "r/b"]),
    "a folder's name: the folder too": ("r/a", ["r/a-b", "r/a/1", "r/a/2", "r/a0", "r/b"]),
    "a folder: what is in it": ("r/a/", ["r/a/1", "r/a/2", "r/a0", "r/b"]),
    "the end of a folder: what follows the folder": ("r/a/~", ["r/a0", "r/b"]),
    "a key that is not there": ("r/a-zz", ["r/a/1", "r/a/2", "r/a0", "r/b"]),
    "behind everything": ("r/z", []),
    "before the prefix": ("q", ["r/a-b", "r/a/1", "r/a/2", "r/a0", "r/b"]),
    "behind the prefix": ("s", []),
}


def test_a_listing_starts_after_any_text(root: "Root", store: Store) -> None:
    _put(store, ["q/x", "r/a-b", "r/a/1", "r/a/2", "r/a0", "r/b", "t/x"])

    def starts_after(text: str, expected: list[str]) -> None:
        if root.by_folder:
            expected = BY_FOLDER.get(text, _in_order(root, expected))
        assert _keys(store, "r/", text) == expected

    check_each(STARTS.items(), starts_after)


def test_a_prefix_is_a_folder_and_not_the_begin_of_a_name(store: Store) -> None:
    _put(store, ["run-1/metadata.json", "run-10/metadata.json", "run-1.json"])
    assert _keys(store, "run-1/") == ["run-1/metadata.json"]


def test_an_empty_root_and_a_missing_folder_list_as_empty(store: Store) -> None:
    assert store.list("").entries == ()
    page = store.list("run-1/")
    assert (page.entries, page.more) == ((), False)


def test_keys_with_any_characters_go_in_and_come_out_unchanged(root: "Root", store: Store) -> None:
    keys = [key for key in HOSTILE if not (root.backslash_is_slash and "\\" in key)]
    _put(store, keys)
    assert _keys(store, "") == _in_order(root, keys)
    for key in keys:
        blob = store.read(key, 1000)
        assert blob is not None
        assert blob.body == key.encode()
        folder = key.split("/")[0] + "/"
        assert _keys(store, folder, folder) == [key]


def test_a_root_without_keys_has_no_folders(store: Store) -> None:
    assert store.folders() == ()


def test_each_folder_is_named_once_and_files_of_the_root_are_not(store: Store) -> None:
    for key in ("a/x", "a/b/c", "a-1/x", "a0/x", "_watchdog/y", "stray", "lauf-ü/x", "run=@:1/x"):
        store.write(key, b"1")
    assert sorted(store.folders()) == sorted(["_watchdog", "a", "a-1", "a0", "lauf-ü", "run=@:1"])


@pytest.mark.parametrize("key", ["training runs//x", "training runs/zz//x"])
def test_a_key_without_a_name_hides_no_folder(s3_server: "S3Server", key: str) -> None:
    bucket = s3_server.bucket()
    store = s3_store(parse(f"s3://{bucket}/training runs"), s3_server.environment(), region="us-east-1")
    store.write("a/x", b"1")
    s3_server.client().put_object(Bucket=bucket, Key=key, Body=b"1")
    assert set(store.folders()) - {"zz"} == {"a"}
