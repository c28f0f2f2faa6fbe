"""Whether the GPUs have given their memory back: a driver frees it some time after its process has ended, and whoever
starts before that runs out of memory."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

MARGIN_BYTES: Final = 512 << 20
"""So much more than at the beginning may be in use: contexts of other programs come and go."""
Gpus = Sequence[Mapping[str, Any]]


class MemoryWatch:
    """Knows how much memory of each GPU was in use before anything was started."""

    def __init__(self, read: Callable[[float], Gpus | None]) -> None:
        """``read`` asks the driver how it is now, and waits for so many seconds at most; None: it did not say."""
        self._read = read
        self._before: list[int | None] | None = None

    def begin(self, wait_s: float) -> None:
        """Look for the first time. Where the driver says nothing by then, nothing is awaited later."""
        gpus = self._read(wait_s)
        self._before = None if gpus is None else [_used(each) for each in gpus]

    def is_free(self, wait_s: float) -> bool:
        """Whether no GPU is seen to have more of it in use than before; True where nobody knew how much that was."""
        if not self._before:
            return True
        gpus = self._read(wait_s)
        if gpus is None:
            # A driver that is slow to answer has not given anything back yet.
            return False
        if len(gpus) != len(self._before):
            return True
        pairs = ((before, _used(gpu)) for before, gpu in zip(self._before, gpus, strict=True))
        return all(before is None or now is None or now <= before + MARGIN_BYTES for before, now in pairs)

    def wait_free(self, limit_s: float, pause: Callable[[float], None], each_s: float = 0.5) -> bool:
        """Wait until it is; False if it is not after ``limit_s``. ``pause`` waits so many seconds, and may raise."""
        deadline = time.monotonic() + limit_s
        while not self.is_free(each_s):
            if time.monotonic() >= deadline:
                return False
            pause(each_s)
        return True


def _used(gpu: Mapping[str, Any]) -> int | None:
    used = gpu.get("memory_used_bytes")
    return used if isinstance(used, int) else None
