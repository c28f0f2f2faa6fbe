"""What training uses of its machine, measured once a beat by the beat thread."""

import time
from contextlib import suppress
from typing import Any

from lastbeat.sdk.gpus import LIMIT_S, Gpus
from lastbeat.sdk.memory import memory
from lastbeat.sdk.processes import Used, of_tree, own

_LEAST_S = 0.1
"""Over less than this the kernel's count, which goes by hundredths of a second, says nothing."""


def machine() -> dict[str, Any] | None:
    """What can be said of the machine without any process of training: its memory."""
    there = memory()
    return _known({"memory_available_bytes": there.available, "memory_total_bytes": there.total})


def _known(found: dict[str, Any]) -> dict[str, Any] | None:
    return {name: value for name, value in found.items() if value is not None} or None


class Meter:
    """Measures this process, or the command ``root`` with all that it started, once :attr:`root` is set."""

    def __init__(self, *, wraps: bool = False, gpus: Gpus | None = None) -> None:
        self._wraps = wraps
        self.root: int | None = None
        """Process number of the command that is wrapped."""
        self._gpus = gpus or Gpus()
        self._before: tuple[float, float] | None = None
        """Monotonic time and processor time at the last look."""
        self._cpu: float | None = None

    def measure(self, *, quick: bool = False) -> dict[str, Any] | None:
        """``resources`` of metadata.json; what is not known is left out, None is nothing known. Never raises.

        ``quick``: GPUs are not waited for, because the start or the end of a run is.
        """
        found: dict[str, Any] = {}
        with suppress(Exception):  # Nothing here is worth a heartbeat.
            used = self._used()
            found["cpu"] = self._cores(used)
            found["rss_bytes"] = used.rss_bytes
            found |= machine() or {}
            found["gpus"] = self._gpus.look(0.0 if quick else LIMIT_S) or None
        return _known(found)

    def _used(self) -> Used:
        if not self._wraps:
            return own()
        return Used() if self.root is None else of_tree(self.root)

    def _cores(self, used: Used) -> float | None:
        """Cores in use since the last look; None at the first one."""
        now, before = time.monotonic(), self._before
        if before is not None and used.cpu_s is not None and now - before[0] < _LEAST_S:
            return self._cpu
        self._before = None if used.cpu_s is None else (now, used.cpu_s)
        # A process that ends unseen takes its time with it; then nobody knows.
        self._cpu = None
        if before is not None and used.cpu_s is not None and used.cpu_s >= before[1]:
            self._cpu = float(f"{(used.cpu_s - before[1]) / (now - before[0]):.3g}")
        return self._cpu
