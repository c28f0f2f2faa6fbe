"""``lastbeat sweep --metrics``, ``--metrics-file`` and ``/metrics`` of the dashboard, as Prometheus meets them."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from support import scraped
from support.cli import LASTBEAT, LIMIT_S, RunFolder, call, environment
from support.dashboard import run_dashboard
from support.recorder import run_recorder
from support.s3 import S3Server
from support.scraped import is_nan, scrape, until, values
from support.sweeping import Sweeping

TOKEN = "a-token-of-some-length"


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


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus")
def test_promtool_reads_a_real_scrape(sweep: Sweep, root: Path) -> None:
    port = sweep("--metrics", "0").port
    until(port, lambda it: "run_loss alive" in it)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=scrape(port)[2], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_root_that_goes_away_is_no_empty_fleet(sweep: Sweep, root: Path) -> None:
    sweeping = sweep("--metrics", "0", "--root", str(root))
    before = until(sweeping.port, lambda it: "run_loss alive" in it)
    away = root.rename(root.with_name("away"))
    found = until(sweeping.port, lambda it: it["up"] == 0)
    assert found["runs FAILED"] == 1
    assert found["run_status oom a+weird:run@1=x FAILED"] == 1
    assert found["passes_total blind"] >= 1
    seen = found["fleet_seen_timestamp_seconds"]
    assert seen >= before["fleet_seen_timestamp_seconds"]
    sweeping.wait_for_passes(3)
    assert until(sweeping.port, lambda it: it["passes_total blind"] >= 2)["fleet_seen_timestamp_seconds"] == seen
    away.rename(root)
    assert until(sweeping.port, lambda it: it["up"] == 1)["fleet_seen_timestamp_seconds"] > seen


def test_others_need_the_token_as_a_header_that_prometheus_can_send(sweep: Sweep, root: Path) -> None:
    sweeping = sweep("--metrics", "0.0.0.0:0", LASTBEAT_DASHBOARD_TOKEN=TOKEN)
    port = sweeping.port
    until(port, lambda it: "run_loss alive" in it, Authorization=f"Bearer {TOKEN}")
    status, _, body = scrape(port)
    assert status == 401
    assert "LASTBEAT_DASHBOARD_TOKEN" in json.loads(body)["advice"]
    assert scrape(port, Authorization=f"Bearer {TOKEN}x")[0] == 401
    assert TOKEN not in body + sweeping.said


def test_on_this_machine_other_sites_pages_get_nothing(sweep: Sweep, root: Path) -> None:
    port = sweep("--metrics", "0").port
    assert scrape(port, Host="evil.example")[0] == 403
    assert scrape(port, Sec_Fetch_Site="cross-site")[0] == 403
    assert scrape(port)[0] == 200


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text;version=nonsense", "application/openmetrics-text; version=1.0.0"),
    ],
)
def test_both_forms_are_spoken(sweep: Sweep, root: Path, accept: str, kind: str) -> None:
    status, content_type, body = scrape(sweep("--metrics", "0").port, Accept=accept)
    assert status == 200
    assert content_type.startswith(kind)
    assert body.endswith("# EOF\n") is ("openmetrics" in kind)


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


def test_a_file_for_node_exporter(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "textfile" / "lastbeat.prom"
    path.parent.mkdir()
    for number in (1, 2):
        done = call(LASTBEAT, "sweep", "--once", "--metrics-file", str(path), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (2, "")
        found = values(path.read_text(encoding="utf-8"))
        assert found["passes_total complete"] == number
        assert found["run_status oom a+weird:run@1=x FAILED"] == 1
    root.rename(tmp_path / "away")
    assert (
        call(LASTBEAT, "sweep", "--once", "--metrics-file", str(path), "--root", str(root), cwd=tmp_path).returncode
        == 3
    )
    found = values(path.read_text(encoding="utf-8"))
    assert (found["up"], found["runs FAILED"], found["passes_total blind"]) == (0, 1, 1)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_disk_that_is_full_is_told_once_and_the_old_file_stays_whole(
    sweep: Sweep, root: Path, tmp_path: Path
) -> None:
    path = tmp_path / "lastbeat.prom"
    call(LASTBEAT, "sweep", "--once", "--metrics-file", str(path), cwd=tmp_path)
    before = path.read_bytes()
    # No file may grow beyond 4 KiB: the records fit, the metrics do not, and neither would a pass's JSON after a while.
    sweeping = sweep("--metrics-file", str(path), shell="ulimit -f 8", form="")
    sweeping.wait_for(lambda: "cannot be written" in sweeping.said)
    for _ in range(5):
        last = mark_of(root)
        sweeping.wait_for(partial(another_mark, root, last))
    assert sweeping.said.count("cannot be written") == 1
    assert path.read_bytes() == before
    assert sweeping.end() == 2
    assert not list(tmp_path.glob(".lastbeat.prom.*")), "what was begun is taken away"


def another_mark(root: Path, last: str) -> bool:
    return mark_of(root) != last


def mark_of(root: Path) -> str:
    """When the last pass was made, by its mark."""
    at: str = json.loads((root / "_watchdog" / "last_pass.json").read_text(encoding="utf-8"))["at"]
    return at


def test_a_sweep_that_is_killed_leaves_a_whole_file(sweep: Sweep, root: Path, tmp_path: Path) -> None:
    path = tmp_path / "lastbeat.prom"
    for number in range(40):
        RunFolder(root, f"run-{number}").metadata()
    for number in range(5):
        sweeping = sweep("--interval", "0.01", "--metrics-file", str(path))
        sweeping.wait_for_passes(1)
        sweeping.wait_for(path.exists)
        time.sleep(0.037 * number)
        sweeping.process.kill()
        sweeping.process.wait()
        found = values(path.read_text(encoding="utf-8"))
        assert sum(name.startswith("run_status ") for name in found) == 42


def test_a_file_that_hangs_lets_the_sweep_go_on_and_end(sweep: Sweep, root: Path, tmp_path: Path) -> None:
    path = tmp_path / "lastbeat.prom"
    os.mkfifo(path)
    sweeping = sweep("--metrics-file", str(path))
    sweeping.wait_for_passes(4)
    assert sweeping.end() == 2
    assert "could not be written within" in sweeping.said


WRONG: list[tuple[str, list[str], str]] = [
    ("no port", ["--metrics", "http"], "--metrics='http' is neither a port nor HOST:PORT"),
    ("no suffix", ["--metrics-file", "x.txt"], "does not end in .prom"),
    ("one pass serves nobody", ["--once", "--metrics", "0"], "with --once use --metrics-file"),
    ("others without a token", ["--metrics", "0.0.0.0:0"], "set LASTBEAT_DASHBOARD_TOKEN"),
    ("together with what else is wrong", ["--metrics", "http", "--stale-minutes", "-1"], "--stale-minutes='-1'"),
]


@pytest.mark.parametrize(("arguments", "told"), [pytest.param(a, t, id=says) for says, a, t in WRONG])
def test_wrong_arguments_are_told_before_anything_is_done(root: Path, arguments: list[str], told: str) -> None:
    done = call(LASTBEAT, "sweep", *arguments, cwd=root.parent)
    assert (done.returncode, done.stdout) == (3, "")
    assert told in done.stderr
    assert not (root / "_watchdog").exists()


WITHOUT = (
    "import sys; sys.modules['prometheus_client'] = None; "
    "from lastbeat_cli.main import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.mark.parametrize("option", [["--metrics", "0"], ["--once", "--metrics-file", "x.prom"]], ids=["port", "file"])
def test_where_the_library_is_missing_the_way_to_get_it_is_told(root: Path, option: list[str]) -> None:
    done = call([sys.executable, "-c", WITHOUT], "sweep", *option, cwd=root.parent)
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


def test_the_dashboards_token_opens_its_metrics_as_a_header_alone(root: Path, tmp_path: Path) -> None:
    with run_dashboard(root, tmp_path / "home", LASTBEAT_DASHBOARD_TOKEN=TOKEN) as address:
        port = int(address.rstrip("/").rpartition(":")[2])
        assert scrape(port)[0] == 401
        assert scrape(port, Authorization=f"Bearer {TOKEN}")[0] == 200


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


def fleet_of(server: S3Server) -> str:
    bucket, client = server.bucket(), server.client()
    for number in range(5):
        for name, body in (("metadata", '{"phase": "train"}'), ("progress", '{"step": 1, "total_steps": 9}')):
            client.put_object(Bucket=bucket, Key=f"training-runs/run-{number}/{name}.json", Body=body.encode())
    return bucket


def test_metrics_cost_a_bucket_no_request(s3_server: S3Server, tmp_path: Path) -> None:
    bucket = fleet_of(s3_server)
    with run_recorder(s3_server.url) as recorder:
        settings = s3_server.environment() | {"AWS_ENDPOINT_URL": recorder.url}
        root, file = f"s3://{bucket}/training-runs", str(tmp_path / "lastbeat.prom")
        sweeping = Sweeping(tmp_path, 0, "--root", root, "--metrics", "0", "--metrics-file", file, **settings)
        try:
            # Scraped again and again, while passes are made and between them.
            found = until(sweeping.port, lambda it: it.get("passes_total complete", 0) >= 10)
            assert found["runs RUNNING"] == 5
            assert found["store_cost_dollars_total"] > 0
            sweeping.end()
        finally:
            sweeping.process.kill()
            sweeping.process.wait()
    told: Counter[str] = Counter()
    for each in sweeping.passes:
        told.update(each["requests"])
    asked = Counter(call.action for call in recorder.calls)
    # What was asked is what the passes say that they asked: nothing came on top.
    kinds = {"LIST": "s3:ListBucket", "GET": "s3:GetObject", "PUT": "s3:PutObject", "DELETE": "s3:DeleteObject"}
    assert dict(asked) == {kinds[kind]: count for kind, count in told.items() if count}


def test_a_scrape_of_the_dashboard_costs_a_bucket_no_request(s3_server: S3Server, tmp_path: Path) -> None:
    bucket = fleet_of(s3_server)
    with run_recorder(s3_server.url) as recorder:
        settings = s3_server.environment() | {"AWS_ENDPOINT_URL": recorder.url}
        with run_dashboard(f"s3://{bucket}/training-runs", tmp_path, **settings) as address:
            port = int(address.rstrip("/").rpartition(":")[2])
            found = until(port, lambda it: it.get("runs RUNNING") == 5 and it["runs_left_out"] == 0)
            assert found["run_step run-1"] == 1
            # Nobody has its page open, so after some intervals it rests, however often it is scraped.
            end, quiet_since, asked = time.monotonic() + LIMIT_S, time.monotonic(), len(recorder.calls)
            while time.monotonic() - quiet_since < 4:
                assert time.monotonic() < end, "it goes on asking"
                found = scraped.values(scrape(port)[2])
                if len(recorder.calls) != asked:
                    asked, quiet_since = len(recorder.calls), time.monotonic()
                time.sleep(0.05)
            assert sum(value for name, value in found.items() if name.startswith("store_requests_total")) == asked
