"""A real Prometheus scrapes a real sweep, and every query of docs/grafana/lastbeat.json has an answer."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from lastbeat_cli.metrics.table import COST
from support.checkout import ROOT
from support.cli import RunFolder
from support.sweeping import Sweeping
from support.waiting import LIMIT_S

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus is not installed: apt-get install prometheus"
)
TOKEN = "a-token-of-some-length"
BOARD: dict[str, Any] = json.loads((ROOT / "docs" / "grafana" / "lastbeat.json").read_text(encoding="utf-8"))
QUERIES = [each["expr"] for panel in BOARD["panels"] for each in panel["targets"]]


class Prometheus:
    """Scrapes ``port`` each half second, with the token."""

    def __init__(self, home: Path, port: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (home / "token").write_text(TOKEN, encoding="utf-8")
        config = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
            "scrape_configs": [
                {
                    "job_name": "lastbeat",
                    "authorization": {"credentials_file": str(home / "token")},
                    "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
                }
            ],
        }
        (home / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
        self.log = home / "prometheus.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={home / 'prometheus.yml'}",
                    f"--storage.tsdb.path={home / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log,
                stderr=log,
            )

    def query(self, expression: str) -> list[dict[str, Any]]:
        address = f"http://127.0.0.1:{self.port}/api/v1/query?{urlencode({'query': expression})}"
        with urlopen(address, timeout=LIMIT_S) as answer:
            found = json.loads(answer.read())
        assert found["status"] == "success"
        result: list[dict[str, Any]] = found["data"]["result"]
        return result

    def until(self, expression: str) -> list[dict[str, Any]]:
        """Its answer, once there is one."""
        end = time.monotonic() + LIMIT_S
        while True:
            try:
                found = self.query(expression)
            except OSError:
                found = []  # It has just been started.
            if found:
                return found
            assert time.monotonic() < end, f"{expression}\n{self.log.read_text(encoding='utf-8')}"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    home = tmp_path_factory.mktemp("prometheus")
    alive = RunFolder(home / "training-runs", "alive")
    alive.metadata()
    alive.progress(loss="NaN")
    failed = RunFolder(home / "training-runs", "weird:run@1=x")
    failed.metadata()
    failed.put("_error", "torch.OutOfMemoryError: CUDA out of memory")
    sweeping = Sweeping(home, 0, "--metrics", "0", LASTBEAT_DASHBOARD_TOKEN=TOKEN)
    try:
        server = Prometheus(home, sweeping.port)
        try:
            yield server
        finally:
            server.process.kill()
            server.process.wait()
    finally:
        sweeping.process.kill()
        sweeping.process.wait()


def test_it_is_scraped_with_its_token(prometheus: Prometheus) -> None:
    assert prometheus.until('up{job="lastbeat"} == 1')
    (status,) = prometheus.until('lastbeat_run_status{run_id="weird:run@1=x"}')
    assert (status["metric"]["status"], status["metric"]["cause"]) == ("FAILED", "oom")
    (loss,) = prometheus.until('lastbeat_run_loss{run_id="alive"}')
    assert loss["value"][1] == "NaN"


@pytest.mark.parametrize("expression", QUERIES)
def test_every_query_of_the_dashboard_has_an_answer(prometheus: Prometheus, expression: str) -> None:
    for variable, value in (("$fleet", ".*"), ("$run", ".*"), ("$__rate_interval", "30s"), ("$__range", "1m")):
        expression = expression.replace(variable, value)
    if COST.name in expression:
        # A directory costs nothing, and nothing is told of that.
        assert prometheus.query(expression) == []
    else:
        assert prometheus.until(expression)
