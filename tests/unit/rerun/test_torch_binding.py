"""What is asked of torch where it is loaded: here of one that is made up, with a GPU; see tests/frameworks for the real
one."""

import platform
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from lastbeat.rerun.peers import present_device
from lastbeat.rerun.random_state import RandomState

UUID = "5c8e1f2e-0000-4111-8222-333344445555"
HOST = platform.node()


class Bytes(list[int]):
    """A tensor of bytes, as far as it is looked at."""

    def tolist(self) -> list[int]:
        return list(self)


class Cuda:
    """Of torch: device 3 of a machine, which training has used or not."""

    def __init__(self, *, initialised: bool, properties: Any) -> None:
        self.initialised, self.properties, self.state = initialised, properties, Bytes([1, 2, 3])

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return self.initialised

    def current_device(self) -> int:
        assert self.initialised, "a training that has not touched CUDA is made to"
        return 3

    def get_device_properties(self, index: int) -> Any:
        return self.properties

    def get_rng_state(self) -> Bytes:
        assert self.initialised, "a training that has not touched CUDA is made to"
        return Bytes(self.state)

    def set_rng_state(self, state: Bytes) -> None:
        self.state = state


def torch_with(monkeypatch: pytest.MonkeyPatch, cuda: Cuda, **more: Any) -> Any:
    held = SimpleNamespace(state=Bytes([7, 8]))
    made = SimpleNamespace(
        cuda=cuda,
        uint8="uint8",
        tensor=lambda values, dtype: Bytes(values),
        get_rng_state=lambda: Bytes(held.state),
        set_rng_state=lambda state: setattr(held, "state", state),
        held=held,
        **more,
    )
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


@pytest.mark.parametrize(
    ("initialised", "properties", "named", "expected"),
    [
        pytest.param(True, SimpleNamespace(uuid=UUID), None, f"GPU-{UUID}", id="the UUID of the CUDA device"),
        pytest.param(True, SimpleNamespace(), None, f"{HOST}/cuda:3", id="its place, where torch knows no UUID"),
        pytest.param(False, None, None, f"{HOST}/cpu", id="CUDA that training has not touched is left alone"),
        pytest.param(True, SimpleNamespace(uuid=UUID), "rack 7, 3", "rack-7,-3", id="by hand, in one word"),
    ],
)
def test_which_device_it_is(
    initialised: bool, properties: Any, named: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_with(monkeypatch, Cuda(initialised=initialised, properties=properties))
    found = present_device(named)
    assert found == expected


def test_another_accelerator_is_known_by_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    accelerator = SimpleNamespace(
        is_available=lambda: True,
        current_accelerator=lambda: SimpleNamespace(type="xpu"),
        current_device_index=lambda: 1,
    )
    torch_with(monkeypatch, Cuda(initialised=False, properties=None), accelerator=accelerator)
    assert present_device() == f"{HOST}/xpu:1"


def test_without_torch_it_is_the_cpu() -> None:
    assert present_device() == f"{HOST}/cpu"


def test_random_numbers_of_torch_and_its_cuda_device_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda(initialised=True, properties=None)
    torch = torch_with(monkeypatch, cuda)
    then = RandomState.read(RandomState.now().document())
    torch.held.state, cuda.state = Bytes([0]), Bytes([0])
    then.restore()
    assert (torch.held.state, cuda.state) == ([7, 8], [1, 2, 3])


def test_a_cuda_device_that_is_not_used_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_with(monkeypatch, Cuda(initialised=False, properties=None))
    assert RandomState.now().cuda is None
