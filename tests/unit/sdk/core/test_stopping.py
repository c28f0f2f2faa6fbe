"""What tells a training to stop, without a process or a store: reasons, signals by name, the end of a job."""

import signal
from contextlib import suppress
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.posix_signals import signal_number
from lastbeat.training.sdk.agreement import device_for
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.time_limit import SLURM_END, time_limit


def test_once_it_is_to_stop_it_stays_so_and_the_first_reason_counts() -> None:
    run = Run("run-1", None)
    assert not run.should_stop
    run.ask_to_stop("received signal 10 (SIGUSR1)", "told")
    run.ask_to_stop("something later", "told again")
    assert run.should_stop
    assert run.should_stop
    assert run.stop_wanted == "received signal 10 (SIGUSR1)"


def test_a_training_that_is_alone_agrees_with_itself() -> None:
    run = Run("run-1", None)
    assert [run.all_should_stop(every=3) for _ in range(5)] == [False] * 5
    run.ask_to_stop("it is time", "told")
    assert run.all_should_stop(every=3)
    assert run.stop_wanted == "it is time"


class Device:
    """A kind of device that PyTorch may have."""

    def __init__(self, here: bool) -> None:
        self.is_available = lambda: here
        self.current_device = lambda: 3
        self.current_accelerator = lambda: "xpu"


DEVICES = [
    pytest.param("gloo", True, True, "cpu", id="gloo reduces on the CPU, whatever else is there"),
    pytest.param("nccl", True, True, "cuda:3", id="this rank's GPU, and not the first one"),
    pytest.param("nccl", True, None, "cuda:3", id="a PyTorch that knows no accelerators"),
    pytest.param("xccl", False, True, "xpu", id="another accelerator"),
    pytest.param("mpi", False, False, "cpu", id="no accelerator at all"),
]


@pytest.mark.parametrize(("backend", "cuda", "accelerator", "device"), DEVICES)
def test_where_ranks_agree(backend: str, cuda: bool, accelerator: bool | None, device: str) -> None:
    torch = SimpleNamespace(cuda=Device(cuda))
    if accelerator is not None:
        torch.accelerator = Device(accelerator)
    assert device_for(torch, backend) == device


NAMES = [
    ("SIGUSR1", signal.SIGUSR1),
    (" usr2 ", signal.SIGUSR2),
    ("SigTerm", signal.SIGTERM),
    ("10", signal.SIGUSR1),
    (12, signal.SIGUSR2),
]


@pytest.mark.parametrize(("said", "meant"), NAMES)
def test_a_signal_by_its_name_or_number(said: object, meant: int) -> None:
    assert signal_number(said) == meant


NO_SIGNALS = [
    pytest.param("SIGFOO", "is no signal of this system", id="no signal"),
    pytest.param("99", "is no signal of this system", id="no number of one"),
    pytest.param(True, "is no signal", id="a switch"),
    pytest.param(-10, "is no signal", id="below zero"),
    pytest.param("SIGUSR1; rm", "is no signal", id="more than a name"),
    pytest.param("SIGKILL", "is no signal that a training can answer", id="one that nobody can handle"),
    pytest.param("SIGINT", "is no signal that a training can answer", id="Ctrl-C, which means something else"),
]


@pytest.mark.parametrize(("said", "why"), NO_SIGNALS)
def test_what_is_no_such_signal_is_refused(said: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        signal_number(said)


@given(st.text() | st.integers() | st.floats() | st.none())
def test_whatever_is_said_is_a_signal_or_refused(said: object) -> None:
    with suppress(ValueError):
        assert signal_number(said) in set(signal.Signals)


def test_the_end_of_a_slurm_job_less_the_margin() -> None:
    found = time_limit({SLURM_END: " 1767268800 "}, 90.0)
    assert found is not None
    assert (found.stop_at, found.why) == (1767268710.0, "1m 30s before the time limit of its Slurm job")


@pytest.mark.parametrize("said", ["", "0", "tomorrow", "-1", "17672688000000000", "1767268800.5", "٣٣٣٣٣٣٣٣٣٣"])
def test_a_job_that_names_no_end_has_none(said: str) -> None:
    assert time_limit({SLURM_END: said}, 60.0) is None
    assert time_limit({}, 60.0) is None


def test_a_margin_of_nothing_is_none() -> None:
    assert time_limit({SLURM_END: "1767268800"}, 0.0) is None
