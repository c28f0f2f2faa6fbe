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
        dist = in_use()
        if dist is None:
            return here
        self._asked += 1
        if not self._agreed and (self._asked - 1) % self._every == 0:
            torch = sys.modules["torch"]
            flag = torch.tensor([int(here)], dtype=torch.int32, device=device_for(torch, str(dist.get_backend())))
            dist.all_reduce(flag, op=dist.ReduceOp.MAX)
            self._agreed = bool(flag.item())
        return self._agreed


def device_for(torch: Any, backend: str) -> Any:
    """Where a backend reduces: gloo on the CPU, NCCL and its kin on this rank's device."""
    if "gloo" in backend:
        return "cpu"
    if torch.cuda.is_available():
        return f"cuda:{torch.cuda.current_device()}"
    # PyTorch before 2.6 has no such module.
    accelerator = getattr(torch, "accelerator", None)
    return accelerator.current_accelerator() if accelerator is not None and accelerator.is_available() else "cpu"


def in_use() -> Any:
    """torch.distributed, where it connects several ranks."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized() or dist.get_world_size() < 2:
        return None
    return dist
