"""Names of runs for a prompt, found in a bucket without listing what comes before them."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat_cli.completion.takes import beginning_with, from_bucket
from support.memory import MemoryStore

NAMES = st.text(alphabet="ab-.:@=+_09Z", min_size=1, max_size=4).filter(lambda name: name not in {".", ".."})


def found(store: MemoryStore, typed: str) -> list[str]:
    return sorted(set(from_bucket(store, typed, math.inf)))


@given(st.sets(NAMES, max_size=12), NAMES)
def test_those_that_begin_so_are_found_and_no_others(names: set[str], typed: str) -> None:
    store = MemoryStore()
    for name in names:
        store.put_text(f"{name}/metadata.json", "{}")
        store.put_text(f"{name}/logs/a.txt", "")
    assert found(store, typed) == sorted(name for name in names if name.startswith(typed))


def test_a_run_of_many_files_is_stepped_over() -> None:
    store = MemoryStore()
    for number in range(2500):
        store.put_text(f"many/ranks/{number}.json", "{}")
    for name in ("man", "many-more", "other", "a"):
        store.put_text(f"{name}/metadata.json", "{}")
    store.calls.clear()
    assert found(store, "man") == ["man", "many", "many-more"]
    assert len(store.calls) <= 3


def test_what_takes_too_long_has_no_names(tmp_path: Path) -> None:
    store = MemoryStore()
    for number in range(2500):
        store.put_text(f"run-{number}/metadata.json", "{}")
    with pytest.raises(TimeoutError):
        list(from_bucket(store, "run", -math.inf))


ROOTS = [
    pytest.param("run-", ["run-1", "run-2"], id="those that begin so"),
    pytest.param("", ["other", "run-1", "run-2"], id="all, but hidden ones"),
    pytest.param(".", [".mine"], id="hidden ones"),
    pytest.param("x", [], id="none"),
]


@pytest.mark.parametrize(("typed", "names"), ROOTS)
def test_in_a_directory(tmp_path: Path, typed: str, names: list[str]) -> None:
    for name in ("run-1", "run-2", "other", ".mine", "_watchdog", "-rf", "no run"):
        (tmp_path / name).mkdir()
    assert beginning_with(typed, {"root": str(tmp_path)}, 30.0) == names
