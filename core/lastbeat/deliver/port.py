"""The channel port: how an alert leaves, and how that may fail."""

from typing import Protocol

from lastbeat.model.alert import Message


class DeliveryError(Exception):
    """``str()`` says what the channel answered, in one line without secrets.

    ``retryable`` tells a channel that is down (a later pass tries again, not before ``retry_after_s``)
    from one that will never take this alert.
    """

    def __init__(self, what: str, *, retryable: bool, retry_after_s: float | None = None) -> None:
        super().__init__(what)
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class Channel(Protocol):
    """A way to reach people."""

    @property
    def identity(self) -> str:
        """``name:fingerprint``; the same destination gives the same identity on every host, and the
        destination cannot be read from it."""
        ...

    @property
    def describe(self) -> str:
        """The destination for people, without secrets: ``Slack (hooks.slack.com)``."""
        ...

    def send(self, message: Message) -> None:
        """Deliver once, within the channel's own time limit, or raise :class:`DeliveryError`."""
        ...

    def preview(self, message: Message) -> str:
        """The very payload that :meth:`send` would send, as text for a dry run."""
        ...

    def check(self) -> str:
        """Find out without bothering anybody whether the channel could work, and say so in one line;
        raise :class:`DeliveryError` when it could not."""
        ...
