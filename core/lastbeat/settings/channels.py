"""Settings → the channels that they name.

A channel has a name of its own by ``LASTBEAT_CHANNEL_<NAME>_<SETTING>``:

    LASTBEAT_CHANNEL_ONCALL_SLACK_WEBHOOK_URL=https://…     a Slack channel that routes call oncall, or slack:oncall
    LASTBEAT_CHANNEL_ONCALL_WEBHOOK_URL=https://…           LASTBEAT_ at the beginning of a setting may be left out

Such a channel takes from the settings without a name what it does not have of its own: a token, say.
"""

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from lastbeat.alerts import registry
from lastbeat.model.pattern import Pattern
from lastbeat.model.setting import Setting, SettingValues
from lastbeat.settings import NamedValues, Settings
from lastbeat.settings.table import CHANNEL_PREFIX, is_named

if TYPE_CHECKING:
    from lastbeat.alerts.port import Channel

_OURS: Final = "LASTBEAT_"
_NAME: Final = Pattern(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
_MOST: Final = 40
_TAKEN: Final = frozenset({"all", "nobody", "owner", "default"})


def configured_channels(settings: Settings) -> "tuple[Channel, ...]":
    """All configured channels, those with names of their own last."""
    _lend_to_boto3(settings)
    return (*registry.channels(settings.values), *registry.named_channels(settings.named))


def _lend_to_boto3(settings: Settings) -> None:
    """Pass ``.env`` on to boto3, which reads nothing but the process's environment."""
    for name, text in settings.environ.items():
        if name.startswith("AWS_") and not os.environ.get(name, "").strip():
            os.environ[name] = text


def channel_settings(given: Collection[str] | None = None) -> tuple[Setting[Any], ...]:
    """The settings of channels that have one among ``given``, or of every channel."""
    # A channel with a name of its own takes from those without one what it does not have.
    return registry.settings(None if given is None or any(map(is_named, given)) else given)


def named(environ: Mapping[str, str], held: Mapping[str, object], faults: list[str]) -> tuple[NamedValues, list[str]]:
    """The named channels' settings, and all secrets among them. Faults are added to ``faults``. ``held`` are the values
    of the settings without a name."""
    wanted = {name: text.strip() for name, text in environ.items() if is_named(name) and text.strip()}
    if not wanted:
        return {}, []
    kinds = {setting.name: (kind, setting) for kind in registry.CHANNELS for setting in registry.module(kind).SETTINGS}
    found: dict[str, dict[str, object]] = {}
    secrets: list[str] = []
    for name, text in sorted(wanted.items()):
        called, setting_name = _split(name, kinds)
        if setting_name is None:
            known = ", ".join(each.removeprefix(_OURS) for each in kinds)
            faults.append(f"{name[:100]} is no setting: {CHANNEL_PREFIX}<NAME>_ goes on with one of {known}")
            continue
        kind, setting = kinds[setting_name]
        if setting.secret:
            secrets.append(text)
        fault = _name_fault(called, {*registry.CHANNELS})
        if fault is not None:
            faults.append(f"{name[:100]}: {fault}")
            continue
        try:
            value: Any = setting.read(text, name)
        except ValueError as wrong:
            faults.append(str(wrong))
            continue
        if setting.secret and isinstance(value, tuple):
            # Of several addresses in one setting each is a secret by itself.
            secrets += map(str, value)
        found.setdefault(f"{kind}:{called.lower().replace('_', '-')}", {})[setting_name] = value
    return {key: SettingValues({**held, **own}) for key, own in found.items()}, secrets


def _split(name: str, kinds: Mapping[str, tuple[str, Setting[Any]]]) -> tuple[str, str | None]:
    """The channel's name, and the setting: the one with the longest name that it ends in."""
    rest = name.removeprefix(CHANNEL_PREFIX)
    ends = ((each, f"_{short}") for each in kinds for short in {each, each.removeprefix(_OURS)})
    fitting = [(len(end), each, rest.removesuffix(end)) for each, end in ends if rest.endswith(end)]
    if not fitting:
        return rest, None
    _, setting_name, called = max(fitting)
    return called, setting_name


def _name_fault(called: str, kinds: set[str]) -> str | None:
    if len(called) > _MOST or _NAME.fullmatch(called) is None:
        return f"{called[:60]!r} is no name of a channel; use for example ONCALL"
    if called.lower().replace("_", "-") in kinds | _TAKEN:
        return f"{called!r} means something else in routes; take another name"
    return None
