"""Identifies the device that this rank computes on."""

import platform
import sys
from dataclasses import dataclass
from typing import Any

from lastbeat.model.rerun import TEXT_LIMIT
from lastbeat.model.text import fit, one_line


@dataclass(frozen=True, slots=True)
class ComputeDevice:
    """The device of a result."""

    id: str
    """Unique id of the hardware: ``GPU-`` and its UUID, or ``host/cuda:0``."""
    host: str


def present_device(named: str | None = None) -> ComputeDevice:
    """The device ``named`` by hand, or else torch's current CUDA device, other accelerator, or CPU."""
    host = platform.node()
    if named is not None:
        return ComputeDevice("-".join(fit(one_line(named), TEXT_LIMIT).split()), host)
    return ComputeDevice(_found(host), host)


def _found(host: str) -> str:
    torch = sys.modules.get("torch")
    # Querying an uninitialised CUDA would initialise it.
    if torch is not None and torch.cuda.is_initialized():
        index = torch.cuda.current_device()
        # PyTorch before 2.5 has no uuid.
        uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
        return f"GPU-{uuid}" if uuid is not None else f"{host}/cuda:{index}"
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is not None and accelerator.is_available():
        return f"{host}/{accelerator.current_accelerator().type}:{accelerator.current_device_index()}"
    return f"{host}/cpu"
