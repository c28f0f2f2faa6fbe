"""The alerts that a dry pass would send, for people and for programs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lastbeat.alerts.port import Channel, Receipt
from lastbeat.model.alert import Message
from lastbeat.model.fleet import PassReport
from lastbeat.model.text import counted
from lastbeat_cli.preview import payloads, shown


@dataclass(frozen=True, slots=True)
class Nobody:
    """Stands in for a channel in a dry run without any, so that alerts are grouped as usual."""

    identity: str = "nobody:"
    describe: str = "nobody"

    def send(self, message: Message, receipt: Receipt | None = None) -> None:
        """Send nothing."""

    def preview(self, message: Message) -> str:
        return message.reason

    def check(self) -> str:
        return "no channel is set up"


class Planned:
    """Shows the alerts of a dry pass as they would be sent on ``channels``."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._channels = {channel.identity: channel for channel in channels}

    def lines(self, report: PassReport) -> Iterator[str]:
        """Each message as its recipients would read it."""
        would_send = report.would_send or ()
        yield ""
        transitions = sum(each.transitions for each in would_send)
        several = f"{counted(transitions, 'transition')} in " if transitions > len(would_send) else ""
        yield f"A pass would send {several}{counted(len(would_send), 'alert')}."
        for each in would_send:
            yield ""
            yield from shown(each.message, self._of(each.channels))

    def documents(self, report: PassReport) -> list[dict[str, object]]:
        """The payload for each channel."""
        would_send = report.would_send or ()
        return [document for each in would_send for document in payloads(each.message, self._of(each.channels))]

    def _of(self, identities: Sequence[str]) -> list[Channel]:
        return [self._channels[identity] for identity in identities if identity in self._channels]
