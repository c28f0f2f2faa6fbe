"""Clearing a run's folder: all of it, nothing else, and as often as it takes."""

from typing import TYPE_CHECKING

import pytest

from support.row_by_row import check_each

if TYPE_CHECKING:
    from contract.stores.conftest import Root
    from lastbeat.stores.port import Cleared


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
