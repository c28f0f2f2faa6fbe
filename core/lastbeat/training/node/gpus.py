"""The GPUs that training may use and their state, from NVIDIA's driver.

Needs the package ``nvidia-ml-py`` (the extra ``gpu``) and the driver; without either, no GPUs are reported. If a GPU
has fallen off the bus, any call to the driver may hang, and this is when heartbeats matter most. So the driver is asked
in another thread, and at most one such thread ever waits.
"""

import importlib.util
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lastbeat.training.sdk.fork_guard import delay_unsafe_forks
from lastbeat.training.sdk.values import as_text

if TYPE_CHECKING:
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
        self._known: tuple[float, list[Gpu], dict[str, str]] | None = None
        self._xids: deque[tuple[Gpu, int]] = deque(maxlen=_MOST_XIDS)
        self._asked: float | None = None
        """When the pending query began, by the monotonic clock."""

    def read(self, wait_s: float = LIMIT_S) -> list[Gpu] | None:
        """The GPUs' state, after waiting up to ``wait_s`` for a new answer; None if unknown."""
        waiting = self._thread is not None and self._thread.is_alive()
        if not self._off and not waiting:
            self._ask(wait_s)
        known = self._known
        return known[1] if known is not None and time.monotonic() - known[0] < VALID_S else None

    @property
    def latest(self) -> list[Gpu] | None:
        """The driver's last answer, however old, or None."""
        return self._known[1] if self._known is not None else None

    @property
    def shown_by(self) -> Mapping[str, str]:
        """The environment variables that selected these GPUs. Training may set them while it runs."""
        return self._known[2] if self._known is not None else {}

    def take_xids(self) -> list[tuple[Gpu, int]]:
        """GPU and number of each Xid that the driver has reported since the last call, in any answer."""
        return [self._xids.popleft() for _ in range(len(self._xids))]

    @property
    def answered_at(self) -> float | None:
        """When the query behind the driver's last answer began, by the monotonic clock; None before the first
        answer."""
        return self._known[0] if self._known is not None else None

    @property
    def waits_s(self) -> float:
        """Age in s of the driver's pending query; 0 if none is pending."""
        thread, asked = self._thread, self._asked
        waiting = thread is not None and thread.is_alive() and asked is not None
        return time.monotonic() - asked if waiting and asked is not None else 0.0

    def fresh(self, wait_s: float = LIMIT_S) -> list[Gpu] | None:
        """The GPUs' current state; None if the driver does not answer within ``wait_s``."""
        began = time.monotonic()
        self.read(wait_s)
        known = self._known
        return known[1] if known is not None and known[0] >= began else None

    def _ask(self, wait_s: float) -> None:
        thread = threading.Thread(target=self._answer, name="lastbeat-gpus", daemon=True)
        # It imports, and a forked child must not inherit the lock of an import.
        delay_unsafe_forks(thread)
        try:
            thread.start()
        except RuntimeError:  # No thread can start: the process is at its limit, or ends.
            return
        self._thread, self._asked = thread, time.monotonic()
        thread.join(wait_s)

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
                from lastbeat.training.node.gpu_state import GpuQuestions  # noqa: PLC0415 - only where there is a driver

                self._questions = GpuQuestions(self._driver)
            shown_by = {name: said for name in (*OF_JOB, CUDA_SHOWS) if (said := self._environ.get(name)) is not None}
            gpus = self._questions.gpus(shown_by)
        except Exception:  # noqa: BLE001 - as above; the next beat asks again
            return
        self._xids.extend((gpu, number) for gpu in gpus for number in gpu.get("xids", ()))
        self._known = began, gpus, shown_by


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
