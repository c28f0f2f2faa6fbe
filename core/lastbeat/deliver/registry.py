"""All channels. A new one is a module and a line here."""

import importlib
from typing import Any, Protocol, cast

from lastbeat.deliver.port import Channel
from lastbeat.model.setting import Setting, SettingValues

CHANNELS: dict[str, str] = {
    "slack": "lastbeat.deliver.slack",
    "sns": "lastbeat.deliver.sns",
    "webhook": "lastbeat.deliver.webhook",
}
"""Channel name → module, imported on demand. Importing one loads no network library."""


class ChannelModule(Protocol):
    """What a channel's module provides."""

    SETTINGS: tuple[Setting[Any], ...]

    def channel(self, values: SettingValues) -> Channel | None:
        """The channel that ``values`` configure, or None."""
        ...


def module(name: str) -> ChannelModule:
    """The module of the channel ``name``. Raises ``KeyError`` for a name that is not in CHANNELS."""
    return cast("ChannelModule", importlib.import_module(CHANNELS[name]))


def settings() -> tuple[Setting[Any], ...]:
    """The settings of every channel, in the order of CHANNELS."""
    return tuple(setting for name in CHANNELS for setting in module(name).SETTINGS)


def channels(values: SettingValues) -> tuple[Channel, ...]:
    """The channels that ``values`` configure, in the order of CHANNELS."""
    made = (module(name).channel(values) for name in CHANNELS)
    return tuple(channel for channel in made if channel is not None)
