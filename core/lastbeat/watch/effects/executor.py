"""The executor port: how an action is performed, and how to find out whether it already was."""

from typing import Protocol

from lastbeat.model.action import Action


class ExecutorError(Exception):
    """It is unknown whether the action happened, because there was no clear answer. ``str()`` is one line without
    secrets. The claim stands until it expires; then the world is asked by the action's name."""


class NotDoneError(ExecutorError):
    """The action certainly did not happen, and may be tried again, after ``retry_after_s`` at the earliest. ``begun``
    says that a part of it has happened, so that it must not be taken back."""

    def __init__(self, what: str, *, retry_after_s: float | None = None, begun: bool = False) -> None:
        super().__init__(what)
        self.retry_after_s = retry_after_s
        self.begun = begun


class RefusedError(ExecutorError):
    """The action certainly did not happen, and never will."""


class Executor(Protocol):
    """Carries out one kind of action."""

    @property
    def kind(self) -> str:
        """The kind of action it carries out, see :attr:`Action.kind`."""
        ...

    @property
    def limit_s(self) -> float:
        """Longest duration of one call in s. No call begins with less time left on the claim."""
        ...

    def find(self, action: Action) -> str | None:
        """The world's name for the action if it has happened, else None. Called before each :meth:`perform`.
        Raises :class:`ExecutorError` if that cannot be determined."""
        ...

    def perform(self, action: Action) -> str:
        """Perform it under its name. Returns the world's name for it. Raises :class:`ExecutorError`."""
        ...
