"""Every channel there is: a new one is a module, a line here and a block in ``.env.example``."""

import importlib
from typing import Any, Protocol, cast

from lastbeat.deliver.port import Channel
from lastbeat.model.setting import Setting, SettingValues

CHANNELS: dict[str, str] = {
    "slack": "lastbeat.deliver.slack",
    "sns": "lastbeat.deliver.sns",
    "webhook": "lastbeat.deliver.webhook",
}
"""Channel name → module, imported when it is asked for. Importing one loads no network library."""


class ChannelModule(Protocol):
    """What a channel's module offers."""

    SETTINGS: tuple[Setting[Any], ...]

    def channel(self, values: SettingValues) -> Channel | None:
        """Make the channel that ``values`` set up, or None when they do not."""
        ...


def module(name: str) -> ChannelModule:
    """The module of the channel called ``name``; raises ``KeyError`` for a name that is not in CHANNELS."""
    return cast("ChannelModule", importlib.import_module(CHANNELS[name]))


def settings() -> tuple[Setting[Any], ...]:
    """The settings of every channel, in the order of CHANNELS."""
    return tuple(setting for name in CHANNELS for setting in module(name).SETTINGS)


def channels(values: SettingValues) -> tuple[Channel, ...]:
    """Every channel that ``values`` set up, in the order of CHANNELS."""
    made = (module(name).channel(values) for name in CHANNELS)
    return tuple(channel for channel in made if channel is not None)
