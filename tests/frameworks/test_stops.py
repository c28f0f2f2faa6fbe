"""One of four ranks is told to stop: all of them stop at the same step, with one checkpoint."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

from frameworks.trained import LIMIT_S, ROOT, SCRIPTS, forked, train

RANKS = 4


@pytest.mark.parametrize(("told", "every"), [(3, 1), (0, 10)])
def test_sigterm_to_one_rank_of_four(tmp_path: Path, told: int, every: int) -> None:
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(ROOT / each) for each in ("core", "tests")),
        "MONITORING_ROOT": str(tmp_path / "runs"),
        "LASTBEAT_BEAT_SECONDS": "0.1",
        "OMP_NUM_THREADS": "1",
    }
    launcher = [sys.executable, *forked(RANKS)]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*launcher, str(SCRIPTS / "stops.py"), str(every)], cwd=tmp_path, env=environ, stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + LIMIT_S
        while not all((tmp_path / f"process-{rank}").exists() for rank in range(RANKS)):
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(int((tmp_path / f"process-{told}").read_text()), signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0, (tmp_path / "log").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(LIMIT_S)
    stopped = [(tmp_path / f"stopped-{rank}").read_text().split(" ", 1) for rank in range(RANKS)]
    (step,) = {at for at, _ in stopped}
    assert (tmp_path / "checkpoints").read_text() == f"{step}\n"
    assert stopped[told][1] == "received signal 15 (SIGTERM)"
    assert {why for rank, (_, why) in enumerate(stopped) if rank != told} == {"another rank was told to stop"}
    said = (tmp_path / "runs/stops/_preempted").read_text()
    assert f'"step": {step}' in said
    assert not (tmp_path / "runs/stops/_error").exists()
    assert not (tmp_path / "runs/stops/_complete").exists()


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGTERM"])
def test_workers_of_a_dataloader_outlive_a_signal_to_the_whole_job(tmp_path: Path, name: str) -> None:
    done = train(tmp_path, [str(SCRIPTS / "loads_and_stops.py"), name])
    assert done.status == 0, done.output
    assert (tmp_path / "after").read_text() == "50"
    said = done.document("loads", "_preempted")
    assert said["why"] == f"received signal {int(signal.Signals[name])} ({name})"
