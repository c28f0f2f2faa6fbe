"""A channel that keeps what it is sent, and fails as it is told."""

from collections.abc import Callable

from lastbeat.alerts.port import DeliveryError, Receipt
from lastbeat.model.alert import Message


class ListChannel:
    """``fault`` is asked before each sending; the error that it returns is raised."""

    def __init__(self, identity: str = "list:1") -> None:
        self.identity = identity
        self.describe = f"a list ({identity})"
        self.sent: list[Message] = []
        self.fault: Callable[[Message], DeliveryError | None] = lambda _message: None

    @property
    def events(self) -> list[str]:
        return [message.event.value for message in self.sent]

    def send(self, message: Message, receipt: Receipt | None = None) -> Receipt | None:
        error = self.fault(message)
        if error is not None:
            raise error
        self.sent.append(message)
        return None

    def preview(self, message: Message) -> str:
        return message.reason

    def check(self) -> str:
        return "a list is always there"


def down(_message: Message) -> DeliveryError:
    """Not reachable for now."""
    return DeliveryError("503 Service Unavailable", retryable=True)
