"""Each fault that can be simulated, in a real training of four ranks under ``lastbeat exec``: what the watchdog says,
what is started again, and that the last loss is that of an undisturbed training."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

from frameworks.trained import LIMIT_S, ROOT, SCRIPTS, forked

STEPS = 60
LAST_S = 20
"""How long a section may last: far more than it needs on a busy machine."""


@dataclass(frozen=True)
class Site:
    """A fleet root and a checkpoint folder."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        clean = {name: text for name, text in os.environ.items() if not name.startswith(("LASTBEAT", "MONITORING"))}
        return clean | {
            "PYTHONPATH": os.pathsep.join(str(ROOT / each) for each in ("core", "cli", "tests")),
            "MONITORING_ROOT": str(self.folder / "runs"),
            "LASTBEAT_BEAT_SECONDS": "0.3,ranks:0.3",
            "OMP_NUM_THREADS": "1",
        }

    def command(self, *options: str) -> list[str]:
        limits = f"setup:{LIMIT_S},step:{LAST_S},checkpointing:{LAST_S},out_of_section:{2 * LAST_S}"
        return [
            sys.executable, "-m", "lastbeat_cli", "exec", "--run-id", "faults", "--section-timeouts", limits,
            "--checkpoint-dir", "ckpt", "--grace", "3", *options, "--",
            sys.executable, *forked(4), str(SCRIPTS / "faults.py"), str(STEPS),
        ]  # fmt: skip

    def start(self, fault: str, policy: str) -> "subprocess.Popen[str]":
        (self.folder / "ckpt").mkdir(parents=True, exist_ok=True)
        env = self.environment | ({"LASTBEAT_SIMULATE_FAULT": fault} if fault else {})
        with (self.folder / "output").open("w", encoding="utf-8") as output:
            return subprocess.Popen(
                self.command("--max-restarts", "2", "--policy", policy),
                cwd=self.folder,
                env=env,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def train(
        self, fault: str, look: Callable[["Site"], None] = lambda _: None, policy: str = "megatron_transient"
    ) -> int:
        """Its exit status; ``look`` is called while it runs."""
        process = self.start(fault, policy)
        try:
            deadline = time.monotonic() + LIMIT_S
            while process.poll() is None:
                assert time.monotonic() < deadline, self.output
                if (self.folder / "runs" / "faults" / "metadata.json").exists():
                    look(self)
                time.sleep(0.2)
            return process.returncode
        finally:
            # It takes its ranks along.
            process.terminate()
            process.wait(LIMIT_S)

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text(encoding="utf-8")

    @property
    def final(self) -> str | None:
        place = self.folder / "final"
        return place.read_text(encoding="utf-8") if place.exists() else None

    def watch(self) -> dict[str, Any]:
        """What a watchdog says now."""
        done = subprocess.run(
            [sys.executable, "-m", "lastbeat_cli", "watch", "--run-id", "faults", "--once", "--json"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The last loss of a training to which nothing happens."""
    site = Site(tmp_path_factory.mktemp("undisturbed"))
    assert site.train("") == 0, site.output
    assert site.final is not None
    return site.final


@pytest.mark.parametrize(
    ("fault", "policy", "why"),
    [
        # The recommended one restarts none of which only SIGKILL is known.
        pytest.param("rank_killed:2:1", "default", "restarting in place, 1 of 2", id="a rank is killed"),
        pytest.param("gpu_error:3:1", "megatron_transient", "error_type=hardware", id="a GPU fails"),
        pytest.param("rank_hung:1:1", "megatron_transient", ": step for ", id="a rank hangs in a step"),
    ],
)
def test_it_is_restarted_in_place_and_ends_with_the_same_loss(
    tmp_path: Path, undisturbed: str, fault: str, policy: str, why: str
) -> None:
    site = Site(tmp_path)
    assert site.train(fault, policy=policy) == 0, site.output
    assert site.output.count("FT: Simulating fault") == 1
    assert why in site.output
    assert site.output.count("lastbeat: restarting in place") == 1
    assert site.final == undisturbed
    found = site.watch()
    assert found["status"] == "SUCCEEDED"
    assert found["attempt"] == 2


def test_a_full_disk_is_for_people_to_mend(tmp_path: Path, undisturbed: str) -> None:
    site = Site(tmp_path)
    assert site.train("disk_full:0:1") == 1, site.output
    found = site.watch()
    assert (found["status"], found["cause"]) == ("FAILED", "storage")
    assert "not restarted in place" in site.output
    # Once there is room again it is started once more, and goes on.
    assert site.train("disk_full:0:1") == 0, site.output
    assert (site.final, site.watch()["status"]) == (undisturbed, "SUCCEEDED")


def test_a_preempted_training_stops_at_one_checkpoint_and_goes_on_from_it(tmp_path: Path, undisturbed: str) -> None:
    site = Site(tmp_path)
    site.train("preempt:2:1")
    found = site.watch()
    assert found["status"] == "PREEMPTED", site.output
    assert not (site.folder / "final").exists()
    assert site.train("preempt:2:1") == 0, site.output
    assert (site.final, site.watch()["status"]) == (undisturbed, "SUCCEEDED")


def test_a_loss_that_is_not_a_number_is_told_while_training_goes_on(tmp_path: Path, undisturbed: str) -> None:
    site, told = Site(tmp_path), set[str]()

    def look(site: Site) -> None:
        found = site.watch()
        assert found["status"] in {"RUNNING", "SUCCEEDED"}
        told.update(found["conditions"])

    assert site.train("nan:0:0", look) == 0, site.output
    assert "loss_nan" in told
    # Only what is reported was changed.
    assert site.final == undisturbed
