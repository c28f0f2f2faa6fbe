"""The channel port: the interface that sends alerts, and its errors."""

from typing import NewType, Protocol

from lastbeat.model.alert import Message

Receipt = NewType("Receipt", str)
"""State of a channel for the next alert on the same topic (see ``Message.topic``): the thread that it began, or the
incident that it opened. Kept in the record; at most 1,000 characters, without secrets."""


class DeliveryError(Exception):
    """A failed delivery. ``what`` is the channel's answer in one line without secrets, ``advice`` what to do about it,
    and ``str()`` has both.

    ``retryable`` says that the channel is down for now, and a later pass retries, after ``retry_after_s`` at the
    earliest. Otherwise the channel will never accept this alert. ``receipt`` is the partial progress, for the next try.
    """

    def __init__(
        self,
        what: str,
        *,
        retryable: bool,
        retry_after_s: float | None = None,
        receipt: Receipt | None = None,
        advice: str = "",
    ) -> None:
        super().__init__(f"{what}: {advice}" if advice else what)
        self.what = what
        self.advice = advice
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.receipt = receipt


def named(channel: str, what: str) -> str:
    """``what`` happened to a message, prefixed with its channel's name unless it begins with that."""
    return what if what.startswith(channel) else f"{channel}: {what}"


class Channel(Protocol):
    """A way to reach people."""

    @property
    def identity(self) -> str:
        """``name:fingerprint``, equal on every host for the same destination, without revealing it."""
        ...

    @property
    def describe(self) -> str:
        """The destination for display, without secrets: ``Slack (hooks.slack.com)``."""
        ...

    def send(self, message: Message, receipt: Receipt | None = None) -> Receipt | None:
        """Deliver once, within the channel's own time limit, or raise :class:`DeliveryError`.

        ``receipt`` is the latest receipt of this channel for this topic, or None. Returns the next one, or None to keep
        it. A receipt may be lost or out of date, so it is only a hint.
        """
        ...

    def preview(self, message: Message) -> str:
        """The payload that :meth:`send` would send, as text for a dry run."""
        ...

    def check(self) -> str:
        """Check without an alert whether the channel can work. Returns one line for display. Raises
        :class:`DeliveryError` if it cannot."""
        ...
