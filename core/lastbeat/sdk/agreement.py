"""All ranks of a training stop at the same step, because one of them is told to: by torch.distributed, if that is in
use. Nothing of torch is imported here."""

import sys
from typing import Any


class StopAgreement:
    """One rank's part. Every rank has to ask equally often, as for any collective.

    Every ``every``-th question is an all-reduce of one number; the others are answered at once. So a flag that any rank
    has raised is answered with True on all of them, and with the same question.
    """

    def __init__(self, every: int = 1) -> None:
        self._every = max(1, every)
        self._asked = 0
        self._agreed = False

    def ask(self, *, here: bool) -> bool:
        """Whether all ranks stop now. ``here``: this one is told to. Without torch.distributed, or alone, that is the
        answer. Raises what the all-reduce does, when a peer has died."""
        dist = _in_use()
        if dist is None:
            return here
        self._asked += 1
        if not self._agreed and (self._asked - 1) % self._every == 0:
            torch = sys.modules["torch"]
            # NCCL and its kin reduce what lies on a device.
            device = "cpu" if "gloo" in str(dist.get_backend()) else torch.accelerator.current_accelerator()
            flag = torch.tensor([int(here)], dtype=torch.int32, device=device)
            dist.all_reduce(flag, op=dist.ReduceOp.MAX)
            self._agreed = bool(flag.item())
        return self._agreed


def _in_use() -> Any:
    """torch.distributed, where it connects several ranks."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized() or dist.get_world_size() < 2:
        return None
    return dist
