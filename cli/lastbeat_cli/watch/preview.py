"""The alerts that a dry run would send, chosen by the rule of a real pass, as text or as payloads."""

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lastbeat.alerts.plain import render
from lastbeat.alerts.port import Channel, Receipt
from lastbeat.model.alert import Message
from lastbeat.model.fleet import PassReport
from lastbeat.model.outcome import Outcome
from lastbeat.model.status import Status
from lastbeat.model.text import counted
from lastbeat.watch.effects.outbox import claim

_NARROWEST = 40
_PIPED = 120


class Preview:
    """Shows each alert of a dry run once. A dry run records nothing, so each of its passes decides the same again."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._channels = {channel.identity: channel for channel in channels}
        self._told: set[tuple[str, str]] = set()

    def lines(self, outcome: Outcome) -> list[str]:
        """New messages as text, with the channels that would get them."""
        return [line for message, channels in self._new(outcome) for line in shown(message, channels)]

    def documents(self, outcome: Outcome) -> list[dict[str, object]]:
        """New messages as the payload for each channel. Texts are not masked yet."""
        return [each for message, channels in self._new(outcome) for each in payloads(message, channels)]

    def _new(self, outcome: Outcome) -> Iterator[tuple[Message, tuple[Channel, ...]]]:
        if not self._channels:
            for message in outcome.alerts:
                if self._is_new(message.key, ""):
                    yield message, ()
            return
        if outcome.record is None or outcome.status is Status.UNKNOWN:
            return
        # Pending alerts of earlier passes are claimed, too.
        _, claims = claim(outcome.record, self._channels, "dry-run", outcome.at, lease_s=1.0)
        messages: dict[int, tuple[Message, list[Channel]]] = {}
        for each in claims:
            if self._is_new(each.message.key, each.identity):
                messages.setdefault(each.number, (each.message, []))[1].append(self._channels[each.identity])
        for message, channels in messages.values():
            yield message, tuple(channels)

    def _is_new(self, key: str, identity: str) -> bool:
        new = (key, identity) not in self._told
        self._told.add((key, identity))
        return new


def shown(message: Message, channels: Sequence[Channel]) -> Iterator[str]:
    """The ``channels`` that would get the message, and the message as its recipients would read it, wrapped."""
    if channels:
        yield f"Would send to {', '.join(channel.describe for channel in channels)} ({message.event}):"
    else:
        yield "Would alert, but no channel is set up:"
    yield from _wrapped(render(message).split("\n"), _width())


def payloads(message: Message, channels: Iterable[Channel]) -> Iterator[dict[str, object]]:
    """The payload for each channel, as an object if it is JSON."""
    told: list[tuple[str | None, object]] = [(each.describe, _payload(each.preview(message))) for each in channels]
    for name, payload in told or [(None, render(message))]:
        yield {"channel": name, "run_id": message.run_id, "event": str(message.event), "payload": payload}


def _payload(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _width() -> int:
    if sys.stdout is None or not sys.stdout.isatty():
        return _PIPED
    return max(_NARROWEST, shutil.get_terminal_size().columns)


def _wrapped(lines: Iterable[str], width: int) -> Iterator[str]:
    """Each line wrapped to ``width``; continuation lines begin with the same bar."""
    for line in lines:
        bar, text = line[:2], line[2:]
        indent = " " * (len(text) - len(text.lstrip(" ")))
        parts = textwrap.wrap(
            text,
            max(_NARROWEST // 2, width - len(bar)),
            subsequent_indent=indent,
            break_on_hyphens=False,
            drop_whitespace=True,
            replace_whitespace=False,
        )
        yield from (bar + part for part in parts or [""])


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
