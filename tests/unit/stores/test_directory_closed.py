"""What may not be looked at in a directory is said by its name, at whatever depth, and hides nothing beside it."""

import errno
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.stores.directory import DirectoryStore
from lastbeat.stores.folder_walk import MOST_DEEP
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from support.closed import as_nobody, open_place

BESIDE = ("a/metadata.json", "a0/metadata.json", "z/metadata.json")
"""Runs before and behind the one that something is wrong with."""


def _fleet(place: Path) -> DirectoryStore:
    store = DirectoryStore(place)
    for key in (*BESIDE, "run/_error", "run/ckpt/1/deep/x.pt", "run/logs/rank0.log", "run/metadata.json"):
        store.write(key, b"{}")
    return store


def _fail_to_open(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    real = os.open

    def failing(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == name:
            raise OSError(number, os.strerror(number))
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", failing)


ONLY_NAMES = 0o444
"""They can be listed, and nothing else can be known of them."""
CLOSED: list[tuple[str, int, set[str], set[str]]] = [
    ("run/logs", ONLY_NAMES, {"run/logs/rank0.log"}, {"run/logs/rank0.log"}),
    ("run", ONLY_NAMES, {"run/_error", "run/ckpt/", "run/logs/", "run/metadata.json"},
     {"run/_error", "run/ckpt/1/deep/x.pt", "run/logs/rank0.log", "run/metadata.json"}),
]  # fmt: skip


@pytest.mark.parametrize(("folder", "mode", "faults", "hidden"), CLOSED)
def test_a_folder_that_may_not_be_looked_into_is_named_and_all_else_is_listed(
    place: Path, folder: str, mode: int, faults: set[str], hidden: set[str]
) -> None:
    store = _fleet(place)
    every = {entry.key for entry in store.list("").entries}
    (place / folder).chmod(mode)
    with as_nobody():
        page = store.list("")
        assert {entry.key for entry in page.entries if entry.fault is None} == every - hidden
        assert {entry.key for entry in page.entries if entry.fault is not None} == faults
        for entry in page.entries:
            if entry.fault is not None:
                assert isinstance(entry.fault, DeniedError)
                assert entry.key in str(entry.fault)
                assert "Permission denied" in str(entry.fault)
                assert entry.fault.advice
        assert [entry.key for entry in page.entries] == sorted(entry.key for entry in page.entries)


def test_who_may_only_read_is_told_what_is_denied(place: Path) -> None:
    store = _fleet(place)
    with as_nobody():
        for call in (
            lambda: store.write("run/x", b""),
            lambda: store.write("new/x", b""),
            lambda: store.delete("run/metadata.json"),
        ):
            with pytest.raises(DeniedError, match="not allowed to"):
                call()
        store.clock()


def test_a_root_of_which_only_the_names_of_runs_are_to_be_guessed_can_be_watched_by_name(place: Path) -> None:
    store = _fleet(place)
    place.chmod(0o711)
    with as_nobody():
        assert store.read("run/metadata.json", 10) is not None
        assert "run/metadata.json" in {entry.key for entry in store.list("run/").entries}
        with pytest.raises(DeniedError, match="list the directory"):
            store.list("")
        with pytest.raises(DeniedError):
            store.folders()


@pytest.mark.parametrize(
    ("number", "kind", "name", "fault"),
    [
        (errno.EACCES, DeniedError, "run", "run/"),
        (errno.EPERM, DeniedError, "ckpt", "run/ckpt/"),
        (errno.EIO, UnreachableError, "run", "run/"),
        (errno.ESTALE, UnreachableError, "deep", "run/ckpt/1/deep/"),
        (errno.ENOTCONN, UnreachableError, "run", "run/"),
        (errno.ETIMEDOUT, UnreachableError, "ckpt", "run/ckpt/"),
        (errno.EUCLEAN, StoreError, "run", "run/"),
    ],
)
def test_whatever_the_file_system_says_of_a_folder_concerns_that_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[StoreError], name: str, fault: str
) -> None:
    store = _fleet(place)
    _fail_to_open(monkeypatch, name, number)
    entries = store.list("").entries
    assert {entry.key: type(entry.fault) for entry in entries if entry.fault is not None} == {fault: kind}
    assert set(BESIDE) <= {entry.key for entry in entries if entry.fault is None}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM], ids=errno.errorcode.get)
def test_what_this_process_lacks_is_no_fault_of_a_folder(
    place: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store = _fleet(place)
    _fail_to_open(monkeypatch, "run", number)
    with pytest.raises(StoreError, match="cannot list"):
        store.list("")


def test_folders_within_folders_without_end_hide_nothing(place: Path) -> None:
    store = _fleet(place)
    at = os.open(place / "run", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    entries = store.list("").entries
    faults = {entry.key: entry.fault for entry in entries if entry.fault is not None}
    assert list(faults) == [f"run/{'d/' * (MOST_DEEP - 1)}"]
    assert {*BESIDE, "run/metadata.json"} <= {entry.key for entry in entries}
    # Python's own way of removing a tree is not deep enough for this one.
    subprocess.run(["rm", "-rf", str(place / "run")], check=True)


_NAMES = st.text(st.sampled_from("ab-"), min_size=1, max_size=2)
_TREES = st.lists(st.lists(_NAMES, min_size=1, max_size=4), max_size=12)


@given(paths=_TREES, shut=st.lists(st.integers(0, 50), max_size=4), limit=st.integers(1, 5))
def test_whatever_is_closed_all_else_is_listed_and_each_closed_folder_named(
    paths: list[list[str]], shut: list[int], limit: int
) -> None:
    with open_place() as place:
        for parts in paths:
            path = place.joinpath(*parts)
            if not path.exists() and not any(place.joinpath(*parts[:n]).is_file() for n in range(1, len(parts))):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("")
        below = sorted(path.relative_to(place).as_posix() for path in place.rglob("*"))
        folders = [name for name in below if (place / name).is_dir()]
        closed = {f"{folders[number % len(folders)]}/" for number in shut} if folders else set()
        outer = {name for name in closed if not any(name != each and name.startswith(each) for each in closed)}
        keys = [name for name in below if name not in folders and not any(name.startswith(each) for each in outer)]
        # The inner ones first: once an outer one is closed nobody gets at them.
        for name in sorted(closed, key=len, reverse=True):
            (place / name).chmod(0)
        with as_nobody():
            found: list[tuple[str, bool]] = []
            more = True
            while more:
                page = DirectoryStore(place).list("", found[-1][0] if found else "", limit)
                found += [(entry.key, entry.fault is None) for entry in page.entries]
                more = page.more
        assert found == sorted([*((key, True) for key in keys), *((name, False) for name in outer)])


def test_no_descriptor_stays_open(place: Path) -> None:
    store = _fleet(place)
    (place / "run" / "ckpt").chmod(0)
    before = set(Path("/dev/fd").iterdir())
    with as_nobody():
        for limit in (1, 3, 1000):
            store.list("", limit=limit)
        store.folders()
        store.read("run/metadata.json", 10)
        with pytest.raises(DeniedError):
            store.read("run/ckpt/1/deep/x.pt", 1)
        with pytest.raises(DeniedError):
            store.list("run/ckpt/")
        assert store.read("nothing/metadata.json", 10) is None
    assert set(Path("/dev/fd").iterdir()) == before


def test_a_pipe_in_the_place_of_a_lock_holds_nobody_up(place: Path) -> None:
    store = _fleet(place)
    lock = place / "run" / ".lastbeat.lock"
    lock.unlink()
    os.mkfifo(lock, mode=0o444)
    (place / "run").chmod(0o777)
    with as_nobody():
        store.write("run/_watchdog.json", b"{}")
    blob = store.read("run/_watchdog.json", 10)
    assert blob is not None
