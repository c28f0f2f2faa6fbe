"""The GPUs that training may use, from NVIDIA's driver: their state, and the Xids in the kernel's log.

The state needs the package ``nvidia-ml-py`` (the extra ``gpu``) and the driver; without either, no GPUs are reported.
If a GPU has fallen off the bus, any call to the driver may hang, and this is when heartbeats matter most. So the driver
is asked in another thread, and at most one such thread ever waits.

Xids are the driver's error numbers; their meanings are from NVIDIA's catalogue. Errors that a program causes (13, 31,
43, 45 and others) are no fault of a GPU, and are left to the run's log.
"""

import importlib.util
import os
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lastbeat.model.status import GPU_ECC, GPU_LOST, NETWORK_ERRORS
from lastbeat.training import node
from lastbeat.training.sdk.threads import start_thread
from lastbeat.training.sdk.values import as_text

if TYPE_CHECKING:
    import threading

    from lastbeat.training.node.gpu_state import GpuQuestions


LIMIT_S = 0.5
"""Most time in s that a beat waits for an answer."""
VALID_S = 150.0
"""Most time in s that an answer is used while the next one does not come."""
OF_JOB: Final = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
"""The numbers of a job's GPUs on this node, in Slurm's tasks."""
CUDA_SHOWS: Final = "CUDA_VISIBLE_DEVICES"
NO_PACKAGE = "the package nvidia-ml-py is not installed (pip install 'lastbeat[gpu]')"
Gpu = dict[str, Any]
"""One GPU; unknown values are left out: ``index`` (the driver's), ``name``, ``uuid``, ``bus`` (its place on the PCI
bus), ``lost``, ``utilization`` (0 to 1), ``memory_used_bytes``, ``memory_total_bytes``, ``temperature_c``, ``power_w``,
``power_limit_w``, ``throttle`` (reasons), ``ecc_corrected`` and ``ecc_uncorrected`` (since the driver was loaded),
``rows_remapped`` (for errors that could not be corrected), ``rows_pending`` and ``rows_failed`` (a remapping waits for
a reset, or did not work), ``nvlink_errors``, ``processes`` (that compute on it) and ``xids`` (since the last look)."""
_MOST_XIDS = 64
_LIBRARY = "libnvidia-ml.so.1"


@dataclass(frozen=True, slots=True)
class GpuAnswer:
    """An answer of the driver."""

    asked_at: float
    """When the query behind it began, by the monotonic clock."""
    gpus: list[Gpu]
    shown_by: Mapping[str, str]
    """The environment variables that selected these GPUs. Training may set them while it runs."""


class GpuMonitor:
    """Reads the GPUs once a beat, for the beat thread."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._thread: threading.Thread | None = None
        self._driver: Any = None
        self._questions: GpuQuestions | None = None
        self._off = False
        self.absent_because = ""
        """Why this machine has no driver to ask. Empty if it has one, or before the first answer."""
        self.latest: GpuAnswer | None = None
        """The driver's last answer, however old."""
        self._xids: deque[tuple[Gpu, int]] = deque(maxlen=_MOST_XIDS)
        self._asked = 0.0
        """When the last query began, by the monotonic clock."""

    def read(self, wait_s: float = LIMIT_S) -> list[Gpu] | None:
        """The GPUs' state, after waiting up to ``wait_s`` for a new answer; None if unknown."""
        if not self._off and not self._waits:
            self._asked = time.monotonic()
            # It imports, and a forked child must not inherit the lock of an import.
            self._thread = start_thread("lastbeat-gpus", self._answer)
            if self._thread is not None:
                self._thread.join(wait_s)
        return self._since(time.monotonic() - VALID_S)

    def fresh(self, wait_s: float = LIMIT_S) -> list[Gpu] | None:
        """The GPUs' current state; None if the driver does not answer within ``wait_s``."""
        began = time.monotonic()
        self.read(wait_s)
        return self._since(began)

    def _since(self, earliest: float) -> list[Gpu] | None:
        known = self.latest
        return known.gpus if known is not None and known.asked_at >= earliest else None

    def take_xids(self) -> list[tuple[Gpu, int]]:
        """GPU and number of each Xid that the driver has reported since the last call, in any answer."""
        return [self._xids.popleft() for _ in range(len(self._xids))]

    @property
    def _waits(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def waits_s(self) -> float:
        """Age in s of the driver's pending query; 0 if none is pending."""
        return time.monotonic() - self._asked if self._waits else 0.0

    def _answer(self) -> None:
        began = time.monotonic()
        try:
            if self._driver is None:
                self._driver = _driver()
        except Exception as fault:  # noqa: BLE001 - whatever the driver's library raises, there is no driver then
            self.absent_because = as_text(str(fault)) or type(fault).__name__
            self._off = True
            return
        try:
            if self._questions is None:
                self._questions = node.gpu_state.GpuQuestions(self._driver)
            shown_by = {name: said for name in (*OF_JOB, CUDA_SHOWS) if (said := self._environ.get(name)) is not None}
            gpus = self._questions.gpus(shown_by)
        except Exception:  # noqa: BLE001 - as above; the next beat asks again
            return
        self._xids.extend((gpu, number) for gpu in gpus for number in gpu.get("xids", ()))
        self.latest = GpuAnswer(began, gpus, shown_by)


def _driver() -> Any:
    """The driver's library, initialised. May raise anything."""
    if importlib.util.find_spec("pynvml") is None:
        raise ModuleNotFoundError(NO_PACKAGE)
    import ctypes  # noqa: PLC0415 - only where there may be GPUs

    # Cheaper than the import, and fails on a machine that has the package but no GPU.
    ctypes.CDLL(_LIBRARY)
    import pynvml  # noqa: PLC0415 - as above

    pynvml.nvmlInit()
    return pynvml


IDLE_SHARE: Final = 0.05
"""A GPU with a lower utilization (0 to 1) is idle."""
THROTTLE_WORDS: Final = {
    "hw_thermal": "too hot, slowed down by its hardware",
    "sw_thermal": "too hot, slowed down by its driver",
    "hw_power_brake": "slowed down by its power supply",
    "hw_slowdown": "slowed down by its hardware",
}


def gpu_label(gpu: Gpu) -> str:
    """Name of the GPU for display: ``GPU 3``."""
    index = gpu.get("index")
    return f"GPU {index}" if isinstance(index, int) else f"GPU {gpu['uuid']}" if gpu.get("uuid") else "a GPU"


def memory_faults(gpu: Gpu) -> list[str]:
    """Faults of a GPU's memory, apart from its counted errors."""
    told = []
    if gpu.get("rows_failed"):
        told.append("its memory could not be remapped any more")
    if gpu.get("rows_pending"):
        told.append("a repair of its memory waits for a reset")
    return told


def throttle_text(gpu: Gpu) -> str:
    """The reason why a GPU is slowed down: ``GPU 3: too hot, slowed down by its hardware (91 °C)``."""
    reasons = "; ".join(THROTTLE_WORDS.get(word, word) for word in gpu.get("throttle") or ())
    hot = f" ({gpu['temperature_c']} °C)" if "temperature_c" in gpu else ""
    return f"{gpu_label(gpu)}: {reasons}{hot}"


def listed(labels: Sequence[str]) -> str:
    """``GPUs 0-3 and 7`` for labels of GPUs, in their order."""
    numbers = [int(label.removeprefix("GPU ")) for label in labels if label.removeprefix("GPU ").isdigit()]
    if len(labels) < 2 or len(numbers) < len(labels):
        return ", ".join(labels)
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] + 1 == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    told = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return "GPUs " + (f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else told[0])


KERNEL_LOG: Final = Path("/dev/kmsg")
_XID: Final = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]{4,20})\): (\d{1,4})\b")
_MOST_RECORDS: Final = 50_000
"""Most lines of the kernel's log that are read at once; its buffer rarely holds more."""
_RECORD_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class XidMeaning:
    """The meaning of an Xid, and the condition that it raises."""

    text: str
    condition: str


XIDS: Final = {
    48: XidMeaning("memory error that could not be corrected", GPU_ECC),
    62: XidMeaning("an internal processor of the GPU halted", GPU_LOST),
    63: XidMeaning("a row of its memory is to be remapped", GPU_ECC),
    64: XidMeaning("a row of its memory could not be remapped", GPU_ECC),
    74: XidMeaning("NVLink error", NETWORK_ERRORS),
    79: XidMeaning("the GPU has fallen off the bus", GPU_LOST),
    92: XidMeaning("many corrected memory errors", GPU_ECC),
    94: XidMeaning("memory error, contained to one program", GPU_ECC),
    95: XidMeaning("memory error that was not contained", GPU_ECC),
    119: XidMeaning("the GPU's system processor does not answer", GPU_LOST),
    120: XidMeaning("an error of the GPU's system processor", GPU_LOST),
    140: XidMeaning("memory error that was not recovered from", GPU_ECC),
}


@dataclass(frozen=True, slots=True)
class XidLine:
    """An Xid in the kernel's log."""

    number: int
    bus: str
    """The GPU's place on the PCI bus, in lower case: ``0000:3b:00``."""
    at_s: float
    """Seconds since boot."""


class KernelLog:
    """Reads new Xids in the kernel's log. Reading it needs a permission that few users have; without it there are
    none."""

    def __init__(self, path: Path = KERNEL_LOG, *, past: bool = False) -> None:
        """``past`` makes the first call include existing lines."""
        self._file: int | None = None
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if not past:
                os.lseek(self._file, 0, os.SEEK_END)
        except OSError:
            self.close()

    @property
    def readable(self) -> bool:
        """Whether the kernel's log can be read."""
        return self._file is not None

    def news(self) -> list[XidLine]:
        """The Xids since the last call, oldest first; bounded. Never raises."""
        return [line for record in self._records() if (line := xid_in(record)) is not None]

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _records(self) -> Iterator[str]:
        for _ in range(_MOST_RECORDS):
            if self._file is None:
                return
            try:
                # The kernel returns one record at a time, and EPIPE if some were overwritten meanwhile.
                read = os.read(self._file, _RECORD_BYTES)
            except BrokenPipeError:
                continue
            except OSError:
                return
            if not read:
                return
            yield from read.decode("utf-8", "replace").splitlines()


def xid_in(record: str) -> XidLine | None:
    """The Xid in a line of /dev/kmsg: ``4,1042,9000000,-;NVRM: Xid (PCI:0000:3b:00): 79, …``; None if there is none."""
    found = _XID.search(record)
    if found is None:
        return None
    head = record.partition(";")[0].split(",")
    micros = head[2] if len(head) > 2 and head[2].isascii() and head[2].isdigit() and len(head[2]) < 20 else "0"
    return XidLine(int(found[2]), short_bus(found[1]), int(micros) / 1e6)


def short_bus(bus: str) -> str:
    """A place on the PCI bus as the kernel's log writes it: ``00000000:3B:00.0`` is ``0000:3b:00``."""
    domain, colon, rest = bus.lower().partition(":")
    return f"{domain[-4:]}{colon}{rest.partition('.')[0]}"
