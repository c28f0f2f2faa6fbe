"""Watches whether the GPUs' memory is free. A driver frees it some time after its process has ended, and a start before
that runs out of memory."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

MARGIN_BYTES: Final = 512 << 20
"""Most bytes in use beyond those at the beginning, because contexts of other programs come and go."""
Gpus = Sequence[Mapping[str, Any]]


class MemoryWatch:
    """Compares the memory in use of each GPU with that before the first start."""

    def __init__(self, read: Callable[[float], Gpus | None]) -> None:
        """``read`` returns the driver's current state of the GPUs, or None without an answer within the given
        seconds."""
        self._read = read
        self._before: list[int | None] | None = None

    def begin(self, wait_s: float) -> None:
        """Read the initial state. If the driver does not answer by then, later waits end at once."""
        gpus = self._read(wait_s)
        self._before = None if gpus is None else [_used(each) for each in gpus]

    def is_free(self, wait_s: float) -> bool:
        """Whether no GPU is known to have more memory in use than before. True if the initial state is unknown."""
        if not self._before:
            return True
        gpus = self._read(wait_s)
        if gpus is None:
            # A driver that is slow to answer may not have freed anything yet.
            return False
        if len(gpus) != len(self._before):
            return True
        pairs = ((before, _used(gpu)) for before, gpu in zip(self._before, gpus, strict=True))
        return all(before is None or now is None or now <= before + MARGIN_BYTES for before, now in pairs)

    def wait_free(self, limit_s: float, pause: Callable[[float], None], each_s: float = 0.5) -> bool:
        """Wait until the memory is free. Returns False after ``limit_s``. ``pause`` waits for the given seconds, and
        may raise."""
        deadline = time.monotonic() + limit_s
        while not self.is_free(each_s):
            if time.monotonic() >= deadline:
                return False
            pause(each_s)
        return True


def _used(gpu: Mapping[str, Any]) -> int | None:
    used = gpu.get("memory_used_bytes")
    return used if isinstance(used, int) else None
