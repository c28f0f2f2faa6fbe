"""The executor port: how the world is changed, and asked whether it has been."""

from typing import Protocol

from lastbeat.model.action import Action


class ExecutorError(Exception):
    """Nobody knows whether it happened: no answer, or one that cannot be understood. ``str()`` is one line without
    secrets. The claim stands until it runs out; then the world is asked by the action's name."""


class NotDoneError(ExecutorError):
    """It certainly did not happen, and may be tried again, not before ``retry_after_s``."""

    def __init__(self, what: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(what)
        self.retry_after_s = retry_after_s


class RefusedError(ExecutorError):
    """It certainly did not happen, and never will."""


class Executor(Protocol):
    """Carries out one kind of action."""

    @property
    def kind(self) -> str:
        """The kind of action that it carries out, see :attr:`Action.kind`."""
        ...

    @property
    def limit_s(self) -> float:
        """What one call takes at most, in seconds: it is never begun when less is left of the claim."""
        ...

    def find(self, action: Action) -> str | None:
        """What the world calls the action, if it has happened; None: it has not. Asked before each
        :meth:`perform`. Raises :class:`ExecutorError` when that cannot be found out."""
        ...

    def perform(self, action: Action) -> str:
        """Do it, under its name, and say what the world calls it. Raises :class:`ExecutorError`."""
        ...
