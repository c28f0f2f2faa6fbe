"""On which device this rank computes."""

import platform
import sys
from dataclasses import dataclass
from typing import Any

from lastbeat.model.rerun import TEXT_LIMIT
from lastbeat.model.text import fit, one_line


@dataclass(frozen=True, slots=True)
class ComputeDevice:
    """Where a result comes from."""

    id: str
    """The same for the same hardware, and no other: ``GPU-`` and its UUID, or ``host/cuda:0``."""
    host: str


def present_device(named: str | None = None) -> ComputeDevice:
    """The one that was ``named`` by hand, or the CUDA device that torch computes on, or whatever else it does."""
    host = platform.node()
    if named is not None:
        return ComputeDevice("-".join(fit(one_line(named), TEXT_LIMIT).split()), host)
    return ComputeDevice(_found(host), host)


def _found(host: str) -> str:
    torch = sys.modules.get("torch")
    # A training that has not touched CUDA is not made to.
    if torch is not None and torch.cuda.is_initialized():
        index = torch.cuda.current_device()
        # PyTorch before 2.5 does not know it.
        uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
        return f"GPU-{uuid}" if uuid is not None else f"{host}/cuda:{index}"
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is not None and accelerator.is_available():
        return f"{host}/{accelerator.current_accelerator().type}:{accelerator.current_device_index()}"
    return f"{host}/cpu"
