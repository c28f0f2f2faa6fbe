"""Faults on purpose as training meets them: in which call, what is reported, and what cannot be simulated."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastbeat
from lastbeat.model.simulated_fault import FaultType, SimulatedFault
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.sections import Section, SectionLimits
from lastbeat.training.sdk.simulated_faults import cause
from support.waiting import until


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run; the fault that replaces how sections are entered is over with the test."""
    monkeypatch.setattr(Section, "__enter__", Section.__enter__)
    return Run("r", None)


def arm(run: Run, fault: FaultType) -> None:
    cause(run, SimulatedFault(fault, 0, 0.0))


def enter(name: str) -> Callable[[Run], None]:
    def act(run: Run) -> None:
        with run.section(name):
            pass

    return act


RAISES: list[tuple[FaultType, Callable[[Run], object], str]] = [
    ("gpu_error", lambda run: run.step(1, loss=1.0), "uncorrectable ECC error"),
    ("gpu_error", lambda run: run.log(loss=1.0), "uncorrectable ECC error"),
    ("disk_full", lambda run: run.step(1, loss=1.0), "No space left on device"),
    ("disk_full", enter("checkpointing"), "No space left on device"),
]


@pytest.mark.parametrize(("fault", "act", "said"), RAISES, ids=["a step", "a log", "a step without saves", "a save"])
def test_training_meets_it_once(run: Run, fault: FaultType, act: Callable[[Run], object], said: str) -> None:
    arm(run, fault)
    with pytest.raises((RuntimeError, OSError), match=said):
        act(run)
    assert not run.sections.open, "a section in which it happens is left"
    act(run)


def test_a_full_disk_waits_for_the_section_that_has_a_limit(run: Run) -> None:
    run.sections.limits = SectionLimits({"checkpointing": 60.0})
    arm(run, "disk_full")
    run.step(1, loss=1.0)
    with pytest.raises(OSError, match="No space left"):
        enter("checkpointing")(run)


def test_a_loss_is_reported_as_no_number(run: Run) -> None:
    arm(run, "nan")
    run.step(1, loss=1.0)
    assert run.latest is not None
    assert str(run.latest[1]) == "nan"
    run.log(loss=1.0)
    assert str(run.latest[1]) == "nan"


def test_a_slow_rank_takes_as_long_again_in_its_own_section(run: Run) -> None:
    run.section("compute")
    arm(run, "slow_rank")
    began = time.monotonic()
    with run.section("compute"):
        time.sleep(0.05)
    with run.section("compute"):
        assert time.monotonic() - began >= 0.1


NO_FAULTS = [
    pytest.param(None, "gpu_error:7:0", "no rank 7 among 1", id="a rank that is not there"),
    pytest.param("gpu_eror", "", "did you mean gpu_error", id="a slip"),
    pytest.param(3, "", "is no text", id="a number"),
    pytest.param("nan:9:0", "gpu_error:7:0", "no rank 9 among 1", id="an argument outranks the setting"),
]


@pytest.mark.parametrize(("argument", "setting", "said"), NO_FAULTS)
def test_what_cannot_be_simulated_is_said_and_training_goes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    argument: object,
    setting: str,
    said: str,
) -> None:
    monkeypatch.setenv("LASTBEAT_SIMULATE_FAULT", setting)
    more: dict[str, Any] = {"simulate_fault": argument}
    with caplog.at_level(logging.WARNING, "lastbeat"), lastbeat.run("r", root=tmp_path, **more) as run:
        run.step(1, loss=1.0)
        until(lambda: said in caplog.text.lower())
    assert (tmp_path / "r" / "_complete").exists()
