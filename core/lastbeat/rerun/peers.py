"""Lets all ranks of a run reach the same decision through torch.distributed, if that is in use. Never imports torch."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from lastbeat.training.sdk.agreement import device_for, in_use
from lastbeat.training.sdk.ranks import rank_of


def own_rank() -> int:
    """The rank from torch.distributed, or else from the launcher."""
    dist = in_use()
    return int(dist.get_rank()) if dist is not None else rank_of(os.environ).number


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
