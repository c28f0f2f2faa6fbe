"""Nothing is read or written that a link leads to outside of the fleet root, nor what its run may not show."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastbeat.stores.directory import DirectoryStore
from lastbeat.stores.port import DeniedError, Expect, StoreError, UnreachableError
from support.row_by_row import labelled
from support.there import there

SECRET = b"what only the watchdog may read"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "runs"
    DirectoryStore(made, create=True).write("run/metadata.json", b"{}")
    DirectoryStore(made).write("other/metadata.json", b"{}")
    return made


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A folder outside of the root, with every file that a run may have."""
    outside = tmp_path / "secret"
    store = DirectoryStore(outside, create=True)
    for name in ("_error", "metadata.json", "logs/training_log_latest.txt", "ranks/0.json"):
        store.write(name, SECRET)
    return outside


LINKS: list[tuple[str, str]] = [
    ("run/_error", "_error"),
    ("run/metadata.json", "metadata.json"),
    ("run/logs/training_log_latest.txt", "logs/training_log_latest.txt"),
    ("run/ranks/0.json", "ranks/0.json"),
    ("run/logs", "logs"),
    ("run/ranks", "ranks"),
    ("new", ""),
    (".new", ""),
    ("_watchdog", ""),
]


def _link(path: Path, target: Path | str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _target(secret: Path, link: Path, below: str, how: str) -> Path | str:
    target = secret / below
    if how == "relative":
        return os.path.relpath(target, link.parent)
    if how == "through two links":
        _link(link.parent / ".between", target)
        return ".between"
    if how == "through /proc":
        return f"/proc/self/root{target}"
    return target


@pytest.mark.parametrize("how", ["absolute", "relative", "through two links", "through /proc"])
@pytest.mark.parametrize(("link", "below"), LINKS, ids=[link for link, _ in LINKS])
def test_what_a_link_leads_to_outside_is_neither_listed_nor_read_nor_written(
    root: Path, secret: Path, link: str, below: str, how: str
) -> None:
    before = {path: path.read_bytes() for path in secret.rglob("*") if path.is_file()}
    _link(root / link, _target(secret, root / link, below, how))
    store = DirectoryStore(root)
    entries = store.list("").entries
    faults = {entry.key.rstrip("/"): str(entry.fault) for entry in entries if entry.fault is not None}
    assert link in faults
    assert set(faults) <= {link, ".between"}
    assert "link" in faults[link]
    assert "other/metadata.json" in {entry.key for entry in entries if entry.fault is None}
    assert not [entry.key for entry in entries if entry.fault is None and entry.key.startswith(f"{link}/")]
    names = ["_error", "metadata.json", "logs/training_log_latest.txt", "0.json", "training_log_latest.txt"]
    for key in [link, *(f"{link}/{name}" for name in names)] if not Path(link).suffix else [link]:
        for call in (
            lambda key=key: store.read(key, 1000),
            lambda key=key: store.read(key, 1000, from_end=True),
            lambda key=key: store.write(key, b"mine"),
            lambda key=key: store.write(key, b"mine", Expect.NOTHING),
            lambda key=key: store.delete(key),
        ):
            with pytest.raises(DeniedError, match="link that leads out of the fleet root") as raised:
                call()
            assert "LASTBEAT_FOLLOW_LINKS" in raised.value.advice
    assert {path: path.read_bytes() for path in secret.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(("link", "below"), LINKS, ids=[link for link, _ in LINKS])
def test_a_root_whose_writers_are_trusted_is_followed_out_of(root: Path, secret: Path, link: str, below: str) -> None:
    _link(root / link, secret / below)
    store = DirectoryStore(root, trusting=True)
    key = f"{link}/metadata.json" if not below else link
    if Path(link).name not in {"logs", "ranks"}:
        assert there(store.read(key, 1000)).body == SECRET
        assert key in {entry.key for entry in store.list("").entries if entry.fault is None}
    assert "other/metadata.json" in {entry.key for entry in store.list("").entries}


@pytest.mark.parametrize(("link", "target", "key"), labelled([
    ("a file beside it", "run/progress.json", "metadata.json", "run/progress.json"),
    ("a file of another run", "run/progress.json", "../other/metadata.json", "run/progress.json"),
    ("by its whole path", "run/progress.json", "ROOT/other/metadata.json", "run/progress.json"),
    ("a whole run", "third", "other", "third/metadata.json"),
    ("a run, on the way through what lies above", "third", "../runs/other", "third/metadata.json"),
    ("a run, through /proc", "third", "/proc/self/rootROOT/other", "third/metadata.json"),
]))  # fmt: skip
def test_a_link_within_the_root_is_followed(root: Path, link: str, target: str, key: str) -> None:
    _link(root / link, target.replace("ROOT", str(root)))
    store = DirectoryStore(root)
    assert key in {entry.key for entry in store.list("").entries if entry.fault is None}
    blob = there(store.read(key, 10))
    assert blob.body == b"{}"
    version = store.write(key, b"mine", blob.version)
    assert [entry.version for entry in store.list("").entries if entry.key == key] == [version]


@pytest.mark.parametrize("target", ["/nonexistent/run", "/proc/1/root/etc"])
def test_whether_there_is_anything_outside_makes_no_difference(root: Path, target: str) -> None:
    (root / "run" / "_error").symlink_to(target)
    (root / "new").symlink_to(target)
    faults = [entry.key for entry in DirectoryStore(root).list("").entries if entry.fault is not None]
    assert faults == ["new/", "run/_error"]


class Swapper:
    """Somebody who puts a link in the place of a file, or the other way round, right before our ``nth`` call."""

    def __init__(self, place: Path, other: Path, nth: int) -> None:
        self.place, self.other, self.left = place, other, nth
        self.done = False

    def count(self) -> None:
        self.left -= 1
        if self.left == 0:
            between = self.place.with_name("between")
            self.place.rename(between)
            self.other.rename(self.place)
            between.rename(self.other)
            self.done = True


def _interrupt(patch: pytest.MonkeyPatch, swapper: Swapper) -> None:
    def interrupted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            swapper.count()
            return real(*args, **options)

        return call

    for name in ("open", "stat", "lstat", "readlink", "scandir"):
        patch.setattr(os, name, interrupted(getattr(os, name)))


PLACES = {
    "the file": ("run/_error", "_error", "run/_error"),
    "the folder": ("run/logs", "logs", "run/logs/training_log_latest.txt"),
    "the run": ("new", "", "new/metadata.json"),
}


@pytest.mark.parametrize("first", ["plain", "link", "link within"])
@pytest.mark.parametrize(("place", "below", "key"), PLACES.values(), ids=PLACES)
def test_whenever_a_link_comes_or_goes_nothing_is_read_outside(
    tmp_path: Path, secret: Path, place: str, below: str, key: str, first: str
) -> None:
    """At each single step of a read and of a listing, one after the other."""
    seen: set[object] = set()
    for act in ("read", "list"):
        for nth in itertools.count(1):
            root = tmp_path / f"{act}-{nth}"
            store = DirectoryStore(root, create=True)
            store.write(key, b"mine")
            store.write("run/metadata.json", b"{}")
            plain, aside = root / place, root / "_aside"
            if first == "link within":
                plain.rename(root / "_kept")
                plain.symlink_to(root / "_kept")
            aside.symlink_to(secret / below)
            swapper = Swapper(plain, aside, nth)
            if first == "link":
                swapper.left = 1
                swapper.count()
                swapper.left, swapper.done = nth, False
            with pytest.MonkeyPatch.context() as patch:
                _interrupt(patch, swapper)
                seen |= _read(store, key) if act == "read" else _listed(store, secret)
            if not swapper.done:
                break
        assert nth > 3
    assert SECRET not in seen
    assert seen & {b"mine", "refused"}


def _read(store: DirectoryStore, key: str) -> set[object]:
    try:
        blob = store.read(key, 1000)
    except (DeniedError, UnreachableError):
        return {"refused"}
    return set() if blob is None else {blob.body}


def _listed(store: DirectoryStore, secret: Path) -> set[object]:
    sizes = {entry.size_bytes for entry in store.list("").entries if entry.fault is None}
    return {SECRET} if len(SECRET) in sizes else set()


FILE, FOLDER, THIRD = 65531, 65532, 65533
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")


def _owned(root: Path, *, folder: int, file: int, mode: int = 0o755, linked: bool = False) -> None:
    (root / "run" / "_error").write_bytes(SECRET)
    if linked:
        os.link(root / "run" / "_error", root.parent / "secret.txt")
    os.chown(root / "run", folder, folder)
    (root / "run").chmod(mode)
    os.chown(root / "run" / "_error", file, file)


OWNERS: list[tuple[str, dict[str, Any], bool]] = [
    ("a file of the folder's owner", {"folder": FOLDER, "file": FOLDER}, True),
    ("one of his that has two names", {"folder": FOLDER, "file": FOLDER, "linked": True}, True),
    ("a file of somebody else", {"folder": FOLDER, "file": FILE}, False),
    ("the same in a folder open to all", {"folder": FOLDER, "file": FILE, "mode": 0o777}, False),
    ("somebody else's file under another name", {"folder": FOLDER, "file": FILE, "linked": True}, False),
    ("a file that root wrote, in a container perhaps", {"folder": FOLDER, "file": 0}, True),
    ("root's file under another name", {"folder": FOLDER, "file": 0, "linked": True}, False),
    ("a file in a folder of root's that is not open to others", {"folder": 0, "file": FILE}, False),
    ("a file in one that is", {"folder": 0, "file": FILE, "mode": 0o775}, True),
    ("the same under another name", {"folder": 0, "file": FILE, "mode": 0o775, "linked": True}, False),
]  # fmt: skip


@as_root
@pytest.mark.parametrize(("owners", "read"), labelled(OWNERS))
def test_a_file_is_read_if_the_owner_of_the_runs_folder_may_show_it(
    root: Path, owners: dict[str, Any], read: bool
) -> None:
    _owned(root, **owners)
    store = DirectoryStore(root)
    # That it is there is seen in any case.
    assert [entry.key for entry in store.list("run/").entries if entry.fault is None] == [
        "run/_error",
        "run/metadata.json",
    ]
    if read:
        blob = there(store.read("run/_error", 1000))
        assert blob.body == SECRET
        return
    with pytest.raises(DeniedError, match="it belongs to user") as raised:
        store.read("run/_error", 1000)
    assert "under a run id of your own" in raised.value.advice
    assert "LASTBEAT_FOLLOW_LINKS" in raised.value.advice
    blob = there(DirectoryStore(root, trusting=True).read("run/_error", 1000))


@as_root
@pytest.mark.parametrize("key", ["run/_watchdog.json", "_watchdog/silences.json"])
def test_what_watchdogs_write_is_read_whichever_of_them_wrote_it(root: Path, key: str) -> None:
    store = DirectoryStore(root)
    store.write(key, b"{}")
    os.chown(root / "run", FOLDER, FOLDER)
    os.chown(root / key, THIRD, THIRD)
    assert store.read(key, 10) is not None


@as_root
def test_a_file_of_another_run_is_shown_by_its_own_alone(root: Path) -> None:
    (root / "other" / "_error").write_bytes(SECRET)
    for name, owner in (("run", FOLDER), ("other", THIRD), ("other/_error", THIRD)):
        os.chown(root / name, owner, owner)
    (root / "run" / "_error").symlink_to("../other/_error")
    store = DirectoryStore(root)
    assert store.read("other/_error", 1000) is not None
    with pytest.raises(DeniedError, match=f"it belongs to user {THIRD}"):
        store.read("run/_error", 1000)


def _linked(root: Path, link: str, target: str, *, maker: int, file: int, folder: int = FOLDER) -> None:
    """``link`` of ``maker``'s in the run of ``folder``'s, which leads to ``file``'s file or folder in the run of
    somebody else's."""
    DirectoryStore(root).write("other/private/_error", SECRET)
    DirectoryStore(root).write("other/_watchdog.json", SECRET)
    for path in ("other/private", "other/private/_error", "other/_watchdog.json"):
        os.chown(root / path, file, file)
    os.chown(root / "other", THIRD, THIRD)
    os.chown(root / "run", folder, folder)
    (root / "run").chmod(0o777 if folder == 0 else 0o755)
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to(target)
    os.chown(root / link, maker, maker, follow_symlinks=False)


ERROR, RECORD = "../other/private/_error", "../other/_watchdog.json"
LINKED: list[tuple[str, str, str, dict[str, int], bool]] = [
    ("to his own file", "run/_error", ERROR, {"maker": FOLDER, "file": FOLDER}, True),
    ("to a file that root wrote there", "run/_error", ERROR, {"maker": FOLDER, "file": 0}, False),
    ("to a record that root wrote there", "run/_watchdog.json", RECORD, {"maker": FOLDER, "file": 0}, False),
    ("to somebody else's record", "run/_watchdog.json", RECORD, {"maker": FOLDER, "file": THIRD}, False),
    ("in root's open folder to root's file", "run/_error", ERROR, {"maker": FILE, "file": 0, "folder": 0}, False),
    ("the same to his own", "run/_error", ERROR, {"maker": FILE, "file": FILE, "folder": 0}, True),
    ("by root, to a file of root's", "run/_error", ERROR, {"maker": 0, "file": 0}, True),
    ("by root, to somebody's file", "run/_error", ERROR, {"maker": 0, "file": THIRD}, False),
    ("for a run, to a folder of his", "third", "other/private", {"maker": FOLDER, "file": FOLDER}, True),
    ("for a run, to a folder in another's", "third", "other/private", {"maker": FOLDER, "file": THIRD}, False),
    ("for a run, to one of root's in another's", "third", "other/private", {"maker": FOLDER, "file": 0}, False),
    ("for a run by root, who decides", "third", "other/private", {"maker": 0, "file": THIRD}, True),
    ("for a run, to another run", "third", "other", {"maker": FOLDER, "file": THIRD}, True),
]


@as_root
@pytest.mark.parametrize(("link", "target", "owners", "read"), labelled(LINKED))
def test_a_link_out_of_a_run_shows_no_more_than_who_made_it_may_show(
    root: Path, link: str, target: str, owners: dict[str, int], read: bool
) -> None:
    _linked(root, link, target, **owners)
    store = DirectoryStore(root)
    key = link if Path(link).name != "third" else f"third/{'_watchdog.json' if target == 'other' else '_error'}"
    if read:
        assert there(store.read(key, 1000)).body == SECRET
        return
    with pytest.raises(DeniedError, match="belongs to user") as raised:
        store.read(key, 1000)
    assert "LASTBEAT_FOLLOW_LINKS" in raised.value.advice
    assert {entry.key for entry in store.list("").entries if entry.fault is None} >= {"run/metadata.json"}
    if link == "third":
        assert [entry.key for entry in store.list("").entries if entry.fault is not None] == ["third/"]
    assert DirectoryStore(root, trusting=True).read(key, 1000) is not None


@as_root
def test_this_programs_own_user_writes_into_others_folders(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _owned(root, folder=FOLDER, file=FILE)
    monkeypatch.setattr(os, "geteuid", lambda: FILE)
    assert DirectoryStore(root).read("run/_error", 100) is not None
    os.link(root / "run" / "_error", root.parent / "another name")
    with pytest.raises(DeniedError, match="it has another name elsewhere"):
        DirectoryStore(root).read("run/_error", 100)


def test_clearing_a_run_removes_links_and_nothing_that_they_lead_to(tmp_path: Path) -> None:
    root, outside = tmp_path / "runs", tmp_path / "outside"
    for path in (outside, root / "other", root / "run" / "logs"):
        path.mkdir(parents=True)
        (path / "kept.txt").write_text("x")
    (root / "run" / "data").symlink_to(outside)
    (root / "run" / "logs" / "file").symlink_to(root / "other" / "kept.txt")
    (root / "alias").symlink_to(root / "other")
    store = DirectoryStore(root)
    store.write("run/_watchdog.json", b"{}")
    store.clear("run/")
    with pytest.raises(StoreError, match="is a link"):
        store.clear("alias/")
    assert sorted(path.name for path in root.iterdir()) == ["alias", "other"]
    assert (outside / "kept.txt").read_text() == (root / "other" / "kept.txt").read_text() == "x"
