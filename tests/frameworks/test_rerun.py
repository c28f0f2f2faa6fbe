"""Four ranks of torchrun's agent, and the re-run state machine: from a bad loss to the alert, over several jobs."""

import json
import os
import platform
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

import torch

from frameworks.trained import ROOT, SCRIPTS, forked
from lastbeat.rerun import RerunStateMachine
from lastbeat.rerun.random_state import RandomState
from support.http_sink import HttpSink, http_sink

LIMIT_S = 600.0
RANKS = 4


@dataclass(frozen=True)
class Supervised:
    """What a supervised training left behind, and what people were told."""

    folder: Path
    sink: HttpSink
    status: int
    said: str

    def seen(self, attempt: int, rank: int) -> list[list[Any]]:
        """Step, passes, loss and verdicts of each step."""
        found: list[list[Any]] = json.loads((self.folder / f"seen-{attempt}-{rank}.json").read_text(encoding="utf-8"))
        return found

    @property
    def losses(self) -> list[list[float]]:
        """The loss of each step on each rank, as the last attempt has it."""
        found = dict[int, dict[int, float]]()
        for attempt in (1, 2, 3):
            for rank in range(RANKS):
                if (self.folder / f"seen-{attempt}-{rank}.json").exists():
                    for step, _, loss, _ in self.seen(attempt, rank):
                        found.setdefault(rank, {})[step] = loss
        return [[found[rank][step] for step in sorted(found[rank])] for rank in sorted(found)]

    def verdicts(self, attempt: int, rank: int = 0) -> dict[int, list[str]]:
        """Those of each step that had any."""
        return {step: found for step, _, _, found in self.seen(attempt, rank) if found}

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "runs/run/_watchdog.json").read_text(encoding="utf-8"))
        return found

    @property
    def alerts(self) -> list[dict[str, Any]]:
        return [json.loads(each.body) for each in self.sink.requests if each.method == "POST"]


def supervise(folder: Path, kind: str, sink: HttpSink) -> Supervised:
    for name in ("runs", "ckpt"):
        (folder / name).mkdir(parents=True)
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith(("LASTBEAT", "MONITORING"))},
        "PYTHONPATH": os.pathsep.join(str(ROOT / each) for each in ("core", "cli", "tests")),
        "MONITORING_ROOT": str(folder / "runs"),
        "LASTBEAT_STATE_DIR": str(folder / "state"),
        "LASTBEAT_RESTART_DELAY_SECONDS": "0",
        "LASTBEAT_BEAT_SECONDS": "0.5",
        "LASTBEAT_WEBHOOK_URL": sink.url,
        "ALERT_ON": "failed,timed_out,succeeded,warning",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, *forked(RANKS)]
    options = ["--run-id", "run", "--launcher", "local", "--policy", "megatron_transient"]
    options += ["--checkpoint-dir", "ckpt", "--interval", "0.5"]
    done = subprocess.run(
        [sys.executable, "-m", "lastbeat_cli", "supervise", *options, "--", *command, str(SCRIPTS / "rerun.py"), kind],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip
    logs = "".join(path.read_text(encoding="utf-8", errors="replace") for path in (folder / "runs/run/logs").glob("*"))
    return Supervised(folder, sink, done.returncode, f"{done.stdout}\n{logs}")


@pytest.fixture
def calm(tmp_path: Path) -> Supervised:
    """The same training, of which no loss is bad."""
    with http_sink() as sink:
        return supervise(tmp_path / "calm", "none", sink)


@pytest.mark.timeout(900)
def test_a_transient_error_leaves_the_training_as_if_it_had_not_been(tmp_path: Path, calm: Supervised) -> None:
    assert calm.status == 0, calm.said
    with http_sink() as sink:
        trained = supervise(tmp_path / "faulty", "transient", sink)
    assert trained.status == 0, trained.said
    assert [trained.verdicts(1, rank) for rank in range(RANKS)] == [{7: ["transient_error"]}] * RANKS
    assert [each[1] for each in trained.seen(1, 0)] == [1] * 7 + [2] + [1] * 4
    assert trained.losses == calm.losses, "the same batches, the same random numbers, the same gradients"
    assert f"Rank 2, node {platform.node()}, device GPU-a2, iteration #7: Possible transient error!" in trained.said
    # Whether a pass came in the midst of the step, and warned of a NaN, is a matter of luck.
    told = [each for each in trained.alerts if each["event"] != "WARNING"]
    assert [each["event"] for each in told] == ["ALERT", "SUCCEEDED"], told
    assert f"Rank 2, node {platform.node()}, device GPU-a2" in json.dumps(told[0])


@pytest.mark.timeout(900)
def test_a_chip_that_computes_wrongly_is_found_over_three_jobs_and_named_in_the_alert(tmp_path: Path) -> None:
    with http_sink() as sink:
        trained = supervise(tmp_path / "faulty", "persistent", sink)
    assert trained.status == 2, trained.said
    found = [trained.verdicts(attempt) for attempt in (1, 2, 3)]
    assert found == [{7: ["reproduced"]}, {7: ["same_device"]}, {7: ["persistent_error"]}]
    told = [(each["status"], json.dumps(each)) for each in trained.alerts if each["event"] == "FAILED"]
    assert [status for status, _ in told] == ["FAILED"] * 3
    for _, text in told[:2]:
        assert "restarting" in text
        assert "exit status 16" in text
    last = told[2][1]
    assert "exit status 17" in last
    assert f"Rank 2, node {platform.node()}, device GPU-a2, iteration #7: Possible persistent error!" in last
    assert json.loads(last)["cause"] == "hardware"
    assert [each["details"].get("excluded_nodes") for each in trained.record["actions"]][1:] == [platform.node()] * 2


@pytest.mark.timeout(900)
def test_bad_maths_are_no_fault_of_the_hardware_and_training_goes_on(tmp_path: Path) -> None:
    with http_sink() as sink:
        trained = supervise(tmp_path / "faulty", "deterministic", sink)
    assert trained.status == 0, trained.said
    assert [trained.verdicts(attempt) for attempt in (1, 2)] == [{7: ["reproduced"]}, {7: ["correct_result"]}]
    assert [each[0] for each in trained.seen(2, 0)] == [7, 8, 9, 10, 11]
    assert "Correct result (but possible Application error)" in trained.said
    assert "Possible persistent error!" not in trained.said
    assert any("Correct result" in json.dumps(each) for each in trained.alerts)
    assert trained.alerts[-1]["event"] == "SUCCEEDED"


def test_random_numbers_of_torch_are_put_back_exactly_through_a_checkpoint(tmp_path: Path) -> None:
    torch.manual_seed(3)
    random.seed(3)
    torch.randn(5)
    torch.save(RandomState.now().document(), tmp_path / "random.pt")
    drawn = torch.randn(7).tolist(), torch.nn.functional.dropout(torch.ones(64)).tolist(), random.random()
    RandomState.read(torch.load(tmp_path / "random.pt")).restore()
    assert (torch.randn(7).tolist(), torch.nn.functional.dropout(torch.ones(64)).tolist(), random.random()) == drawn


def test_a_loss_is_looked_at_as_it_was_when_it_was_given() -> None:
    machine = RerunStateMachine(mode="validate_results", device="GPU-1")
    passes = 0
    while machine.should_run_forward_backward():
        loss = torch.tensor(float("nan") if passes == 0 else 2.5)
        machine.validate(loss)
        loss.fill_(1.0)
        passes += 1
    assert passes == 2
    assert [each.verdict.value for each in machine.verdicts] == ["transient_error"]


def test_the_state_is_saved_and_loaded_as_weights_are(tmp_path: Path) -> None:
    machine = RerunStateMachine(mode="validate_results", device="GPU-1")
    while machine.should_run_forward_backward():
        machine.validate(torch.tensor(float("nan")))
    torch.save(machine.state_dict(), tmp_path / "rerun.pt")
    resumed = RerunStateMachine(mode="validate_results", device="GPU-2")
    resumed.load_state_dict(torch.load(tmp_path / "rerun.pt", weights_only=True))
    while resumed.should_run_forward_backward():
        resumed.validate(torch.tensor(2.5))
    assert resumed.should_checkpoint_and_exit() == (False, True, 17)
