"""A fleet is found in one listing that passes over what no rule needs."""

from itertools import pairwise

import pytest

from lastbeat.model.fleet import Shard
from lastbeat.observe.fleet import FleetListing
from support.memory import MemoryStore

FILES = ("_watchdog.json", "logs/training_log_latest.txt", "metadata.json", "progress.json")


def _fleet(*runs: str) -> MemoryStore:
    store = MemoryStore()
    for run in runs:
        for name in FILES:
            store.put_text(f"{run}/{name}", "{}")
    return store


def _found(listing: FleetListing) -> dict[str, set[str]]:
    return {run.run_id: set(run.files) for run in listing}


def test_every_run_is_found_with_its_own_files() -> None:
    runs = [f"run-{number}" for number in range(700)]
    listing = FleetListing(_fleet(*runs))
    assert _found(listing) == {run: set(FILES) for run in runs}
    assert listing.pages == 3
    assert listing.done


@pytest.mark.parametrize("folder", ["_x", "checkpoints", "logs", "logs2", "n", "outputs", "zz", "größe"])
def test_a_hundred_thousand_checkpoints_cost_no_more_than_two_requests_more(folder: str) -> None:
    store = _fleet("run-1", "run-2", "run-3")
    pages = FleetListing(store)
    list(pages)
    for number in range(100_000):
        store.put_text(f"run-2/{folder}/{number:06}.pt", "")
    listing = FleetListing(store)
    assert _found(listing) == {run: set(FILES) for run in ("run-1", "run-2", "run-3")}
    assert listing.pages <= pages.pages + 2


def test_names_that_are_each_others_beginning_do_not_mix() -> None:
    runs = ["a", "a-1", "a.b", "a0", "a+", "A", "a=", "a@b:c"]
    assert _found(FleetListing(_fleet(*runs))) == {run: set(FILES) for run in runs}


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


def test_a_huge_folder_that_is_no_run_costs_two_requests() -> None:
    store = _fleet("run-1")
    for number in range(5000):
        store.put_text(f"_cache/{number:06}", "")
    listing = FleetListing(store)
    assert set(_found(listing)) == {"run-1"}
    assert listing.pages == 2


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


def test_a_listing_goes_on_where_the_last_one_stopped() -> None:
    store = _fleet(*(f"run-{number:03}" for number in range(300)))
    assert list(_found(FleetListing(store, after="run-297"))) == ["run-298", "run-299"]
