"""The registry of all channels. A new one needs a module, and a line here."""

import importlib
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from lastbeat.model.data import dataclass
from lastbeat.model.setting import Setting, SettingValues

if TYPE_CHECKING:
    from lastbeat.alerts.port import Channel, Receipt
    from lastbeat.model.alert import Message


class ChannelEntry(NamedTuple):
    """The module of a channel, and the names of its settings."""

    module: str
    """Name of the module, which is imported if one of its settings is given. Importing it loads no network library."""
    settings: tuple[str, ...]
    """The names of its settings."""


CHANNELS: dict[str, ChannelEntry] = {
    "apprise": ChannelEntry("lastbeat.alerts.apprise_urls", ("LASTBEAT_APPRISE_URLS",)),
    "pagerduty": ChannelEntry(
        "lastbeat.alerts.pagerduty", ("LASTBEAT_PAGERDUTY_ROUTING_KEY", "LASTBEAT_PAGERDUTY_URL")
    ),
    "slack": ChannelEntry("lastbeat.alerts.slack", ("SLACK_WEBHOOK_URL",)),
    "slack_bot": ChannelEntry(
        "lastbeat.alerts.slack_bot",
        ("SLACK_BOT_TOKEN", "SLACK_CHANNEL", "LASTBEAT_SLACK_BOT_URL"),
    ),
    "sns": ChannelEntry("lastbeat.alerts.sns", ("SNS_TOPIC_ARN",)),
    "webhook": ChannelEntry("lastbeat.alerts.webhook", ("LASTBEAT_WEBHOOK_URL", "LASTBEAT_WEBHOOK_SECRET")),
}


class ChannelModule(Protocol):
    """The interface of a channel's module."""

    SETTINGS: tuple[Setting[Any], ...]

    def channels(self, values: SettingValues) -> "Sequence[Channel]":
        """The channels that ``values`` configure: one for each destination."""
        ...


def module(name: str) -> ChannelModule:
    """The module of the channel ``name``. Raises ``KeyError`` for a name that is not in CHANNELS."""
    return cast("ChannelModule", importlib.import_module(CHANNELS[name].module))


def setting_names() -> tuple[str, ...]:
    """The names of every channel's settings."""
    return tuple(name for line in CHANNELS.values() for name in line.settings)


def settings(given: Container[str] | None = None) -> tuple[Setting[Any], ...]:
    """The settings of channels with a setting in ``given``, or of every channel if that is None, in order of
    CHANNELS."""
    wanted = (name for name, line in CHANNELS.items() if given is None or _is_among(line, given))
    return tuple(setting for name in wanted for setting in module(name).SETTINGS)


def channels(values: SettingValues) -> "tuple[Channel, ...]":
    """The channels that ``values`` configure, in the order of CHANNELS."""
    return tuple(channel for name in _read(values) for channel in module(name).channels(values))


def doubts(values: SettingValues) -> tuple[str, ...]:
    """Likely mistakes in the settings of channels, although each setting is valid; in a sentence each."""
    asked = (getattr(module(name), "doubts", None) for name in _read(values))
    return tuple(doubt for ask in asked if ask is not None for doubt in ask(values))


def _read(values: SettingValues) -> tuple[str, ...]:
    """The channels whose settings were read, with any value."""
    return tuple(name for name, line in CHANNELS.items() if _is_among(line, values))


def _is_among(line: ChannelEntry, given: Container[str]) -> bool:
    return any(name in given for name in line.settings)


def named_channels(named: Mapping[str, SettingValues]) -> "tuple[Channel, ...]":
    """The channels that have names of their own: ``slack:oncall`` → its settings."""
    if not named:
        return ()
    split = ((key.partition(":"), values) for key, values in named.items())
    made = ((name, module(kind).channels(values)) for (kind, _, name), values in split)
    return tuple(NamedChannel(channel, name) for name, channels_of_it in made for channel in channels_of_it)


@dataclass(frozen=True, slots=True)
class NamedChannel:
    """``channel``, called ``name`` by people and routes."""

    channel: "Channel"
    name: str

    @property
    def identity(self) -> str:
        kind, _, rest = self.channel.identity.partition(":")
        return f"{kind}:{self.name}:{rest}"

    @property
    def describe(self) -> str:
        return f"{self.channel.describe}, {self.name}"

    def send(self, message: "Message", receipt: "Receipt | None" = None) -> "Receipt | None":
        return self.channel.send(message, receipt)

    def preview(self, message: "Message") -> str:
        return self.channel.preview(message)

    def check(self) -> str:
        return f"{self.name}: {self.channel.check()}"
