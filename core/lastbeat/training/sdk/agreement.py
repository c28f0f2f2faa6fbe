"""Stops all ranks of a run at the same step once one of them has a request to stop.

The ranks agree by torch.distributed if that is in use; otherwise rank 0 announces the step. This module never imports
torch.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lastbeat.training.sdk.run import Run
    from lastbeat.training.sdk.stop_announcement import StopAnnouncement


class StopAgreement:
    """One rank's side of the agreement. Every rank has to call :meth:`ask` equally often, as for any collective.

    With torch.distributed, one call in ``every`` is an all-reduce of one number; the others return at once. So once any
    rank has raised its flag, the same call returns True on all of them. Without torch.distributed rank 0 of ``run``
    announces the call. ``run`` is None if this process is alone.
    """

    def __init__(self, every: int = 1, run: "Run | None" = None) -> None:
        self._every = max(1, every)
        self._asked = 0
        self._agreed = False
        self._run = run
        self._announcement: StopAnnouncement | None = None

    @property
    def why(self) -> str:
        """Why all ranks stop."""
        return (self._announcement.why if self._announcement is not None else "") or "another rank was told to stop"

    def ask(self, *, here: bool) -> bool:
        """Whether all ranks stop now. ``here`` says that this rank has a request to stop; a rank that is alone follows
        it at once. Raises what the all-reduce raises when a peer has died."""
        dist = in_use()
        if dist is None:
            announcement = self._announcement or self._expected()
            return here if announcement is None else announcement.ask(here=here)
        if self._run is not None:
            # torch.distributed may not have been initialised at the first call.
            self._announcement = self._run.announcement = None
            self._run = None
        self._asked += 1
        if not self._agreed and (self._asked - 1) % self._every == 0:
            torch = sys.modules["torch"]
            flag = torch.tensor([int(here)], dtype=torch.int32, device=device_for(torch, str(dist.get_backend())))
            dist.all_reduce(flag, op=dist.ReduceOp.MAX)
            self._agreed = bool(flag.item())
        return self._agreed

    def _expected(self) -> "StopAnnouncement | None":
        if self._run is None:
            return None
        from lastbeat.training.sdk.stop_announcement import StopAnnouncement  # noqa: PLC0415 - torch.distributed needs none

        self._announcement = self._run.announcement = StopAnnouncement(self._run)
        # The beat thread looks for the announcement from now on.
        self._run.beat_now()
        return self._announcement


def device_for(torch: Any, backend: str) -> Any:
    """The device on which a backend reduces: the CPU for gloo, this rank's device for NCCL and the like."""
    if "gloo" in backend:
        return "cpu"
    if torch.cuda.is_available():
        return f"cuda:{torch.cuda.current_device()}"
    # PyTorch before 2.6 has no such module.
    accelerator = getattr(torch, "accelerator", None)
    return accelerator.current_accelerator() if accelerator is not None and accelerator.is_available() else "cpu"


def in_use() -> Any:
    """The module torch.distributed if it connects several ranks, or None."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized() or dist.get_world_size() < 2:
        return None
    return dist
