"""What all callbacks have in common: one run for each training of a framework, ended whatever ends the training.

Frameworks tell their callbacks that a training begins, goes on and ends. Most do not tell of an exception, so three
things stand in for that, and each training ends by whichever comes first:

- an exception that nobody catches, ``sys.exit`` and SIGTERM are seen as :func:`lastbeat.start` sees them;
- a callback is a block as well: ``with LastbeatCallback("my-run") as callback: …`` ends the run with the exception
  that leaves the block, which is what notebooks need, whose exceptions no hook sees;
- a process that ends while a training has neither ended nor raised is an error, not a success: somebody caught the
  exception and went on without the training.
"""

import atexit
import functools
import logging
import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import lastbeat
from lastbeat.sdk.endings import known_error
from lastbeat.sdk.run import Run
from lastbeat.sdk.saying import say, why
from lastbeat.sdk.values import plain_text

LEFT = "training was left before its end: what stopped it was caught, and the program went on without it"
AGAIN = "training was left before its end: another one began in the same process"
_NAMES = {"self", "step", "loss", "learning_rate", "epoch", "tokens"}

_P = ParamSpec("_P")
_B = TypeVar("_B", bound="Block")


def quiet(method: Callable[_P, None]) -> Callable[_P, None]:
    """``method``, whose errors are logged, once each kind of them, and never reach the training."""
    told: set[type[Exception]] = set()

    @functools.wraps(method)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a callback that fails would end the training that it watches
            # Some are called with every batch.
            if type(error) not in told:
                told.add(type(error))
                say(logging.WARNING, "lastbeat could not follow the training (%s): %s", method.__name__, why(error))

    return guarded


def metrics_of(logs: Mapping[Any, object] | None) -> dict[str, Any]:
    """What a framework logs besides the quantities that have a name of their own. What is named by no text is left
    out."""
    named = ((plain_text(name), value) for name, value in (logs or {}).items() if issubclass(type(name), str))
    return {name: value for name, value in named if name not in _NAMES}


class Session:
    """The runs of one callback: at most one at a time. ``chosen`` goes to :func:`lastbeat.start`."""

    def __init__(self, run_id: str, chosen: Mapping[str, Any]) -> None:
        self.run: Run | None = None
        self._run_id = run_id
        self._chosen = dict(chosen)
        self._process = os.getpid()

    @property
    def active(self) -> bool:
        """Whether a training has begun and not ended."""
        return self.run is not None and not self.run.ended

    def begin(self, total_steps: Any, rank: int | None = None, world_size: int | None = None) -> Run:
        """A training begins. One that has not ended was left."""
        if self.run is not None and not self.run.ended:
            self.run.fail(AGAIN)
        told = {"rank": rank, "world_size": world_size} | self._chosen
        self.run = lastbeat.start(self._run_id, total_steps=total_steps, **told)
        self.run.set_phase("training")
        self._process = os.getpid()
        # After start(), so it is called before what start() registers, and that would take silence for success.
        atexit.unregister(self.leave)
        atexit.register(self.leave)
        return self.run

    def end(self, error: BaseException | None = None) -> None:
        """The training has ended, with this exception or with none."""
        atexit.unregister(self.leave)
        if self.run is not None and not self.run.ended:
            self.run.end_with(error)

    def leave(self, error: BaseException | None = None) -> None:
        """The block or the process ends; a training that has not is an error."""
        if self.active and self.run is not None and os.getpid() == self._process:
            error = error if error is not None else known_error()
            if error is None:
                self.run.fail_unexplained(LEFT)
            else:
                self.run.end_with(error)


class Block:
    """Makes a callback a block: the exception that leaves it ends the run."""

    _session: Session

    @property
    def run(self) -> Run | None:
        """The run of the training that began last."""
        return self._session.run

    def __enter__(self: _B) -> _B:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.leave(error)
