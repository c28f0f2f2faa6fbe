"""``lastbeat sweep --metrics``, ``--metrics-file`` and ``/metrics`` of the dashboard, as Prometheus meets them."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cli import LASTBEAT, RunFolder, call, environment
from support.dashboard import run_dashboard
from support.scraped import is_nan, scrape, until
from support.sweeping import Sweeping
from support.waiting import LIMIT_S

Sweep = Callable[..., Sweeping]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "training-runs"
    alive = RunFolder(root, "alive")
    alive.metadata()
    alive.progress(loss="NaN")
    failed = RunFolder(root, "a+weird:run@1=x")
    failed.metadata()
    failed.progress(step=40)
    failed.put("_error", "torch.OutOfMemoryError: CUDA out of memory")
    return root


@pytest.fixture
def sweep(tmp_path: Path) -> Iterator[Sweep]:
    started: list[Sweeping] = []

    def begin(*arguments: str, **settings: str) -> Sweeping:
        started.append(Sweeping(tmp_path, len(started), *arguments, **settings))
        return started[-1]

    yield begin
    for each in started:
        each.process.kill()
        each.process.wait()


def test_a_scrape_tells_what_the_last_pass_knew(sweep: Sweep, root: Path) -> None:
    sweeping = sweep("--metrics", "0")
    found = until(sweeping.port, lambda it: "run_loss alive" in it)
    assert found["up"] == 1
    assert (found["runs WARNING"], found["runs FAILED"], found["runs RUNNING"]) == (1, 1, 0)
    assert found["run_status oom a+weird:run@1=x FAILED"] == 1
    assert found["run_condition loss_nan alive"] == 1
    assert is_nan(found["run_loss alive"])
    assert (found["run_step alive"], found["run_step a+weird:run@1=x"]) == (25, 40)
    assert found["run_last_beat_age_seconds alive"] >= 0
    (root / "alive" / "progress.json").write_text('{"step": 26, "loss": 0.5}', encoding="utf-8")
    found = until(sweeping.port, lambda it: it.get("run_step alive") == 26)
    assert found["run_loss alive"] == 0.5
    assert found["passes_total complete"] >= 2
    assert sweeping.end() == 2


def test_a_port_in_use_is_told_once_and_taken_when_it_is_free(sweep: Sweep, root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        sweeping = sweep("--metrics", str(port))
        sweeping.wait_for_passes(4)
        assert sweeping.said.count(f"metrics cannot be served: port {port} of 127.0.0.1 is in use") == 1
        assert "metrics are at" not in sweeping.said
    assert sweeping.port == port
    assert until(port, lambda it: "run_loss alive" in it)["passes_total complete"] >= 4
    assert sweeping.end() == 2


def test_scrapers_that_hang_keep_no_pass_and_no_other_scraper_waiting(sweep: Sweep, root: Path) -> None:
    sweeping = sweep("--metrics", "0")
    port = sweeping.port
    until(port, lambda it: "run_loss alive" in it)
    hanging = [socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) for _ in range(60)]
    try:
        for number, each in enumerate(hanging):
            each.sendall([b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"][number % 3])
        sweeping.wait_for_passes(5)
        assert all(each["seconds"] < LIMIT_S for each in sweeping.passes)
        assert scrape(port)[0] == 200
    finally:
        for each in hanging:
            each.close()
    assert sweeping.end() == 2


def test_a_disk_that_is_full_is_told_once_and_the_old_file_stays_whole(
    sweep: Sweep, root: Path, tmp_path: Path
) -> None:
    path = tmp_path / "lastbeat.prom"
    for number in range(40):
        RunFolder(root, f"more-{number}").metadata()
    call(LASTBEAT, "sweep", "--once", "--metrics-file", str(path), cwd=tmp_path)
    before = path.read_bytes()
    assert len(before) > 20_000
    # No file may grow beyond 16 KiB: the records and the mark of any number of passes fit, the metrics do not, and
    # neither would a pass's JSON after a while.
    sweeping = sweep("--metrics-file", str(path), shell="ulimit -f 32", form="")
    sweeping.wait_for(lambda: "cannot be written" in sweeping.said)
    for _ in range(5):
        last = mark_of(root)
        sweeping.wait_for(lambda last=last: mark_of(root) != last)  # type: ignore[misc]
    assert sweeping.said.count("cannot be written") == 1
    assert path.read_bytes() == before
    assert sweeping.end() == 2
    assert not list(tmp_path.glob(".lastbeat.prom.*")), "what was begun is taken away"


def mark_of(root: Path) -> str:
    """When the last pass was made, by its mark."""
    at: str = json.loads((root / "_watchdog" / "last_pass.json").read_text(encoding="utf-8"))["at"]
    return at


WITHOUT = (
    "import sys; sys.modules['prometheus_client'] = None; "
    "from lastbeat_cli.main import main; sys.exit(main(sys.argv[1:]))"
)


def test_where_the_library_is_missing_the_way_to_get_it_is_told(root: Path) -> None:
    done = call([sys.executable, "-c", WITHOUT], "sweep", "--once", "--metrics-file", "x.prom", cwd=root.parent)
    assert (done.returncode, done.stdout) == (3, "")
    assert "pip install 'lastbeat[metrics]'" in done.stderr
    assert not (root / "_watchdog").exists()


def test_who_asks_for_no_metrics_loads_nothing_of_them(root: Path) -> None:
    probe = (
        "import sys, json; from lastbeat_cli.main import main; main(sys.argv[1:]); "
        "print(json.dumps([name for name in sys.modules if 'prometheus' in name or 'lastbeat_cli.metrics.' in name]))"
    )
    done = call([sys.executable, "-c", probe], "sweep", "--once", cwd=root.parent)
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_the_dashboard_has_metrics_too(root: Path, tmp_path: Path) -> None:
    with run_dashboard(root, tmp_path / "home") as address:
        port = int(address.rstrip("/").rpartition(":")[2])
        found = until(port, lambda it: "run_loss alive" in it and "run_step a+weird:run@1=x" in it)
        assert (found["up"], found["watched"]) == (1, 0)
        assert found["runs FAILED"] == 1
        assert is_nan(found["run_loss alive"])
        assert found["run_last_beat_age_seconds alive"] >= 0
        assert not any(name.startswith("passes_total") for name in found), "it makes none"


def test_a_dashboard_without_the_library_says_how_to_get_it(root: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT, "dashboard", "--json"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        port = int(json.loads(process.stdout.readline())["url"].rstrip("/").rpartition(":")[2])
        status, _, body = scrape(port)
        assert status == 501
        assert "pip install 'lastbeat[metrics]'" in body
    finally:
        process.terminate()
        process.wait(LIMIT_S)
        process.stdout.close()
