"""What only a directory can have: pipes, links, permissions, a missing mount, a full disk, other writers."""

import fcntl
import os
import socket
import subprocess
from pathlib import Path

import pytest

from lastbeat.stores.directory import DirectoryStore
from lastbeat.stores.port import ConflictError, Expect, MissingStoreError, StoreError, UnreachableError
from support.row_by_row import labelled
from support.there import there


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "läufe of 'team 1'"
    made.mkdir()
    return made


def _keys(store: DirectoryStore, prefix: str = "", start_after: str = "") -> list[str]:
    return [e.key for e in store.list(prefix, start_after).entries]


def test_what_is_no_regular_file_is_not_there_and_blocks_nobody(root: Path) -> None:
    run = root / "run-1"
    run.mkdir()
    os.mkfifo(run / "metadata.json")
    (run / "progress.json").mkdir()
    (run / "_error").symlink_to("nowhere")
    (run / "circle").symlink_to("circle")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(run)  # the path of a socket may not be long
        try:
            listener.bind("sock")
        finally:
            os.chdir(here)
        store = DirectoryStore(root)
        assert _keys(store) == []
        for name in ("metadata.json", "progress.json", "_error", "circle", "sock"):
            assert store.read(f"run-1/{name}", 100) is None


def test_a_run_linked_within_the_root_is_followed_and_a_circle_is_not(root: Path) -> None:
    kept = root / "_kept" / "run-1"
    kept.mkdir(parents=True)
    (kept / "metadata.json").write_text("{}")
    (kept / "circle").symlink_to(kept)
    (kept / "up").symlink_to(root)
    (root / "run-1").symlink_to(kept)
    (root / "run-2").symlink_to("_kept/run-1")
    store = DirectoryStore(root)
    for run in ("run-1", "run-2"):
        seen = [entry.key for entry in store.list(f"{run}/").entries if entry.fault is None]
        assert seen == [f"{run}/metadata.json"]
        assert store.read(f"{run}/metadata.json", 10) is not None
    store.write("run-2/_watchdog.json", b"{}")
    assert (kept / "_watchdog.json").read_text() == "{}"
    assert {"run-1", "run-2"} <= set(store.folders())


def test_hidden_files_and_names_that_are_no_text_are_not_listed(root: Path) -> None:
    store = DirectoryStore(root)
    store.write("run-1/metadata.json", b"{}")
    (root / ".stray").write_text("")
    (root / "run-1" / ".nfs0001").write_text("")
    (root / "run-1" / ".cache").mkdir()
    (root / "run-1" / ".cache" / "x").write_text("")
    (root / "run-1" / os.fsdecode(b"\xff\xfe")).write_text("")
    assert _keys(store) == ["run-1/metadata.json"]
    # Our own lock is among them, and no half-written file stays behind.
    assert {n.name for n in (root / "run-1").glob(".lastbeat*")} == {".lastbeat.lock"}


@pytest.mark.parametrize("key", ["", "/etc/passwd", "a/../../x", "a//b", "a/./b", "a/", "a\0b", ".."])
def test_no_key_leads_out_of_the_root(root: Path, key: str) -> None:
    store = DirectoryStore(root)
    for call in (lambda: store.read(key, 1), lambda: store.write(key, b""), lambda: store.delete(key)):
        with pytest.raises(ValueError, match="is no key"):
            call()


@pytest.mark.parametrize("prefix", ["run-1", "/", "../"])
def test_no_folder_leads_out_of_the_root(root: Path, prefix: str) -> None:
    with pytest.raises(ValueError, match=r"is no (key|folder)"):
        DirectoryStore(root).list(prefix)


@pytest.mark.parametrize(("written", "advice"), labelled([
    ("and prefix", "my-bucket/training-runs", "; for a bucket write s3://my-bucket/training-runs"),
    ("a bucket alone", "my-bucket", "; for a bucket write s3://my-bucket"),
    ("the root that nobody has to name", "training-runs", ""),
    ("a folder that is there", "there/runs", ""),
    ("no bucket is called so", "My_Runs/x", ""),
]))  # fmt: skip
def test_a_path_that_may_be_meant_as_a_bucket_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, advice: str
) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingStoreError) as raised:
        DirectoryStore(Path(written)).list("")
    assert raised.value.advice == f"create it, mount its file system, or correct MONITORING_ROOT{advice}"


@pytest.mark.parametrize("is_file", [False, True])
def test_a_directory_that_is_not_there_is_no_fleet_without_runs(tmp_path: Path, is_file: bool) -> None:
    missing = tmp_path / "not mounted"
    if is_file:
        missing.write_text("")
    store = DirectoryStore(missing)
    for call in (
        lambda: store.list(""),
        lambda: store.list("run-1/"),
        lambda: store.read("run-1/_error", 10),
        lambda: store.write("run-1/x", b""),
        lambda: store.delete("run-1/x"),
    ):
        with pytest.raises(MissingStoreError, match="no such directory") as raised:
            call()
        assert str(missing) in str(raised.value)
    assert is_file or not missing.exists()


def test_a_directory_that_goes_away_before_a_write_is_not_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    real = os.mkdir

    def noting(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        made.append(str(path))
        real(path, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", noting)
    DirectoryStore(root).write("run-1/_watchdog.json", b"")
    # At no moment could it go away, and be found again as a fleet without runs.
    assert made == ["run-1"]


def test_a_state_directory_is_empty_until_it_is_made_by_the_first_write(tmp_path: Path) -> None:
    state = tmp_path / "a" / "state"
    store = DirectoryStore(state, create=True)
    assert store.list("").entries == ()
    assert store.read("run-1/_watchdog.json", 10) is None
    store.delete("run-1/_watchdog.json")
    assert not state.exists()
    store.write("run-1/_watchdog.json", b"{}", Expect.NOTHING)
    assert _keys(store) == ["run-1/_watchdog.json"]


def test_a_long_name_is_not_there_and_cannot_be_written(root: Path) -> None:
    store = DirectoryStore(root)
    assert store.read("x" * 300, 1) is None
    with pytest.raises(StoreError, match="cannot write"):
        store.write("x" * 300, b"")


def test_a_folder_in_the_place_of_a_key_cannot_be_replaced(root: Path) -> None:
    (root / "run-1" / "_error").mkdir(parents=True)
    with pytest.raises(StoreError, match="cannot write"):
        DirectoryStore(root).write("run-1/_error", b"")
    assert not [n for n in (root / "run-1").iterdir() if n.name.startswith(".lastbeat-")]


def test_a_held_lock_is_waited_for_and_then_given_up(root: Path) -> None:
    store = DirectoryStore(root, lock_wait_s=0.1)
    version = store.write("run-1/x", b"1")
    with (root / "run-1" / ".lastbeat.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UnreachableError, match="another writer") as raised:
            store.write("run-1/x", b"2", version)
    assert "\n" not in str(raised.value)
    assert store.write("run-1/x", b"2", version)


def test_a_version_never_comes_back(root: Path) -> None:
    store = DirectoryStore(root)
    seen = [store.write("run-1/x", b"same")]
    for _ in range(200):
        seen.append(store.write("run-1/x", b"same", seen[-1]))
    assert len(set(seen)) == len(seen)
    with pytest.raises(ConflictError):
        store.write("run-1/x", b"same", seen[0])


def test_a_file_from_the_future_can_be_updated(root: Path) -> None:
    store = DirectoryStore(root)
    before = store.write("run-1/x", b"1")
    os.utime(root / "run-1" / "x", (4e9, 4e9))
    blob = there(store.read("run-1/x", 1))
    assert blob.version != before
    after = store.write("run-1/x", b"1", blob.version)
    assert after not in {before, blob.version}


def test_new_files_can_be_read_by_whom_the_umask_lets(root: Path) -> None:
    before = os.umask(0o027)
    try:
        DirectoryStore(root).write("run-1/x", b"")
    finally:
        os.umask(before)
    assert (root / "run-1" / "x").stat().st_mode & 0o777 == 0o640


def test_a_private_root_is_made_for_its_user_alone(tmp_path: Path) -> None:
    root = tmp_path / "state" / "lastbeat"
    DirectoryStore(root, create=True, private=True).write("logs/run-1.json.z", b"x")
    assert root.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_full_disk_is_said_to_be_full(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("may not mount")
    try:
        store = DirectoryStore(tmp_path)
        version = store.write("run-1/x", b"kept")
        with pytest.raises(StoreError, match="No space left") as raised:
            store.write("run-1/x", b"x" * 1_000_000, version)
        assert "make room" in raised.value.advice
        blob = there(store.read("run-1/x", 10))
        assert (blob.body, blob.version) == (b"kept", version)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
