"""A fleet is found in one listing that passes over what no rule needs."""

from itertools import pairwise

import pytest

from lastbeat.model.fleet import Shard
from lastbeat.watch.observe.fleet import FleetListing
from support.memory import MemoryStore
from support.paged import PagedStore
from support.pairwise import all_pairs

FILES = ("_watchdog.json", "logs/training_log_latest.txt", "metadata.json", "progress.json")


def _fleet(*runs: str) -> MemoryStore:
    store = MemoryStore()
    for run in runs:
        for name in FILES:
            store.put_text(f"{run}/{name}", "{}")
    return store


def _found(listing: FleetListing) -> dict[str, set[str]]:
    return {run.run_id: set(run.files) for run in listing}


def test_what_is_no_run_is_passed_over_and_named() -> None:
    store = _fleet("run-1")
    for key in (
        "README.md",
        "zz.txt",
        "my run/metadata.json",
        "_private/metadata.json",
        "data/train.bin",
        "ü/metadata.json",
    ):
        store.put_text(key, "{}")
    store.put_text("_watchdog/last_pass.json", "{}")
    listing = FleetListing(store)
    assert set(_found(listing)) == {"run-1"}
    assert listing.ignored == ["_private", "my run", "ü"]
    assert set(listing.own) == {"last_pass.json"}


def test_shards_cover_the_fleet_without_overlap() -> None:
    runs = sorted((f"run{mark}{number}" for mark in ("", "-", ".", "_") for number in range(40)), key=lambda r: r + "/")
    store = _fleet(*runs)
    cuts = ["", *runs[10::35], ""]
    found: list[str] = []
    for after, until in pairwise(cuts):
        shard = Shard(after, until)
        part = list(_found(FleetListing(store, shard)))
        assert all(shard.holds(run) for run in part)
        found += part
    assert sorted(found) == sorted(set(runs))


def _in_parts(store: MemoryStore, pages: int) -> tuple[list[str], list[int]]:
    """What listings of so many pages find, each going on where the last one stopped, and how many pages each took."""
    found: list[str] = []
    took: list[int] = []
    after, done = "", False
    while not done:
        listing = FleetListing(store, after=after, most_pages=pages)
        found += list(_found(listing))
        took.append(listing.pages)
        assert listing.done or listing.reached != after, "it goes on"
        after, done = listing.reached, listing.done
    return found, took


@pytest.mark.parametrize(
    ("pages", "most", "order"), all_pairs([1, 2, 3], [1, 2, 3, 5, 7, 40], ["keys in order", "folder by folder"])
)
def test_parts_of_so_many_pages_cover_everything_once(pages: int, most: int, order: str) -> None:
    runs = [f"run{mark}{number}" for mark in ("", "-", ".", "_") for number in range(5)]
    store = PagedStore(most, by_folder=order == "folder by folder")
    for run in runs:
        for name in FILES:
            store.put_text(f"{run}/{name}", "{}")
    for key in ("README.md", "_private/x", "my run/x", "zz.txt"):
        store.put_text(key, "")
    found, took = _in_parts(store, pages)
    assert sorted(found) == sorted(runs)
    # More than it was told only where one folder takes that many.
    assert max(took) <= max(pages, 2 + len(FILES) // most + 1)


def test_a_part_that_holds_no_folder_goes_on_until_one_is_seen() -> None:
    store = PagedStore(10)
    for number in range(200):
        store.put_text(f"loose-{number:03}", "")
    for name in FILES:
        store.put_text(f"run-1/{name}", "{}")
    found, took = _in_parts(store, 1)
    assert found == ["run-1"]
    assert sum(took) <= 25
