"""The GPUs that training may use, as NVIDIA's driver tells: their load and their memory.

Needs the package ``nvidia-ml-py`` (the extra ``gpu``) and the driver; without either there are none to tell of. A
driver whose GPU has fallen off the bus may hang in any call, and just then heartbeats are needed, so it is asked in a
thread of its own: at most one ever waits.
"""

import importlib.util
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lastbeat.sdk.forks import watch_over
from lastbeat.sdk.values import text

MOST = 16
LIMIT_S = 0.5
"""How long a beat waits for an answer."""
STANDS_S = 150.0
"""How long an answer stands while the next one does not come."""
_LIBRARY = "libnvidia-ml.so.1"

Gpu = dict[str, Any]


class Gpus:
    """Asked once a beat, by one thread."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._thread: threading.Thread | None = None
        self._driver: Any = None
        self._off = False
        self._known: tuple[float, list[Gpu]] | None = None

    def look(self, wait_s: float = LIMIT_S) -> list[Gpu] | None:
        """What they do, as it is known ``wait_s`` from now at the latest; None where that is not known."""
        waiting = self._thread is not None and self._thread.is_alive()
        if not self._off and not waiting:
            self._ask(wait_s)
        known = self._known
        return known[1] if known is not None and time.monotonic() - known[0] < STANDS_S else None

    def _ask(self, wait_s: float) -> None:
        thread = threading.Thread(target=self._answer, name="lastbeat-gpus", daemon=True)
        # It may import what a forked child would then wait for.
        watch_over(thread)
        try:
            thread.start()
        except RuntimeError:  # No more threads: the process is at its limit, or at its end.
            return
        self._thread = thread
        thread.join(wait_s)

    def _answer(self) -> None:
        began = time.monotonic()
        try:
            if self._driver is None:
                self._driver = _driver()
        except Exception:  # noqa: BLE001 - whatever a driver's library raises, there is nothing to be had from it
            self._driver = None
        if self._driver is None:
            self._off = True
            return
        try:
            gpus = [_told(self._driver, handle) for handle in _visible(self._driver, self._environ)]
        except Exception:  # noqa: BLE001 - as above; the next beat asks again
            return
        self._known = began, gpus


def _driver() -> Any:
    """The driver's library, ready to be asked; None where it is not installed. Raises whatever it likes."""
    if importlib.util.find_spec("pynvml") is None:
        return None
    import ctypes  # noqa: PLC0415 - only where there may be GPUs

    # Cheaper than the import, which most machines with the package and without a GPU need not make.
    ctypes.CDLL(_LIBRARY)
    import pynvml  # noqa: PLC0415 - as above

    pynvml.nvmlInit()
    return pynvml


def _visible(driver: Any, environ: Mapping[str, str]) -> Iterator[Any]:
    """The GPUs that CUDA shows to training: all, or those that CUDA_VISIBLE_DEVICES names, until a wrong name.

    Numbers are taken in the order of the PCI bus, which is CUDA's own wherever all GPUs are of one kind. None stands
    for one that is lost.
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
    """None for a GPU that is lost."""
    return _or_none(lambda: driver.nvmlDeviceGetHandleByIndex(index))


def _of_uuid(driver: Any, name: str, count: int) -> Any:
    if name.startswith("MIG-"):
        return _or_none(lambda: driver.nvmlDeviceGetHandleByUUID(name))
    # CUDA takes the beginning of a UUID, too, as long as it is one GPU's alone.
    handles = (_at(driver, index) for index in range(min(count, 4 * MOST)))
    known = [handle for handle in handles if handle is not None and _uuid(driver, handle).startswith(name)]
    return known[0] if len(known) == 1 else None


def _uuid(driver: Any, handle: Any) -> str:
    return _text(_or_none(lambda: driver.nvmlDeviceGetUUID(handle)))


def _text(value: object) -> str:
    return text(value.decode("utf-8", "replace") if isinstance(value, bytes) else value) or ""


def _told(driver: Any, handle: Any) -> Gpu:
    """What one GPU does; a question that it does not answer is left out."""
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
    except Exception:  # noqa: BLE001 - a GPU that is lost, or one that does not know the question
        return None
