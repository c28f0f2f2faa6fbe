"""Every kind of store, each with a fresh root, for one suite."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lastbeat.jobs.launchers.kubectl import Kubectl
from lastbeat.jobs.launchers.ray_pod.pod_files import PodFiles
from lastbeat.jobs.launchers.ray_pod.pod_python import PodPython
from lastbeat.settings import load, opening
from lastbeat.stores import s3
from lastbeat.stores.clock import StoreClock
from lastbeat.stores.directory import DirectoryStore
from lastbeat.stores.objects import Dialect, ObjectStore
from lastbeat.stores.port import Blob, DeniedError, Page, Store
from lastbeat.stores.registry import parse
from lastbeat.stores.s3_store import s3_store
from lastbeat.stores.volatile import IN_MEMORY
from support.closed import closed, open_place
from support.memory import MemoryStore
from support.s3 import REGION, S3Server

if TYPE_CHECKING:
    from support.azurite import AzureServer
    from support.gcs import GoogleServer


@dataclass(frozen=True)
class Root:
    """``open`` gives another client of the same root, as another process would have one."""

    open: Callable[[], Store]
    races: int = 10
    """How many rounds of a race are worth their time here."""
    by_folder: bool = False
    """SeaweedFS keeps keys as files: it lists folder by folder (``a/b`` < ``a-b``), and passes over a folder when
    told to start after its name."""
    backslash_is_slash: bool = False
    """SeaweedFS and Azurite take the one for the other."""
    close: Callable[[str], AbstractContextManager[None]] | None = None
    """Lets nobody look into a folder while the block lasts, where there are such."""


def _memory(request: pytest.FixtureRequest) -> Root:
    store = MemoryStore()

    @contextmanager
    def close(folder: str) -> Iterator[None]:
        store.closed[folder] = DeniedError(f"{store.url}: not allowed to list {folder}", "ask its owner")
        yield
        del store.closed[folder]

    return Root(lambda: store, close=close)


def _directory(request: pytest.FixtureRequest) -> Root:
    root: Path = request.getfixturevalue("place") / "runs"
    root.mkdir()
    return Root(lambda: DirectoryStore(root), close=lambda folder: closed(root / folder))


def _obstore(request: pytest.FixtureRequest) -> Root:
    from obstore.store import MemoryStore as Backend  # noqa: PLC0415 - where the product imports it late too

    backend = Backend()

    clock = StoreClock(time.time, "memory:///runs")
    return Root(
        lambda: ObjectStore(lambda: backend, url="memory:///runs", clock=clock, dialect=Dialect(IN_MEMORY, s3.REMEDIES))
    )


def _s3(server: S3Server, races: int, *, by_folder: bool = False) -> Root:
    url = f"s3://{server.bucket()}/training runs"
    return Root(
        lambda: s3_store(parse(url), server.environment(), region=REGION),
        races,
        by_folder,
        backslash_is_slash=by_folder,
    )


def _moto(request: pytest.FixtureRequest) -> Root:
    return _s3(request.getfixturevalue("s3_server"), races=8)


def _seaweed(request: pytest.FixtureRequest) -> Root:
    # Sixteen writers of one key keep it busy for seconds.
    return _s3(request.getfixturevalue("seaweed"), races=3, by_folder=True)


def named(url: str, environ: Mapping[str, str]) -> Store:
    """The store that settings with this root and this environment name."""
    return opening.bare_store(load({}, {"MONITORING_ROOT": url, **environ}, Path("/nonexistent")))


def _google(request: pytest.FixtureRequest) -> Root:
    server: GoogleServer = request.getfixturevalue("google")
    url = f"gs://{server.bucket()}/training runs"
    return Root(lambda: named(url, server.environment()))


def _azure(request: pytest.FixtureRequest) -> Root:
    server: AzureServer = request.getfixturevalue("azurite")
    url = f"az://{server.container()}/training runs"
    return Root(lambda: named(url, server.environment()), races=5, backslash_is_slash=True)


class PodStore(DirectoryStore):
    """A pod's files are only read, so somebody else writes them: training does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._files = PodFiles(PodPython(Kubectl(), "ray-head"), str(folder))

    def list(self, prefix: str, start_after: str = "", limit: int = 1000) -> Page:
        return self._files.list(prefix, start_after, limit)

    def folders(self) -> tuple[str, ...]:
        return self._files.folders()

    def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0) -> Blob | None:
        return self._files.read(key, limit_bytes, from_end=from_end, start=start)

    def clock(self) -> datetime:
        return self._files.clock()


def _pod(request: pytest.FixtureRequest) -> Root:
    request.getfixturevalue("fake_cluster").add_pod("ray-head")
    folder: Path = request.getfixturevalue("tmp_path") / "ckpt"
    folder.mkdir()
    return Root(lambda: PodStore(folder))


KINDS: dict[str, Callable[[pytest.FixtureRequest], Root]] = {
    "memory": _memory,
    "directory": _directory,
    "obstore in memory": _obstore,
    "moto": _moto,
    "seaweedfs": _seaweed,
    "google": _google,
    "azure": _azure,
}


READ: dict[str, Callable[[pytest.FixtureRequest], Root]] = {**KINDS, "pod": _pod}
"""With those that nobody writes into."""


@pytest.fixture
def place() -> Iterator[Path]:
    with open_place() as place:
        yield place


@pytest.fixture
def root(request: pytest.FixtureRequest) -> Root:
    return READ[request.param](request)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A module that says ``KINDS = READ`` is about reading alone."""
    if metafunc.fixturenames.count("root") and not hasattr(metafunc.module, "root"):
        kinds = getattr(metafunc.module, "KINDS", KINDS)
        metafunc.parametrize("root", kinds, indirect=True)


@pytest.fixture
def store(root: Root) -> Store:
    return root.open()
