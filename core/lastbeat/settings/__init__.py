"""The only reader of the environment: arguments, then the environment, then ``.env``, into one frozen value.

Blank is unset, except for an argument: an empty argument is a fault. One :class:`SettingsError` reports all faults.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from lastbeat.model.data import dataclass
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.model.secrets import Redactor
from lastbeat.model.setting import Parts, Setting, SettingValues
from lastbeat.settings import old_names, table
from lastbeat.settings.misspelt import misspelt
from lastbeat.settings.table import CORE, is_named
from lastbeat.stores import registry as stores
from lastbeat.stores.kind import DEFAULT_DIRECTORY, DIRECTORY, Root
from lastbeat.stores.s3 import SCHEME as S3

T = TypeVar("T")
NamedValues = Mapping[str, SettingValues]
"""``slack:oncall`` → the settings of that channel."""
_PLACES: Final[Sequence[Setting[Any]]] = (table.MONITORING_ROOT, table.MONITORING_BUCKET, table.MONITORING_PREFIX)
"""With the settings of stores, they name the place of the runs."""


class SettingsError(ValueError):
    """The configuration is wrong. ``faults`` has a message per fault; ``str()`` has all of them."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(faults[0] if len(faults) == 1 else "\n".join(f"- {fault}" for fault in faults))


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a user can choose, validated. ``settings[SETTING]`` is one value."""

    root: Root
    policy: Policy
    fleet: FleetPolicy
    state_dir: Path | None
    """Folder of the records that the store does not take; None without a home directory."""
    values: SettingValues = field(repr=False)
    environ: Mapping[str, str] = field(repr=False)
    """The environment plus ``.env``: where AWS credentials and the like are looked up."""
    secrets: tuple[str, ...] = field(repr=False)
    """Text that must never be shown."""
    warnings: tuple[str, ...] = ()
    """Likely mistakes, none of them fatal."""
    ignored: Mapping[str, str] = field(default_factory=dict)
    """Wrong settings, which a job leaves at their default: ``LASTBEAT_LEARN='banana'`` → the fault."""
    name_hints: tuple[str, ...] = ()
    """A sentence for each variable whose name is an old one, or nearly that of a setting."""
    named: NamedValues = field(default_factory=dict, repr=False)
    """Channels with names of their own."""

    def __getitem__(self, setting: Setting[T]) -> T:
        return self.values[setting]

    def ignored_told(self) -> list[str]:
        """A line of the log for each of the ``ignored``."""
        return [f"lastbeat goes on without a setting: {fault}" for fault in self.ignored.values()]

    @property
    def redactor(self) -> Redactor:
        """Masks every secret of these settings."""
        return Redactor(self.secrets)


@dataclass(frozen=True, slots=True)
class _Source:
    """One of three sources of settings. The first with a value wins."""

    texts: Mapping[str, str]
    where: str = ""
    arguments: bool = False

    def text_of(self, setting: Setting[Any]) -> str | None:
        text = self.texts.get(setting.name)
        return text.strip() or None if text is not None else None

    def value(self, setting: Setting[T], text: str) -> T:
        """Raises ``ValueError`` with a sentence that names the setting as this source calls it."""
        try:
            return setting.read(text, setting.option if self.arguments else "")
        except ValueError as fault:
            raise ValueError(f"{fault}{self.where}") from None


def every_setting(*, channels: bool = True, given: Collection[str] | None = None) -> tuple[Setting[Any], ...]:
    """Return all settings: the core's, then each store's, then each channel's.

    With ``given``, only channels that have a setting among ``given`` count."""
    here = CORE + stores.settings()
    if not channels:
        return here
    from lastbeat.settings.channels import channel_settings  # noqa: PLC0415 - training has no use for them

    return here + channel_settings(given)


def secrets_in(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Secrets in ``environ``, valid or not, for masking before settings are loaded or after that failed."""
    known = (environ.get(setting.name, "").strip() for setting in every_setting(given=environ) if setting.secret)
    # Of named channels every value: which of them are secrets is not known yet.
    own = (text.strip() for name, text in environ.items() if is_named(name))
    return (*(text for text in (*known, *own) if text), *stores.secrets(environ))


def load(
    arguments: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
    *,
    watching: bool = False,
    channels: bool = True,
    training: bool = False,
) -> Settings:
    """Read every setting, or raise :class:`SettingsError` with all faults.

    ``arguments`` maps variable names to the values of the command line. ``environ`` defaults to the process's own, and
    ``directory``, which holds ``.env``, to the current one. Only with ``watching`` are the catalogues of
    LASTBEAT_SIGNALS read, and their faults reported. Without ``channels`` their settings are not read: a wrong webhook
    keeps no run from reporting itself. With ``training`` a wrong setting keeps its default (``Settings.ignored``),
    unless it is an argument or names the place of the runs.
    """
    process = os.environ if environ is None else environ
    faults: list[str] = []
    ignored: dict[str, str] = {}
    unread: list[str] = []
    dotenv = _dotenv((directory or Path.cwd()) / ".env", unread)
    sources = (_Source(arguments or {}, arguments=True), _Source(process), _Source(dotenv, where=" (in .env)"))
    every = every_setting(channels=channels, given={*(arguments or ()), *process, *dotenv})
    texts, held = _read((*every, *old_names.ROWS), sources, faults, ignored if training else None)
    renamed = old_names.fold(texts, held)
    if unread and training and (table.MONITORING_ROOT.name in texts or table.MONITORING_BUCKET.name in texts):
        ignored[".env"] = unread[0]
    else:
        faults += unread
    merged = dotenv | {name: text for name, text in process.items() if text.strip() or name not in dotenv}
    for setting in every:
        if setting.stands_in and setting.name not in texts:
            _stand_in(setting, merged, held, faults)
    values = SettingValues(held)
    root, warnings = _root(sources, values, faults)
    policy = _policy(values)
    known = {*old_names.HINTS, *(name for setting in every for name in (setting.name, *setting.stands_in))}
    named_values: NamedValues = {}
    named_secrets: list[str] = []
    if channels:
        from lastbeat.alerts import registry  # noqa: PLC0415 - as in every_setting
        from lastbeat.settings.channels import named  # noqa: PLC0415 - as in every_setting

        named_values, named_secrets = named(merged, held, [] if training else faults)
        warnings = (*warnings, *registry.doubts(values))
        known.update(registry.setting_names())
    if watching:
        from lastbeat.settings.catalogues import limited  # noqa: PLC0415 - training has no use for it

        try:
            policy = limited(policy, values[table.SIGNALS])
        except ValueError as wrong:
            name = table.SIGNALS.name
            faults.extend(f"{name}: {fault.removeprefix(f'{name}: ')}" for fault in str(wrong).splitlines())
    if faults:
        raise SettingsError(faults)
    secret = [setting for setting in every if setting.secret and setting.name in texts]
    # One that is a list is masked as it was written, and each of its parts.
    lists = (value for setting in secret if isinstance(value := held[setting.name], tuple))
    parts = [str(part) for value in lists for part in value if part]
    secrets = [*(texts[setting.name] for setting in secret), *parts]
    own, in_file = (
        [name for name, text in each.items() if text.strip() and not is_named(name)] for each in (process, dotenv)
    )
    near = misspelt(own, in_file, known, {*texts, *(arguments or ())}, all_known=channels, now=old_names.HINTS)
    return Settings(
        root=root,
        policy=policy,
        fleet=_fleet(values),
        state_dir=values[table.STATE_DIR] or _state_dir(merged),
        values=values,
        environ=merged,
        secrets=(*secrets, *named_secrets, *stores.secrets(merged)),
        named=named_values,
        warnings=warnings,
        ignored=ignored,
        name_hints=(*renamed, *near),
    )


def _read(
    every: Sequence[Setting[Any]],
    sources: Sequence[_Source],
    faults: list[str],
    ignored: dict[str, str] | None,
) -> tuple[dict[str, str], dict[str, object]]:
    """Return the text of each setting that is set, and the value of every setting.

    Faults go into ``faults``. Where ``ignored`` is not None, those of settings that only training uses go there, and
    those of channels are dropped."""
    texts: dict[str, str] = {}
    held: dict[str, object] = {}
    for setting in every:
        has_default = setting.default or isinstance(setting.parse, Parts)
        held[setting.name] = setting.parse(setting.default) if has_default else None
        for source in sources:
            if source.arguments and source.texts.get(setting.name, "-").strip() == "":
                faults.append(f"{setting.option} is empty; leave it out, or give it a value")
                break
            text = source.text_of(setting)
            if text is None:
                continue
            texts[setting.name] = text
            try:
                held[setting.name] = source.value(setting, text)
            except ValueError as fault:
                if ignored is None or source.arguments or setting in _PLACES or setting in stores.settings():
                    faults.append(str(fault))
                elif setting in (*CORE, *old_names.ROWS):
                    ignored[setting.labelled(text)] = str(fault)
            break
    return texts, held


def _dotenv(path: Path, faults: list[str]) -> dict[str, str]:
    # A virtual environment may be called .env, too: a folder.
    if not path.is_file():
        return {}
    from dotenv import dotenv_values  # noqa: PLC0415 - costs 26 ms, and few have a .env

    try:
        return {name: text for name, text in dotenv_values(path).items() if text is not None}
    except (OSError, UnicodeDecodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8 text"
        faults.append(f"{path} cannot be read: {why}; correct it or move it away")
        return {}


def _root(sources: Sequence[_Source], values: SettingValues, faults: list[str]) -> tuple[Root, tuple[str, ...]]:
    """The first source that names a place decides, so ``--bucket`` outranks ``MONITORING_ROOT`` from the environment.
    Within one source the root outranks the bucket."""
    prefix = values[table.MONITORING_PREFIX]
    here = Root(DIRECTORY, str(Path.cwd() / DEFAULT_DIRECTORY))
    for source in sources:
        root, bucket = values[table.MONITORING_ROOT], values[table.MONITORING_BUCKET]
        if source.text_of(table.MONITORING_ROOT):
            same = root is not None and (root.scheme, root.place) == (S3, bucket)
            if source.arguments and source.text_of(table.MONITORING_BUCKET) and not same:
                faults.append("--root and --bucket name two different places; give one of them")
            if root is not None and root.prefix is None:
                return replace(root, prefix=prefix), ()
            # None: its error is among the faults.
            return root or here, ()
        if source.text_of(table.MONITORING_BUCKET):
            return Root(S3, bucket or "", prefix), ()
    if here.path.is_dir():
        return here, ()
    note = f"neither MONITORING_ROOT nor MONITORING_BUCKET is set, so runs are looked for in {here.path}"
    return here, (note,)


def _stand_in(setting: Setting[Any], environ: Mapping[str, str], held: dict[str, object], faults: list[str]) -> None:
    for name in setting.stands_in:
        if text := environ.get(name, "").strip():
            try:
                held[setting.name] = replace(setting, name=name).read(text)
            except ValueError as fault:
                faults.append(str(fault))
            else:
                return


def _policy(values: SettingValues) -> Policy:
    return Policy(
        stale_s=60 * values[table.STALE_MINUTES],
        stall_s=_times(60, values[table.STALL_MINUTES]),
        pending_s=60 * values[table.PENDING_MINUTES] or None,
        start_grace_s=60 * values[table.START_MINUTES],
        alert_on=values[table.ALERT_ON],
        lease_s=values[table.SWEEP].lease_seconds,
        blind_s=60 * values[table.BLIND_MINUTES],
        learns=values[table.LEARN],
    )


def _fleet(values: SettingValues) -> FleetPolicy:
    sweep, groups = values[table.SWEEP], values[table.GROUPS]
    return FleetPolicy(
        interval_s=values[table.INTERVAL_SECONDS],
        read_s=60 * sweep.read_minutes,
        discover_s=60 * sweep.discover_minutes,
        news_s=3600 * sweep.news_hours,
        group_runs=groups.runs,
        group_s=60 * groups.minutes,
        repeat_s=_times(3600, groups.repeat_hours),
        fanout_runs=sweep.fanout,
        digest=values[table.DIGEST],
    )


def _times(unit_s: float, value: float | None) -> float | None:
    return None if value is None else unit_s * value


def _state_dir(environ: Mapping[str, str]) -> Path | None:
    # The XDG rules: a path that is not absolute is ignored.
    base = Path(environ.get("XDG_STATE_HOME", "").strip())
    if base.is_absolute():
        return base / "lastbeat"
    home = environ.get("HOME", "").strip() or os.path.expanduser("~")  # noqa: PTH111 - Path's raises without one
    return Path(home) / ".local" / "state" / "lastbeat" if Path(home).is_absolute() else None
