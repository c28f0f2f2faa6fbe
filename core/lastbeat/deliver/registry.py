"""All channels. A new one is a module and a line here."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from lastbeat.deliver.port import Channel, Receipt
from lastbeat.model.alert import Message
from lastbeat.model.setting import Setting, SettingValues

CHANNELS: dict[str, str] = {
    "apprise": "lastbeat.deliver.apprise_urls",
    "pagerduty": "lastbeat.deliver.pagerduty",
    "slack": "lastbeat.deliver.slack",
    "slack_bot": "lastbeat.deliver.slack_bot",
    "sns": "lastbeat.deliver.sns",
    "webhook": "lastbeat.deliver.webhook",
}
"""Channel name → module, imported on demand. Importing one loads no network library."""


class ChannelModule(Protocol):
    """What a channel's module provides."""

    SETTINGS: tuple[Setting[Any], ...]

    def channels(self, values: SettingValues) -> Sequence[Channel]:
        """The channels that ``values`` configure: one for each destination."""
        ...


def module(name: str) -> ChannelModule:
    """The module of the channel ``name``. Raises ``KeyError`` for a name that is not in CHANNELS."""
    return cast("ChannelModule", importlib.import_module(CHANNELS[name]))


def doubts(values: SettingValues) -> tuple[str, ...]:
    """What is likely to be wrong with the settings of channels, though each may be so: a sentence each."""
    asked = (getattr(module(name), "doubts", None) for name in CHANNELS)
    return tuple(doubt for ask in asked if ask is not None for doubt in ask(values))


def settings() -> tuple[Setting[Any], ...]:
    """The settings of every channel, in the order of CHANNELS."""
    return tuple(setting for name in CHANNELS for setting in module(name).SETTINGS)


def channels(values: SettingValues) -> tuple[Channel, ...]:
    """The channels that ``values`` configure, in the order of CHANNELS."""
    return tuple(channel for name in CHANNELS for channel in module(name).channels(values))


def named_channels(named: Mapping[str, SettingValues]) -> tuple[Channel, ...]:
    """The channels that have names of their own: ``slack:oncall`` → its settings."""
    if not named:
        return ()
    split = ((key.partition(":"), values) for key, values in named.items())
    made = ((name, module(kind).channels(values)) for (kind, _, name), values in split)
    return tuple(NamedChannel(channel, name) for name, channels_of_it in made for channel in channels_of_it)


@dataclass(frozen=True, slots=True)
class NamedChannel:
    """``channel``, called ``name`` by people and routes."""

    channel: Channel
    name: str

    @property
    def identity(self) -> str:
        kind, _, rest = self.channel.identity.partition(":")
        return f"{kind}:{self.name}:{rest}"

    @property
    def describe(self) -> str:
        return f"{self.channel.describe}, {self.name}"

    def send(self, message: Message, receipt: Receipt | None = None) -> Receipt | None:
        return self.channel.send(message, receipt)

    def preview(self, message: Message) -> str:
        return self.channel.preview(message)

    def check(self) -> str:
        return f"{self.name}: {self.channel.check()}"
