"""The GPUs that training may use, their load and their memory, from NVIDIA's driver.

Needs the package ``nvidia-ml-py`` (the extra ``gpu``) and the driver; without either, no GPUs are reported. If a GPU
has fallen off the bus, any call to the driver may hang, and this is when heartbeats matter most. So the driver is asked
in another thread, and at most one such thread ever waits.
"""

import importlib.util
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lastbeat.sdk.fork_guard import delay_unsafe_forks
from lastbeat.sdk.values import as_text

MOST = 16
LIMIT_S = 0.5
"""How long a beat waits for an answer."""
VALID_S = 150.0
"""How long an answer is used while the next one does not come."""
_LIBRARY = "libnvidia-ml.so.1"

Gpu = dict[str, Any]


class GpuMonitor:
    """Reads the GPUs once a beat, for the beat thread."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._thread: threading.Thread | None = None
        self._driver: Any = None
        self._off = False
        self._known: tuple[float, list[Gpu]] | None = None

    def read(self, wait_s: float = LIMIT_S) -> list[Gpu] | None:
        """The GPUs' state, waiting up to ``wait_s`` for news; None if unknown."""
        waiting = self._thread is not None and self._thread.is_alive()
        if not self._off and not waiting:
            self._ask(wait_s)
        known = self._known
        return known[1] if known is not None and time.monotonic() - known[0] < VALID_S else None

    def _ask(self, wait_s: float) -> None:
        thread = threading.Thread(target=self._answer, name="lastbeat-gpus", daemon=True)
        # It imports, and a forked child must not inherit the lock of an import.
        delay_unsafe_forks(thread)
        try:
            thread.start()
        except RuntimeError:  # No thread can start: the process is at its limit, or ends.
            return
        self._thread = thread
        thread.join(wait_s)

    def _answer(self) -> None:
        began = time.monotonic()
        try:
            if self._driver is None:
                self._driver = _driver()
        except Exception:  # noqa: BLE001 - whatever the driver's library raises, there is no driver then
            self._driver = None
        if self._driver is None:
            self._off = True
            return
        try:
            gpus = [_state(self._driver, handle) for handle in _visible(self._driver, self._environ)]
        except Exception:  # noqa: BLE001 - as above; the next beat asks again
            return
        self._known = began, gpus


def _driver() -> Any:
    """The driver's library, initialised; None if it is not installed. May raise anything."""
    if importlib.util.find_spec("pynvml") is None:
        return None
    import ctypes  # noqa: PLC0415 - only where there may be GPUs

    # Cheaper than the import, and fails on a machine that has the package but no GPU.
    ctypes.CDLL(_LIBRARY)
    import pynvml  # noqa: PLC0415 - as above

    pynvml.nvmlInit()
    return pynvml


def _visible(driver: Any, environ: Mapping[str, str]) -> Iterator[Any]:
    """The GPUs that CUDA shows to training: all, or those in CUDA_VISIBLE_DEVICES up to the first wrong name.

    Numbers follow the order of the PCI bus, which is CUDA's order if all GPUs are of one kind. None is a lost GPU.
    """
    count = driver.nvmlDeviceGetCount()
    said = environ.get("CUDA_VISIBLE_DEVICES")
    if said is None:
        yield from (_at(driver, index) for index in range(min(count, MOST)))
        return
    for name in map(str.strip, said.split(",")[:MOST]):
        if name.isascii() and name.isdigit() and len(name) < 6 and int(name) < count:
            yield _at(driver, int(name))
            continue
        handle = _of_uuid(driver, name, count) if name.startswith(("GPU-", "MIG-")) else None
        if handle is None:
            return
        yield handle


def _at(driver: Any, index: int) -> Any:
    """The handle of a GPU; None if it is lost."""
    return _or_none(lambda: driver.nvmlDeviceGetHandleByIndex(index))


def _of_uuid(driver: Any, name: str, count: int) -> Any:
    if name.startswith("MIG-"):
        return _or_none(lambda: driver.nvmlDeviceGetHandleByUUID(name))
    # CUDA accepts the beginning of a UUID if it belongs to one GPU only.
    handles = (_at(driver, index) for index in range(min(count, 4 * MOST)))
    known = [handle for handle in handles if handle is not None and _uuid(driver, handle).startswith(name)]
    return known[0] if len(known) == 1 else None


def _uuid(driver: Any, handle: Any) -> str:
    return _text(_or_none(lambda: driver.nvmlDeviceGetUUID(handle)))


def _text(value: object) -> str:
    return as_text(value.decode("utf-8", "replace") if isinstance(value, bytes) else value) or ""


def _state(driver: Any, handle: Any) -> Gpu:
    """One GPU's load and memory, without what it does not report."""
    if handle is None:
        return {"name": "GPU"}
    name = _or_none(lambda: driver.nvmlDeviceGetName(handle))
    load = _or_none(lambda: driver.nvmlDeviceGetUtilizationRates(handle).gpu)
    memory = _or_none(lambda: driver.nvmlDeviceGetMemoryInfo(handle))
    found = {
        "name": _text(name) or "GPU",
        "utilization": None if load is None else min(1.0, max(0.0, load / 100)),
        "memory_used_bytes": None if memory is None else int(memory.used),
        "memory_total_bytes": None if memory is None else int(memory.total),
    }
    return {key: value for key, value in found.items() if value is not None}


def _or_none(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception:  # noqa: BLE001 - a GPU that is lost, or does not support the question
        return None
