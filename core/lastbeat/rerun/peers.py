"""All ranks of a training decide the same: by torch.distributed, where that is in use. Nothing of torch is imported."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from lastbeat.sdk.agreement import device_for, in_use
from lastbeat.sdk.ranks import rank_of


def own_rank() -> int:
    """As torch.distributed has it, else as the launcher says."""
    dist = in_use()
    return int(dist.get_rank()) if dist is not None else rank_of(os.environ).number


def decides_alone() -> bool:
    """Whether no other rank waits for this one."""
    dist = in_use()
    return dist is None or dist.get_world_size() == 1


def tells_for_all() -> bool:
    """Whether what all ranks have decided is this one's to tell. Who decides alone tells it, too."""
    dist = in_use()
    return dist is None or dist.get_rank() == 0


def on_any(flags: Sequence[bool]) -> list[bool]:
    """Each of ``flags`` as soon as any rank has it: an all-reduce of a few numbers, which waits for the other ranks.
    Raises what that does, when a peer has died."""
    dist = in_use()
    if dist is None:
        return list(flags)
    torch = sys.modules["torch"]
    told = torch.tensor(
        [int(each) for each in flags], dtype=torch.int32, device=device_for(torch, str(dist.get_backend()))
    )
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return [bool(each) for each in told.tolist()]


def from_all(said: Any) -> list[Any]:
    """What each rank says, in their order. Raises as :func:`on_any` does."""
    dist = in_use()
    if dist is None:
        return [said]
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, said)
    return found
