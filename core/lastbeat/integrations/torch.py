"""PyTorch: measures how long steps wait in collectives, and times the sections ``compute`` on the GPU.

    run = lastbeat.start("my-run", stragglers=True)
    watch_steps(run)

Both are for stragglers; see docs/stragglers.md. On the CPU (gloo) the host's time in a wait counts. On a GPU the host
does not wait, but the current stream does, so events are recorded around the wait in that stream. They are read once
they have happened, and nothing ever waits for them.
"""

import functools
import logging
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Final, Protocol

import torch
from torch import distributed as dist

from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import fault_text, safe_log
from lastbeat.training.sdk.step_times import StepTimes

_PENDING: Final = 1024
"""Most spans that are pending on the GPU."""
_OPERATIONS: Final = (
    "allreduce", "allreduce_coalesced", "allgather", "allgather_coalesced", "_allgather_base",
    "allgather_into_tensor_coalesced", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced",
    "alltoall", "alltoall_base", "broadcast", "reduce", "gather", "scatter", "barrier", "send", "recv",
)  # fmt: skip
"""Methods of a process group. Some versions of PyTorch run them in the current stream, without a wait."""


class GpuEvent(Protocol):
    """A ``torch.cuda.Event`` with timing."""

    def record(self) -> None:
        """Record the event in the current stream."""
        ...

    def query(self) -> bool:
        """Whether the GPU has reached the event."""
        ...

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds from this event to ``end``."""
        ...


class GpuSpans:
    """Measures spans of the current stream, and adds them to ``times`` once the GPU has passed them. Never waits."""

    def __init__(self, times: StepTimes, new_event: Callable[[], GpuEvent], capturing: Callable[[], bool]) -> None:
        self._times, self._new_event, self._capturing = times, new_event, capturing
        self._free: list[GpuEvent] = []
        self._open: list[GpuEvent | None] = []
        """Start event of each open section ``compute``; None for one that is not measured."""
        self._pending: deque[tuple[GpuEvent, GpuEvent, Callable[[float], None]]] = deque()
        self._broken = False

    def begin(self) -> None:
        """Note the entry into ``compute``."""
        self._open.append(self.mark())

    def end(self) -> None:
        """Note the exit from ``compute``."""
        began = self._open.pop() if self._open else None
        times, number = self._times, self._times.count
        self.ended(began, lambda seconds: times.own.append((number, seconds)))

    def mark(self) -> GpuEvent | None:
        """An event that is recorded now; None if this step is not measured, or cannot be."""
        try:
            if self._broken or not self._times.measured or self._capturing() or len(self._pending) >= _PENDING:
                self._settle()
                return None
            event = self._free.pop() if self._free else self._new_event()
            event.record()
        except Exception as fault:  # noqa: BLE001 - training goes on without it
            self._give_up(fault)
            return None
        return event

    def ended(self, began: GpuEvent | None, tell: Callable[[float], None]) -> None:
        """End the span that ``began``. ``tell`` gets its seconds once they are known."""
        end = self.mark() if began is not None else None
        if began is None or end is None:
            return
        self._pending.append((began, end, tell))
        try:
            self._settle()
        except Exception as fault:  # noqa: BLE001 - as above
            self._give_up(fault)

    def _settle(self) -> None:
        while self._pending and self._pending[0][1].query():
            began, end, tell = self._pending.popleft()
            tell(began.elapsed_time(end) / 1000)
            self._free += [began, end]

    def _give_up(self, fault: Exception) -> None:
        if not self._broken:
            self._broken = True
            safe_log(logging.WARNING, "lastbeat cannot time this GPU's steps: %s", fault_text(fault))


class _Hearing:
    """The receiver of collectives' durations, for one run of this process at a time."""

    def __init__(self) -> None:
        self.times: StepTimes | None = None
        self.spans: GpuSpans | None = None
        self.patched = False
        self.within = threading.local()
        """Whether each thread is in a collective already, because some collectives call others."""


_hearing = _Hearing()


def watch_steps(run: Run) -> None:
    """Measure for ``run`` the waits of each step, and on a GPU the duration of its sections ``compute``.

    Call it once, after ``lastbeat.run`` and after the process has chosen its GPU. It changes no result: waits in Python
    code (``torch.distributed.all_reduce`` and similar calls, ``Work.wait``) are timed where they happen. DDP's exchange
    during ``backward`` is not measured, because it happens in C++. Does nothing for a run without straggler detection,
    and never raises.
    """
    times = run.sections.steps
    if times is None:
        return
    try:
        spans = None
        if torch.cuda.is_available():
            spans = GpuSpans(
                times, functools.partial(torch.cuda.Event, enable_timing=True), torch.cuda.is_current_stream_capturing
            )
        _hearing.times, _hearing.spans, times.timer = times, spans, spans
        if dist.is_available():
            _patch()
            times.hears_collectives = True
    except Exception as fault:  # noqa: BLE001 - training goes on without it
        safe_log(logging.WARNING, "lastbeat cannot time the collectives of this run: %s", fault_text(fault))


def _patch() -> None:
    if _hearing.patched:
        return
    _hearing.patched = True
    dist.Work.wait = _timed(dist.Work.wait)
    for name in _OPERATIONS if torch.cuda.is_available() else ():
        found = getattr(dist.ProcessGroup, name, None)
        if found is not None:
            setattr(dist.ProcessGroup, name, _timed(found))


def _timed(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def timed(*args: Any, **kwargs: Any) -> Any:
        times, spans, within = _hearing.times, _hearing.spans, _hearing.within
        if times is None or not times.measured or getattr(within, "now", False):
            return original(*args, **kwargs)
        within.now = True
        number, inside = times.count, times.inside > 0
        event, began = (spans.mark(), 0.0) if spans is not None else (None, monotonic())
        try:
            return original(*args, **kwargs)
        finally:
            within.now = False
            if spans is None:
                times.waited(monotonic() - began)
            else:
                spans.ended(event, lambda seconds: times.waits.append((number, seconds, inside)))

    return timed
