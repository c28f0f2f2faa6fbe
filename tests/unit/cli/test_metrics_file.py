"""The file for node-exporter: whole or not there, counted on from process to process, and no pass waits for it."""

import math
import os
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lastbeat.model.figures import Figures
from lastbeat.model.fleet import PassReport, RunFigures, RunLine
from lastbeat.model.status import Status
from lastbeat_cli.metrics.samples import PassMetrics
from lastbeat_cli.metrics.textfile import TextFile
from support import scraped
from support.memory import START
from support.scraped import Scraped
from support.waiting import LIMIT_S

FLEET = "s3://bucket/training-runs"
RUN = RunFigures(RunLine("run-1", Status.FAILED, cause="oom"), figures=Figures(7, loss=math.nan))
PASS = PassReport(START, seconds=1.0, statuses={"FAILED": 1}, figures=(RUN,), sent=1, requests={"LIST": 2, "GET": 3})
BLIND = PassReport(START + timedelta(hours=1), seconds=9.0, blind="no answer", complete=False)


def values(path: Path) -> Scraped:
    return scraped.values(path.read_text(encoding="utf-8"))


def process(path: Path, *reports: PassReport, fleet: str = FLEET) -> Scraped:
    """What stands in the file after a process that made these passes."""
    metrics = PassMetrics(fleet, 60.0)
    file = TextFile(path, metrics, fleet)
    file.start()
    for report in reports:
        metrics.add(report)
        file.write()
        assert file.wait(LIMIT_S)
    return values(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lastbeat.prom"


def test_each_pass_writes_it_anew_and_others_may_read_it(path: Path) -> None:
    assert process(path, PASS)["run_status oom run-1 FAILED"] == 1
    assert process(path, replace(PASS, figures=()))["runs FAILED"] == 1
    assert "run_step run-1" not in values(path)
    assert path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_processes_of_one_pass_each_count_on(path: Path) -> None:
    process(path, PASS)
    process(path, replace(PASS, complete=False))
    found = process(path, BLIND, PASS)
    assert [found[f"passes_total {end}"] for end in ("complete", "partial", "blind")] == [2, 1, 1]
    assert found["alert_deliveries_total sent"] == 3
    assert found["store_cost_dollars_total"] == pytest.approx(3 * (2 * 5e-6 + 3 * 4e-7))
    assert found["store_requests_total GET"] == 9


def test_a_process_that_is_blind_from_its_start_leaves_what_was_seen(path: Path) -> None:
    before = process(path, PASS)
    found = process(path, BLIND)
    assert (found["up"], found["last_pass_duration_seconds"]) == (0, 9.0)
    assert found["fleet_seen_timestamp_seconds"] == START.timestamp()
    stands = [name for name in before if name.startswith(("runs", "run_", "alert_deliveries_pending"))]
    assert "run_status oom run-1 FAILED" in stands
    assert {n: found[n] for n in stands} == pytest.approx({n: before[n] for n in stands}, nan_ok=True)
    assert process(path, replace(PASS, figures=(), statuses={}))["runs FAILED"] == 0


LEFT: list[tuple[str, bytes]] = [
    ("half a file", b'lastbeat_passes_total{fleet="s3://bucket/trai'),
    ("no text", bytes(range(256))),
    ("metrics of ours with other labels", b'lastbeat_passes_total{result="complete"} 41\n'),
    ("another fleet's", b'lastbeat_passes_total{fleet="s3://other/runs",result="complete"} 41\n'),
]


@pytest.mark.parametrize("left", [pytest.param(left, id=says) for says, left in LEFT])
def test_what_is_no_file_of_this_fleet_counts_nothing(path: Path, left: bytes) -> None:
    path.write_bytes(left)
    assert process(path, PASS)["passes_total complete"] == 1


def test_a_folder_that_is_missing_is_told_once_and_when_it_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "later" / "lastbeat.prom"
    metrics = PassMetrics(FLEET, 60.0)
    file = TextFile(path, metrics, FLEET)
    file.start()
    for number in range(4):
        if number == 2:
            path.parent.mkdir()
        metrics.add(PASS)
        file.write()
        assert file.wait(LIMIT_S)
    missing, again = (record.getMessage() for record in caplog.records)
    assert missing.startswith(
        f"the metrics file {path} cannot be written: No such file or directory; the sweep goes on"
    )
    assert again == f"the metrics file {path} can be written again"
    assert values(path)["passes_total complete"] == 4


def test_a_file_system_that_hangs_keeps_nobody_waiting(path: Path) -> None:
    # Whoever opens a pipe that nobody writes into hangs as a dead mount makes him.
    os.mkfifo(path)
    metrics = PassMetrics(FLEET, 60.0)
    file = TextFile(path, metrics, FLEET)
    file.start()
    for _ in range(3):
        metrics.add(PASS)
        file.write()
    assert not file.wait(0.2)
    with path.open("wb"):
        pass
    assert file.wait(LIMIT_S)
    assert values(path)["passes_total complete"] == 3, "what was counted meanwhile is not lost"


def test_what_a_killed_process_left_is_taken_away_and_nothing_else(path: Path) -> None:
    old, young = path.with_name(f".{path.name}.abc.tmp"), path.with_name(f".{path.name}.def.tmp")
    other = path.with_name(".other.prom.abc.tmp")
    for each in (old, young, other):
        each.write_text("half")
    for each in (old, other):
        os.utime(each, (time.time() - 7200, time.time() - 7200))
    process(path, PASS)
    assert {each.name for each in path.parent.iterdir()} == {path.name, young.name, other.name}


def test_a_link_is_replaced_and_what_it_leads_to_stays(path: Path) -> None:
    precious = path.with_name("precious.txt")
    precious.write_text("keep me", encoding="utf-8")
    path.symlink_to(precious)
    process(path, PASS)
    assert precious.read_text(encoding="utf-8") == "keep me"
    assert not path.is_symlink()
