"""The channel port: how an alert is sent, and how that may fail."""

from typing import NewType, Protocol

from lastbeat.model.alert import Message

Receipt = NewType("Receipt", str)
"""What a channel wants to know when it sends the next alert on the same topic (see ``Message.topic``): the thread that
it began, the incident that it opened. Kept in the record; at most 1,000 characters, without secrets."""


class DeliveryError(Exception):
    """``what`` is what the channel answered, in one line without secrets, ``advice`` what to do about it, and ``str()``
    both.

    ``retryable``: the channel is down for now, and a later pass tries again, after ``retry_after_s`` at the earliest.
    Otherwise it will never accept this alert. ``receipt``: what was done of it nevertheless, for the next try.
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
    """``what`` became of a message, with the name of its channel once."""
    return what if what.startswith(channel) else f"{channel}: {what}"


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

    def send(self, message: Message, receipt: Receipt | None = None) -> Receipt | None:
        """Deliver once, within the channel's own time limit, or raise :class:`DeliveryError`.

        ``receipt`` is the latest that this channel gave for this topic, None if there is none. Returns the next one, or
        None to leave it as it is. A receipt may be lost or out of date, so it is never more than a help.
        """
        ...

    def preview(self, message: Message) -> str:
        """The payload that :meth:`send` would send, as text for a dry run."""
        ...

    def check(self) -> str:
        """Check, without notifying anybody, whether the channel can work. Returns one line for people; raises
        :class:`DeliveryError` if it cannot."""
        ...
