"""The state of each GPU and its recent errors (Xids), as NVIDIA's driver reports them.

Each value is queried by itself. A value that a GPU does not support is left out, and not queried again. The codes of
errors and reasons are those of NVIDIA's documentation (NVML API reference; "Xid Errors").
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from lastbeat.training.node.gpus import CUDA_SHOWS, OF_JOB, Gpu
from lastbeat.training.node.node import without_unknown
from lastbeat.training.sdk.values import as_text

MOST: Final = 16
_NOT_SUPPORTED: Final = frozenset({3, 13, 25, 26})
"""NVML_ERROR_NOT_SUPPORTED, _FUNCTION_NOT_FOUND, _ARGUMENT_VERSION_MISMATCH, _DEPRECATED: it will not change."""
_LOST: Final = frozenset({15, 16})
"""NVML_ERROR_GPU_IS_LOST, _RESET_REQUIRED."""
_THROTTLE: Final = ((0x20, "sw_thermal"), (0x40, "hw_thermal"), (0x80, "hw_power_brake"), (0x8, "hw_slowdown"))
"""Reasons that mean trouble. A power cap set by software (0x4) is normal on a busy GPU, and idle has its own reason."""
_NVLINK_TOTALS: Final = (38, 45, 52, 59)
"""NVML_FI_DEV_NVLINK_…_ERROR_COUNT_TOTAL of CRC flits, CRC data, replays and recoveries."""
_UNSIGNED_TYPES: Final = {1: "uiVal", 2: "ulVal", 3: "ullVal"}
"""nvmlValueType_t → the member of nvmlValue_t that holds the value."""
_XID_EVENT: Final = 0x8
_MOST_XIDS: Final = 16
"""Most Xid events that one reading takes."""


LOST: Final = object()
"""Stands for the handle of a GPU that is lost."""


class GpuLostError(Exception):
    """The driver reports that a GPU has fallen off the bus, or needs a reset before it can be used."""


class GpuQuestions:
    """Asks the driver ``driver`` (the module ``pynvml``) about GPUs."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._unsupported: set[tuple[str, str]] = set()
        """Handle of a GPU and name of a value that it does not support."""
        self._events: Any = None
        self._registered: set[str] = set()

    def gpus(self, environ: Mapping[str, str]) -> list[Gpu]:
        """The state of each GPU that training may use, :data:`MOST` at most. Raises what the driver's library
        raises."""
        visible = list(_visible(self._driver, environ))
        xids = self.xids([handle for _, handle in visible if handle not in (None, LOST)])
        gpus = [self.state(handle, index) for index, handle in visible]
        for gpu in gpus:
            if gpu.get("index") in xids:
                gpu["xids"] = xids[gpu["index"]]
        return gpus

    def state(self, handle: Any, index: int | None = None) -> Gpu:
        """The state of one GPU, with ``lost`` if the driver reports that. ``handle`` is :data:`LOST` for a lost GPU, or
        None if the driver gave no handle for another reason."""
        found: Gpu = {"index": index, "name": "GPU", "lost": True if handle is LOST else None}
        if handle is LOST or handle is None:
            return without_unknown(found)
        try:
            for name, value in self._answers(handle):
                found[name] = value
        except GpuLostError:
            found["lost"] = True
        return without_unknown(found)

    def xids(self, handles: list[Any]) -> dict[int, list[int]]:
        """Index of a GPU → its Xids since the last call. Empty where the driver does not support or allow the query.
        Never raises."""
        found: dict[int, list[int]] = {}
        with suppress(Exception):
            if self._events is None:
                self._events = self._driver.nvmlEventSetCreate()
            for handle in handles:
                self._register(handle)
            for _ in range(_MOST_XIDS):
                # Raises NVML_ERROR_TIMEOUT where nothing more happened.
                event = self._driver.nvmlEventSetWait_v2(self._events, 0)
                index = self._driver.nvmlDeviceGetIndex(event.device)
                found.setdefault(int(index), []).append(int(event.eventData))
        return found

    def _register(self, handle: Any) -> None:
        key = _key(handle)
        if key not in self._registered:
            self._registered.add(key)
            with suppress(Exception):
                self._driver.nvmlDeviceRegisterEvents(handle, _XID_EVENT, self._events)

    def _answers(self, handle: Any) -> list[tuple[str, Any]]:
        driver, ask = self._driver, self._ask
        answers: list[tuple[str, Any]] = []

        def note(name: str, question: Callable[[], Any], read: Callable[[Any], Any]) -> None:
            answer = ask(handle, name, question)
            if answer is not None:
                answers.append((name, read(answer)))

        note("index", lambda: driver.nvmlDeviceGetIndex(handle), int)
        note("name", lambda: driver.nvmlDeviceGetName(handle), lambda name: _text(name) or "GPU")
        note("uuid", lambda: driver.nvmlDeviceGetUUID(handle), _text)
        note("bus", lambda: driver.nvmlDeviceGetPciInfo_v3(handle).busId, _text)
        note("utilization", lambda: driver.nvmlDeviceGetUtilizationRates(handle).gpu, _share)
        memory = ask(handle, "memory", lambda: driver.nvmlDeviceGetMemoryInfo(handle))
        if memory is not None:
            answers += [("memory_used_bytes", int(memory.used)), ("memory_total_bytes", int(memory.total))]
        note("temperature_c", lambda: driver.nvmlDeviceGetTemperature(handle, 0), int)
        note("power_w", lambda: driver.nvmlDeviceGetPowerUsage(handle), _watts)
        note("power_limit_w", lambda: driver.nvmlDeviceGetEnforcedPowerLimit(handle), _watts)
        note("throttle", lambda: driver.nvmlDeviceGetCurrentClocksThrottleReasons(handle), throttle_reasons)
        note("ecc_corrected", lambda: driver.nvmlDeviceGetTotalEccErrors(handle, 0, 0), int)
        note("ecc_uncorrected", lambda: driver.nvmlDeviceGetTotalEccErrors(handle, 1, 0), int)
        rows = ask(handle, "rows", lambda: driver.nvmlDeviceGetRemappedRows(handle))
        if rows is not None:
            _, remapped, pending, failed = rows
            answers += [
                ("rows_remapped", int(remapped)),
                ("rows_pending", bool(pending)),
                ("rows_failed", bool(failed)),
            ]
        else:
            # GPUs before Ampere retire pages instead.
            note("rows_pending", lambda: driver.nvmlDeviceGetRetiredPagesPendingStatus(handle), bool)
        note("nvlink_errors", lambda: self._nvlink_errors(handle), int)
        note("processes", lambda: driver.nvmlDeviceGetComputeRunningProcesses_v3(handle), len)
        return answers

    def _nvlink_errors(self, handle: Any) -> int | None:
        """Errors of all NVLinks of a GPU together; None if the driver counts none."""
        values = self._driver.nvmlDeviceGetFieldValues(handle, list(_NVLINK_TOTALS))
        counts = [
            int(getattr(each.value, _UNSIGNED_TYPES[each.valueType]))
            for each in values
            if each.nvmlReturn == 0 and each.valueType in _UNSIGNED_TYPES
        ]
        return sum(counts) if counts else None

    def _ask(self, handle: Any, name: str, question: Callable[[], Any]) -> Any:
        """The driver's answer, or None if it has none. Raises :class:`GpuLostError`."""
        key = _key(handle), name
        if key in self._unsupported:
            return None
        try:
            return question()
        except Exception as fault:  # noqa: BLE001 - whatever the driver's library raises, this is not known
            if is_lost(fault):
                raise GpuLostError from None
            code = getattr(fault, "value", None)
            if code in _NOT_SUPPORTED or isinstance(fault, AttributeError):
                self._unsupported.add(key)
            return None


def is_lost(fault: Exception) -> bool:
    """Whether this error of the driver's means that the GPU is lost."""
    return getattr(fault, "value", None) in _LOST


def _text(value: object) -> str:
    """A name from the driver as text."""
    return as_text(value.decode("utf-8", "replace") if isinstance(value, bytes) else value) or ""


def throttle_reasons(mask: int) -> list[str]:
    """The reasons in ``mask`` that mean trouble. A slowdown by the hardware is listed only if no other reason explains
    it."""
    found = [word for bit, word in _THROTTLE if mask & bit]
    return [word for word in found if word != "hw_slowdown"] or found


def _key(handle: Any) -> str:
    """Identity of a handle. A handle is a pointer, and ctypes returns a new wrapper each time."""
    import ctypes  # noqa: PLC0415 - loaded with the driver's library

    try:
        return str(ctypes.cast(handle, ctypes.c_void_p).value)
    except (TypeError, ctypes.ArgumentError):
        return repr(handle)


def _share(percent: int) -> float:
    return min(1.0, max(0.0, percent / 100))


def _watts(milliwatts: int) -> float:
    return round(milliwatts / 1000, 1)


def _visible(driver: Any, environ: Mapping[str, str]) -> Iterator[tuple[int | None, Any]]:
    """The driver's numbers and handles of the job's GPUs on this node, if Slurm lists them. Otherwise those that CUDA
    shows to training: all, or those in CUDA_VISIBLE_DEVICES up to the first wrong name.

    Numbers follow the order of the PCI bus, which is CUDA's order if all GPUs are of one kind.
    """
    count = driver.nvmlDeviceGetCount()
    ours = _of_job(environ, count)
    said = environ.get(CUDA_SHOWS)
    if ours is not None or said is None:
        yield from ((index, _at(driver, index)) for index in (range(count) if ours is None else ours)[:MOST])
        return
    for name in map(str.strip, said.split(",")[:MOST]):
        if name.isascii() and name.isdigit() and len(name) < 6 and int(name) < count:
            yield int(name), _at(driver, int(name))
            continue
        handle = _of_uuid(driver, name, count) if name.startswith(("GPU-", "MIG-")) else None
        if handle is None:
            return
        yield None, handle


def _of_job(environ: Mapping[str, str], count: int) -> list[int] | None:
    """The numbers of the job's GPUs among ``count``, or None if Slurm does not list them. A task may see only one.

    Where Slurm hides the others, the driver numbers the visible ones from 0.
    """
    said = next((environ[name] for name in OF_JOB if environ.get(name)), None)
    if said is None:
        return None
    numbers = [part.strip() for part in said.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in numbers):
        return None
    return list(range(count)) if count <= len(numbers) else [int(part) for part in numbers if int(part) < count]


def _at(driver: Any, index: int) -> Any:
    """The handle of a GPU; :data:`LOST` for a lost one, or None if the driver gives none for another reason."""
    try:
        return driver.nvmlDeviceGetHandleByIndex(index)
    except Exception as fault:  # noqa: BLE001 - whatever the driver's library raises
        return LOST if is_lost(fault) else None


def _of_uuid(driver: Any, name: str, count: int) -> Any:
    if name.startswith("MIG-"):
        return _or_none(lambda: driver.nvmlDeviceGetHandleByUUID(name))
    # CUDA accepts the beginning of a UUID if it belongs to one GPU only.
    handles = (_at(driver, index) for index in range(min(count, 4 * MOST)))
    known = [handle for handle in handles if handle not in (None, LOST) and _uuid(driver, handle).startswith(name)]
    return known[0] if len(known) == 1 else None


def _uuid(driver: Any, handle: Any) -> str:
    return _text(_or_none(lambda: driver.nvmlDeviceGetUUID(handle)))


def _or_none(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception:  # noqa: BLE001 - a GPU that is lost, or does not support the question
        return None
