"""What a step waits for, as PyTorch's collectives show it, and sections timed by events of a GPU or its stand-in."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

import torch
import torch.distributed as dist

from lastbeat.integrations.torch import GpuSpans, watch_steps
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.step_times import StepTimes
from lastbeat.training.sdk.stragglers import TorchExchange


@pytest.fixture
def group() -> Iterator[None]:
    """A process group of this process alone."""
    store = dist.HashStore()
    dist.init_process_group("gloo", rank=0, world_size=1, store=store)
    yield
    dist.destroy_process_group()


def watched() -> tuple[Run, StepTimes]:
    run = Run("r", None)
    run.sections.steps = times = StepTimes()
    watch_steps(run)
    return run, times


@pytest.mark.usefixtures("group")
def test_waits_are_told_once_each_and_change_no_result() -> None:
    run, times = watched()
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert dist.all_reduce(tensor, async_op=True).wait() is True
    dist.barrier()
    with run.section("compute"):
        dist.broadcast(tensor, 0)
    assert tensor.tolist() == [1.0, 1.0, 1.0]
    assert [inside for _, _, inside in times.waits] == [False, False, False, True]
    assert all(seconds > 0 for _, seconds, _ in times.waits)
    assert times.hears_collectives


@pytest.mark.usefixtures("group")
def test_the_last_run_that_asked_is_told_and_one_that_looks_for_no_stragglers_is_not() -> None:
    _, before = watched()
    _, times = watched()
    watch_steps(Run("other", None))
    dist.barrier()
    assert (len(before.waits), len(times.waits)) == (0, 1)


@pytest.mark.usefixtures("group")
def test_the_store_of_torch_passes_windows_on() -> None:
    exchange = TorchExchange("r")
    assert exchange.ask(4) is None, "torch.distributed of one rank is none"
    exchange.tell(3, {"x": 1})
    exchange.close()


@dataclass
class Gpu:
    """A GPU that works one millisecond behind for each event, when it is told to."""

    now_ms: float = 0.0
    reached: int = 0
    recorded: int = 0
    fault: Exception | None = None
    capturing: bool = False

    def event(self) -> "Event":
        return Event(self)

    def work(self) -> None:
        self.reached = self.recorded


@dataclass
class Event:
    gpu: Gpu
    number: int = 0
    at_ms: float = 0.0

    def record(self) -> None:
        if self.gpu.fault is not None:
            raise self.gpu.fault
        self.gpu.recorded += 1
        self.gpu.now_ms += 1.0
        self.number, self.at_ms = self.gpu.recorded, self.gpu.now_ms

    def query(self) -> bool:
        return self.number <= self.gpu.reached

    def elapsed_time(self, end: "Event") -> float:
        return end.at_ms - self.at_ms


@dataclass
class Scene:
    gpu: Gpu = field(default_factory=Gpu)

    def __post_init__(self) -> None:
        self.run = Run("r", None)
        self.run.sections.steps = self.times = StepTimes()
        self.spans = self.times.timer = GpuSpans(self.times, self.gpu.event, lambda: self.gpu.capturing)

    def step(self) -> None:
        with self.run.section("compute"):
            pass
        self.run.step(self.times.count)


def test_a_section_counts_once_the_gpu_has_been_through_it_for_the_step_in_which_it_was() -> None:
    scene = Scene()
    scene.step()
    scene.step()
    assert list(scene.times.own) == []
    scene.gpu.work()
    scene.step()
    assert list(scene.times.own) == [(0, 0.001), (1, 0.001)]


def test_a_gpu_that_never_comes_to_it_costs_no_memory_and_no_wait() -> None:
    scene = Scene()
    for _ in range(5000):
        scene.step()
    assert scene.gpu.recorded <= 2 * 1024
    scene.gpu.work()
    scene.step()
    scene.step()
    assert len(scene.times.own) >= 1024


def test_nothing_is_recorded_into_a_graph_that_is_being_captured() -> None:
    scene = Scene(Gpu(capturing=True))
    scene.step()
    assert scene.gpu.recorded == 0


def test_a_gpu_that_fails_is_left_alone_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(Gpu(fault=RuntimeError("CUDA error")))
    with caplog.at_level(logging.WARNING, "lastbeat"):
        for _ in range(9):
            scene.step()
    assert caplog.messages == ["lastbeat cannot time this GPU's steps: RuntimeError: CUDA error"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_real_gpu_takes_longer_for_more_work() -> None:
    run, times = watched()
    taken = []
    for size in (256, 4096):
        square = torch.ones(size, size, device="cuda")
        times.own.clear()
        for _ in range(20):
            with run.section("compute"):
                for _ in range(10):
                    square = square @ square / size
            run.step(times.count)
        torch.cuda.synchronize()
        with run.section("compute"):
            pass
        taken.append(max(seconds for _, seconds in times.own))
    assert taken[1] > 2 * taken[0]
