"""Causes a fault on request, so that users can test how their setup handles it.

Only here does lastbeat hang, end or slow training.
"""

import errno
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NoReturn

from lastbeat.model import runid
from lastbeat.model.simulated_fault import FaultRequest, FaultType, SimulatedFault, decided, fault_mark, launch_seed
from lastbeat.stores.port import ConflictError, Expect, Store
from lastbeat.stores.retrying import RetryingStore
from lastbeat.training.sdk.beat_tasks import BeatTask, RunStart
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import fault_text, safe_log
from lastbeat.training.sdk.sections import STEP, Section
from lastbeat.training.sdk.step_times import COMPUTE
from lastbeat.training.sdk.threads import start_thread

_LONGEST_SLEEP_S: Final = 60.0
_AGES_S: Final = 1e6


@dataclass
class FaultSimulation(BeatTask):
    """One fault of one run, which begins ``request.after_s`` after its rank began to report the run."""

    purpose = "simulate a fault"

    request: FaultRequest
    environ: Mapping[str, str]
    began: float = field(default_factory=time.monotonic)

    def begin(self, start: RunStart) -> None:
        """Announce the fault in the log, and wait for its time in a thread, unless the run has ended."""
        run, rank = start.run, start.rank
        if run.ended:
            return
        seed = launch_seed(run.run_id, self.environ)
        if seed is None and rank.world > 1:
            # All ranks share the run id, if nothing else. The next launch has the same one, and so the same fault.
            seed = run.run_id
        fault = decided(self.request, rank.world, seed)
        if fault.rank >= rank.world:
            if rank.leads:
                what = "lastbeat simulates no fault: there is no rank %s among %s"
                safe_log(logging.WARNING, what, fault.rank, rank.world)
            return
        if rank.leads:
            what = "lastbeat will simulate a fault: %s of rank %s, %.4g s after it began"
            safe_log(logging.WARNING, what, fault.type, fault.rank, fault.after_s)
        if fault.rank != rank.number:
            return
        if start_thread("lastbeat-fault", self._wait, start, fault) is None:
            safe_log(logging.WARNING, "lastbeat simulates no fault: no thread can start")

    def _wait(self, start: RunStart, fault: SimulatedFault) -> None:
        try:
            time.sleep(max(0.0, self.began + fault.after_s - time.monotonic()))
            if not start.run.ended and _is_first(start.folder, start.environment.store, fault):
                cause(start.run, fault)
        except Exception as error:  # noqa: BLE001 - training goes on without its fault
            safe_log(logging.WARNING, "lastbeat simulates no fault: %s", fault_text(error))


def _is_first(folder: str, store: Store, fault: SimulatedFault) -> bool:
    """Mark the run as having had its fault. Returns False if it was marked already. A restart that had the fault again
    would never progress."""
    key = folder + runid.SIMULATED_FAULT
    try:
        RetryingStore(store).write(key, fault_mark(fault, store.clock()), Expect.NOTHING)
    except ConflictError:
        what = "lastbeat simulates no fault: run %s has had one. Delete %s to have another"
        safe_log(logging.WARNING, what, folder.rstrip("/"), f"{store.url}/{key}")
        return False
    return True


def cause(run: Run, fault: SimulatedFault) -> None:
    """Cause ``fault`` in this process: at once, or when training reaches the place for it."""
    tell = partial(safe_log, logging.WARNING, "as asked, %s", fault)
    if fault.type in _AT_ONCE:
        tell()
        os.kill(os.getpid(), _AT_ONCE[fault.type])
    else:
        _FaultyRun(run, _IN_TRAINING[fault.type](tell), _PLACES.get(fault.type, (STEP,))).arm()


_AT_ONCE: Final[Mapping[FaultType, int]] = MappingProxyType({"rank_killed": signal.SIGKILL, "preempt": signal.SIGTERM})


class _Happening:
    """A fault in training's own thread, which is announced once."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._told = False

    def __call__(self) -> None:
        """Cause the fault: training has reached the place for it."""
        first, self._told = not self._told, True
        if first:
            self._tell()
        self.happen(first=first)

    def happen(self, *, first: bool) -> None:
        """What happens in training's thread."""

    def loss(self, reported: object) -> object:
        """The loss to report in place of ``reported``."""
        return reported


class _Once(_Happening):
    """Hangs or raises once only, because training may handle the exception."""

    def __init__(self, tell: Callable[[], None], do: Callable[[], NoReturn]) -> None:
        super().__init__(tell)
        self._do = do

    def happen(self, *, first: bool) -> None:
        if first:
            self._do()


class _Slower(_Happening):
    """Sleeps as long as the step before took."""

    _since = 0.0

    def happen(self, *, first: bool) -> None:
        if not first:
            time.sleep(min(time.monotonic() - self._since, _LONGEST_SLEEP_S))
        self._since = time.monotonic()


class _NotFinite(_Happening):
    """Reports a loss that is not a number."""

    def loss(self, reported: object) -> object:
        return reported if reported is None else float("nan")


def _hang() -> NoReturn:
    """Wait like a thread inside a collective: Python runs no signal handler, though other threads go on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        time.sleep(_AGES_S)


def _fail_gpu() -> NoReturn:
    # The words of CUDA and torch, so that readers of logs recognise the fault that this stands for.
    raise RuntimeError("CUDA error: uncorrectable ECC error encountered (simulated by lastbeat)")


def _fill_disk() -> NoReturn:
    raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} (simulated by lastbeat)")


_IN_TRAINING: Final[Mapping[FaultType, Callable[[Callable[[], None]], _Happening]]] = MappingProxyType(
    {
        "rank_hung": lambda tell: _Once(tell, _hang),
        "gpu_error": lambda tell: _Once(tell, _fail_gpu),
        "disk_full": lambda tell: _Once(tell, _fill_disk),
        "slow_rank": _Slower,
        "nan": _NotFinite,
    }
)


_PLACES: Final[Mapping[FaultType, tuple[str, ...]]] = MappingProxyType(
    # The rank's own time passes in these sections. In others the ranks may be waiting for each other.
    {"disk_full": ("checkpointing",), "slow_rank": (COMPUTE, STEP)}
)


class _FaultyRun:
    """Intercepts the calls from training to its run, so that a run without a fault has no extra cost.

    The fault happens in the first of ``places`` for which training has a section. Without one it happens in
    ``run.step`` or ``run.log``.
    """

    def __init__(self, run: Run, happening: _Happening, places: Sequence[str]) -> None:
        self._run, self._happening, self._places = run, happening, places
        self._step, self._log, self._enter = run.step, run.log, Section.__enter__

    def arm(self) -> None:
        """Start intercepting."""
        # Attributes of the object take precedence over those of its class.
        vars(self._run).update(step=self._faulty_step, log=self._faulty_log)

        def enter(section: Section) -> None:
            self._faulty_enter(section)

        # Replaced on the class, because sections of decorators exist already. A bound method would not get the section.
        Section.__enter__ = enter  # type: ignore[method-assign]

    def _faulty_enter(self, section: Section) -> None:
        self._enter(section)
        if section.is_of(self._run.sections) and section.name == self._place():
            try:
                self._happening()
            except BaseException as error:
                # A block that is not entered is not left either.
                section.__exit__(type(error), error, error.__traceback__)
                raise

    def _faulty_step(self, step: object, *, loss: object = None, **named: Any) -> None:
        self._at_step()
        self._step(step, loss=self._happening.loss(loss), **named)

    def _faulty_log(self, values: object = None, /, *, step: object = None, **named: object) -> None:
        self._at_step()
        given: dict[str, Any] = dict(values) if isinstance(values, dict) else {}
        for numbers in (given, named):
            if "loss" in numbers:
                numbers["loss"] = self._happening.loss(numbers["loss"])
        self._log(given if isinstance(values, dict) else values, step=step, **named)

    def _at_step(self) -> None:
        if self._place() is None:
            self._happening()

    def _place(self) -> str | None:
        """The section where the fault happens; None if training has none of ``places`` so far."""
        sections = self._run.sections
        # Limits may be set for all kinds of sections although training uses few of them.
        to_come = sections.limits.sections if len(self._places) == 1 else ()
        return next((name for name in self._places if name in sections.names or name in to_come), None)
