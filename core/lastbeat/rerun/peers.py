"""This rank and its device, and decisions that all ranks reach together through torch.distributed, if that is in use.
Never imports torch."""

import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

from lastbeat.model.rerun import TEXT_LIMIT
from lastbeat.model.text import fit, one_line
from lastbeat.training.sdk.agreement import device_for, in_use
from lastbeat.training.sdk.ranks import rank_of


def own_rank() -> int:
    """The rank from torch.distributed, or else from the launcher."""
    dist = in_use()
    return int(dist.get_rank()) if dist is not None else rank_of(os.environ).number


def present_device(named: str | None = None) -> str:
    """The unique id of the device ``named`` by hand, or else of torch's current CUDA device (``GPU-`` and its UUID, or
    ``host/cuda:0``), other accelerator, or CPU."""
    if named is not None:
        return "-".join(fit(one_line(named), TEXT_LIMIT).split())
    host, torch = platform.node(), sys.modules.get("torch")
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


def decides_alone() -> bool:
    """Whether no other rank waits for this one."""
    dist = in_use()
    return dist is None or dist.get_world_size() == 1


def tells_for_all() -> bool:
    """Whether this rank reports the decisions of all ranks: rank 0, or a rank that decides alone."""
    dist = in_use()
    return dist is None or dist.get_rank() == 0


def on_any(flags: Sequence[bool]) -> list[bool]:
    """``flags``, each true if it is true on any rank: an all-reduce of a few numbers, which waits for the other ranks.
    Raises what that raises when a peer has died."""
    dist = in_use()
    if dist is None:
        return list(flags)
    torch = sys.modules["torch"]
    any_rank = torch.tensor(
        [int(each) for each in flags], dtype=torch.int32, device=device_for(torch, str(dist.get_backend()))
    )
    dist.all_reduce(any_rank, op=dist.ReduceOp.MAX)
    return [bool(each) for each in any_rank.tolist()]


def from_all(value: Any) -> list[Any]:
    """The value of each rank, in order of ranks. Raises like :func:`on_any`."""
    dist = in_use()
    if dist is None:
        return [value]
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found
