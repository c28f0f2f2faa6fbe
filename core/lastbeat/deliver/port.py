"""The channel port: how an alert is sent, and how that may fail."""

from typing import Protocol

from lastbeat.model.alert import Message


class DeliveryError(Exception):
    """``str()`` says what the channel answered, in one line without secrets.

    ``retryable``: the channel is down for now, and a later pass tries again, after ``retry_after_s`` at the earliest.
    Otherwise it will never accept this alert.
    """

    def __init__(self, what: str, *, retryable: bool, retry_after_s: float | None = None) -> None:
        super().__init__(what)
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class Channel(Protocol):
    """A way to reach people."""

    @property
    def identity(self) -> str:
        """``name:fingerprint``: the same on every host for the same destination, without revealing it."""
        ...

    @property
    def describe(self) -> str:
        """The destination for people, without secrets: ``Slack (hooks.slack.com)``."""
        ...

    def send(self, message: Message) -> None:
        """Deliver once, within the channel's own time limit, or raise :class:`DeliveryError`."""
        ...

    def preview(self, message: Message) -> str:
        """The payload that :meth:`send` would send, as text for a dry run."""
        ...

    def check(self) -> str:
        """Check, without notifying anybody, whether the channel can work. Returns one line for people; raises
        :class:`DeliveryError` if it cannot."""
        ...
