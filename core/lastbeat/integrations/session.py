"""The common part of all callbacks: one run for each call of the framework's training, with every kind of end.

Frameworks notify their callbacks when training begins, advances and ends, but most do not report exceptions. Three
mechanisms fill that gap, and the first one that applies ends the run:

- :func:`lastbeat.start` sees an uncaught exception, ``sys.exit`` and SIGTERM.
- A callback is also a context manager: ``with LastbeatCallback("my-run") as callback: …`` ends the run with the
  exception that leaves the block. Notebooks need this, because no hook sees their exceptions.
- If the process ends while training has neither ended nor raised, that is an error, not a success: some code caught
  the exception, and went on without training.
"""

import atexit
import functools
import logging
import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, ParamSpec, TypeVar

import lastbeat
from lastbeat.training.sdk.process_exit import known_exit
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import fault_text, safe_log
from lastbeat.training.sdk.values import immediate_int, plain_str

ABANDONED = "training did not reach its end: what stopped it was caught, and the program went on without it"
REPLACED = "training did not reach its end: another one began in the same process"
_ARGUMENTS = {"self", "step", "loss", "learning_rate", "epoch", "tokens"}
"""Names of the arguments of ``run.step``, which no metric can have."""

_P = ParamSpec("_P")
_C = TypeVar("_C", bound="ContextCallback")


def never_raises(method: Callable[_P, None]) -> Callable[_P, None]:
    """``method`` wrapped so that its errors are logged, each type once, instead of raised into training."""
    logged: set[type[Exception]] = set()

    @functools.wraps(method)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a callback that raises would end the training that it reports
            # Once, because some methods are called with every batch.
            if type(error) not in logged:
                logged.add(type(error))
                what = "lastbeat could not follow the training (%s): %s"
                safe_log(logging.WARNING, what, method.__name__, fault_text(error))

    return guarded


def metrics_of(logs: Mapping[Any, object] | None) -> dict[str, Any]:
    """The metrics in a framework's logs. Names that are not text are left out."""
    named = ((plain_str(name), value) for name, value in (logs or {}).items() if issubclass(type(name), str))
    return {name: value for name, value in named if name not in _ARGUMENTS}


class _Wrapped(NamedTuple):
    """A method whose calls are reported."""

    owner: object
    name: str
    saving: Callable[..., Any]
    """The wrapper in its place."""
    before: Callable[..., Any] | None
    """The previous attribute of ``owner`` itself; None if only its class has the method."""


class Session:
    """The runs of one callback, at most one at a time. ``options`` go to :func:`lastbeat.start`."""

    def __init__(self, run_id: str | None, options: Mapping[str, Any]) -> None:
        self.run: Run | None = None
        self._run_id = run_id
        self._options = dict(options)
        self._pid = os.getpid()
        self._stopping = False
        self._saved: tuple[str, object] | None = None
        self._wrapped: list[_Wrapped] = []

    @property
    def active(self) -> bool:
        """Whether a run has begun and not ended."""
        return self.run is not None and not self.run.ended

    def begin(
        self, total_steps: Any, rank: int | None = None, world_size: int | None = None, config: object = None
    ) -> Run:
        """Begin a run. A previous one that has not ended fails. ``config`` holds where the options have none."""
        self._unwrap()
        if self.run is not None and not self.run.ended:
            self.run.fail(REPLACED)
        options: dict[str, Any] = {"rank": rank, "world_size": world_size, "config": config} | self._options
        self.run = lastbeat.start(self._run_id, total_steps=total_steps, **options)
        self.run.set_phase("training")
        self._stopping, self._saved = False, None
        self._pid = os.getpid()
        # Registered after start() has registered its own exit function, so it is called before that, which would report
        # success.
        atexit.unregister(self.leave)
        atexit.register(self.leave)
        return self.run

    def heed(self) -> None:
        """Note that the loop checks :meth:`stops`, and so ends by itself on request."""
        if self.run is not None:
            _ = self.run.should_stop

    def stops(self) -> bool:
        """Whether training should save a checkpoint and end, on all of its ranks. Call it on each of them at the same
        steps."""
        if self.run is None or self.run.ended:
            return False
        self._stopping = self._stopping or self.run.all_should_stop()
        return self._stopping

    def saved(self, checkpoint: str, step: object) -> None:
        """Note a written checkpoint."""
        self._saved = checkpoint, step

    def end(self, error: BaseException | None = None) -> None:
        """End the run, with this exception or without one."""
        atexit.unregister(self.leave)
        self._unwrap()
        if self.run is None or self.run.ended:
            return
        if error is None and self._stopping and self._saved is not None and not self._all_done:
            self.run.preempted(self._saved[0], step=self._saved[1])
        else:
            self.run.end_with(error)

    @property
    def _all_done(self) -> bool:
        """Whether the checkpoint contains the last of all steps, counted from 1, so the run is complete."""
        step = immediate_int(self._saved[1]) if self._saved is not None else None
        total = immediate_int(self.run.total_steps) if self.run is not None else None
        return step is not None and total is not None and step >= total

    def leave(self, error: BaseException | None = None) -> None:
        """End the run with the block or the process. If training has not ended, that is an error."""
        if self.active and self.run is not None and os.getpid() == self._pid:
            error = error if error is not None else known_exit()
            if error is None:
                self.run.fail_unexplained(ABANDONED)
            else:
                self.run.end_with(error)

    def report_saves(self, owner: object, name: str) -> None:
        """Report each call of the method ``name`` of ``owner`` as the phase ``saving``, until training ends.

        For frameworks that do not notify their callbacks of saves."""
        save = getattr(owner, name)

        @functools.wraps(save)
        def saving(*args: Any, **kwargs: Any) -> Any:
            if not self.active or self.run is None:
                return save(*args, **kwargs)
            with self.run.phase("saving"):
                return save(*args, **kwargs)

        before = save if name in vars(owner) else None
        # Bypasses the framework's own ``__setattr__``, which would register it as a part of the model.
        object.__setattr__(owner, name, saving)
        self._wrapped.append(_Wrapped(owner, name, saving, before))

    def _unwrap(self) -> None:
        wrapped, self._wrapped = self._wrapped, []
        for each in wrapped:
            if vars(each.owner).get(each.name) is not each.saving:
                continue
            if each.before is None:
                object.__delattr__(each.owner, each.name)
            else:
                object.__setattr__(each.owner, each.name, each.before)

    def set_phase(self, name: str) -> None:
        """Set the phase of the active run, if any."""
        if self.active and self.run is not None:
            self.run.set_phase(name)


class ContextCallback:
    """Makes a callback a context manager, which ends the run with the exception that leaves its block."""

    _session: Session

    @property
    def run(self) -> Run | None:
        """The run that began last."""
        return self._session.run

    def __enter__(self: _C) -> _C:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.leave(error)
