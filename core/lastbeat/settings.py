"""The only reader of the environment: arguments, then the environment, then ``.env``, into one frozen value.

Blank is unset, except for an argument, which somebody meant. Every fault is collected, and all of them are
reported in one :class:`SettingsError`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lastbeat.deliver import registry
from lastbeat.model.fleet import FleetPolicy
from lastbeat.model.policy import Policy
from lastbeat.model.setting import Setting
from lastbeat.settings_fleet import FLEET
from lastbeat.settings_page import PAGE
from lastbeat.settings_signals import SIGNALS, limited
from lastbeat.settings_table import CORE, DirectoryRoot, S3Root, region

if TYPE_CHECKING:
    from lastbeat.model.status import Event

OPTIONS: Mapping[str, str] = {
    "MONITORING_ROOT": "--root",
    "MONITORING_BUCKET": "--bucket",
    "MONITORING_REGION": "--region",
    "STALE_MINUTES": "--stale-minutes",
    "LASTBEAT_INTERVAL_SECONDS": "--interval",
    "LASTBEAT_SIGNALS": "--signals",
    "LASTBEAT_LOGS": "--log",
    "SLACK_WEBHOOK_URL": "--slack-webhook",
    "SNS_TOPIC_ARN": "--sns-topic",
    "LASTBEAT_DASHBOARD_TOKEN": "--token",
}
"""Settings that the command line can give, and how an error about one names it there."""

DEFAULT_DIRECTORY = "training-runs"
_AWS_SECRET_CHARS = 16
_AWS_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")


class SettingsError(ValueError):
    """The configuration is wrong; ``faults`` has one message a fault, and ``str()`` all of them."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(faults[0] if len(faults) == 1 else "\n".join(f"- {fault}" for fault in faults))


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a user can choose, checked."""

    root: S3Root | DirectoryRoot
    region: str
    policy: Policy
    fleet: FleetPolicy
    state_dir: Path | None
    """Where the record of a run goes when the store cannot be written to; None: there is no home for it."""
    values: Mapping[str, object] = field(repr=False)
    """Variable name → parsed value, or None; the channels take theirs from here."""
    environ: Mapping[str, str] = field(repr=False)
    """The environment with what ``.env`` adds to it: where AWS credentials and the like are looked up."""
    secrets: tuple[str, ...] = field(repr=False)
    """Texts that must never be shown."""
    warnings: tuple[str, ...] = ()
    """What looks like a mistake and stops nothing."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """One place that settings come from; the first of three that has a text wins."""

    texts: Mapping[str, str]
    where: str = ""
    arguments: bool = False

    def given(self, name: str) -> str | None:
        text = self.texts.get(name)
        return text.strip() or None if text is not None else None


def table() -> tuple[Setting, ...]:
    """Every setting there is: the core's, those of logs, the sweep's, the page's, then each channel's."""
    return CORE + SIGNALS + FLEET + PAGE + registry.settings()


def load(
    arguments: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
    *,
    watching: bool = False,
) -> Settings:
    """Read every setting, or raise :class:`SettingsError` with all that is wrong.

    ``arguments`` maps variable names to what the command line gave for them. ``environ`` is the process's own
    unless given, and ``directory``, where ``.env`` is looked for, the current one. Only who is ``watching`` has a use
    for what LASTBEAT_SIGNALS names, and is told what is wrong with it.
    """
    process = os.environ if environ is None else environ
    faults: list[str] = []
    dotenv = _dotenv((directory or Path.cwd()) / ".env", faults)
    layers = (_Layer(arguments or {}, arguments=True), _Layer(process), _Layer(dotenv, where=" (in .env)"))
    settings = table()
    texts: dict[str, str] = {}
    values: dict[str, object] = {}
    for setting in settings:
        values[setting.name] = setting.parse(setting.default) if setting.default else None
        for layer in layers:
            if layer.arguments and layer.texts.get(setting.name, "-").strip() == "":
                faults.append(f"{OPTIONS[setting.name]} is empty; leave it out, or give it a value")
                break
            text = layer.given(setting.name)
            if text is None:
                continue
            texts[setting.name] = text
            try:
                values[setting.name] = setting.parse(text)
            except ValueError as fault:
                faults.append(_blame(setting, str(fault), layer))
            break
    merged = dotenv | {name: text for name, text in process.items() if text.strip() or name not in dotenv}
    root, warnings = _root(layers, values, faults)
    place = _region(texts, values, merged, faults)
    policy = _policy(values)
    if watching:
        try:
            policy = limited(policy, cast("str", values["LASTBEAT_SIGNALS"]))
        except ValueError as wrong:
            faults.extend(
                f"LASTBEAT_SIGNALS: {fault.removeprefix('LASTBEAT_SIGNALS: ')}" for fault in str(wrong).splitlines()
            )
    if faults:
        raise SettingsError(faults)
    return Settings(
        root=root,
        region=place,
        policy=policy,
        fleet=_fleet(values),
        state_dir=cast("Path | None", values["LASTBEAT_STATE_DIR"]) or _state_dir(merged),
        values=values,
        environ=merged,
        secrets=tuple(_secrets(settings, texts, merged)),
        warnings=(*warnings, *_unknown(settings, merged)),
    )


def _blame(setting: Setting, fault: str, layer: _Layer) -> str:
    if layer.arguments:
        return fault.replace(setting.name, OPTIONS[setting.name], 1)
    return fault + layer.where


def _dotenv(path: Path, faults: list[str]) -> dict[str, str]:
    # A virtual environment may be called .env too, and then it is a folder.
    if not path.is_file():
        return {}
    from dotenv import dotenv_values  # noqa: PLC0415 - costs 26 ms, and few have a .env

    try:
        return {name: text for name, text in dotenv_values(path).items() if text is not None}
    except (OSError, UnicodeDecodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8 text"
        faults.append(f"{path} cannot be read: {why}; correct it or move it away")
        return {}


def _root(
    layers: Sequence[_Layer], values: Mapping[str, object], faults: list[str]
) -> tuple[S3Root | DirectoryRoot, tuple[str, ...]]:
    """The first layer that says anything about the place decides, so that ``--bucket`` outranks a
    ``MONITORING_ROOT`` of the environment; within one layer the root outranks the bucket."""
    prefix = cast("str", values["MONITORING_PREFIX"])
    for layer in layers:
        root, bucket = values["MONITORING_ROOT"], values["MONITORING_BUCKET"]
        if layer.given("MONITORING_ROOT"):
            if layer.arguments and layer.given("MONITORING_BUCKET") and getattr(root, "bucket", None) != bucket:
                faults.append("--root and --bucket name two different places; give one of them")
            if isinstance(root, S3Root) and root.prefix is None:
                return S3Root(root.bucket, prefix), ()
            return cast("S3Root | DirectoryRoot", root), ()
        if layer.given("MONITORING_BUCKET"):
            return S3Root(cast("str", bucket), prefix), ()
    here = DirectoryRoot(Path.cwd() / DEFAULT_DIRECTORY)
    if here.path.is_dir():
        return here, ()
    note = f"neither MONITORING_ROOT nor MONITORING_BUCKET is set, so runs are looked for in {here.path}"
    return here, (note,)


def _region(
    texts: Mapping[str, str], values: Mapping[str, object], environ: Mapping[str, str], faults: list[str]
) -> str:
    if "MONITORING_REGION" not in texts:
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            if text := environ.get(name, "").strip():
                try:
                    return region(name, text)
                except ValueError as fault:
                    faults.append(str(fault))
    return cast("str", values["MONITORING_REGION"])


def _policy(values: Mapping[str, object]) -> Policy:
    def seconds(name: str) -> float:
        return cast("float", values[name]) * 60

    return Policy(
        stale_s=seconds("STALE_MINUTES"),
        stall_s=None if values["LASTBEAT_STALL_MINUTES"] is None else seconds("LASTBEAT_STALL_MINUTES"),
        start_grace_s=seconds("LASTBEAT_START_MINUTES"),
        alert_on=cast("frozenset[Event]", values["ALERT_ON"]),
        lease_s=cast("float", values["LASTBEAT_LEASE_SECONDS"]),
        blind_s=seconds("LASTBEAT_BLIND_MINUTES"),
    )


def _fleet(values: Mapping[str, object]) -> FleetPolicy:
    def seconds(name: str, unit_s: float) -> float:
        return cast("float", values[name]) * unit_s

    return FleetPolicy(
        interval_s=seconds("LASTBEAT_INTERVAL_SECONDS", 1),
        read_s=seconds("LASTBEAT_READ_MINUTES", 60),
        discover_s=seconds("LASTBEAT_DISCOVER_MINUTES", 60),
        news_s=seconds("LASTBEAT_NEWS_HOURS", 3600),
        group_runs=cast("int", values["LASTBEAT_GROUP_RUNS"]),
        group_s=seconds("LASTBEAT_GROUP_MINUTES", 60),
        repeat_s=None if values["LASTBEAT_REPEAT_HOURS"] is None else seconds("LASTBEAT_REPEAT_HOURS", 3600),
        fanout_runs=cast("int", values["LASTBEAT_FANOUT"]),
    )


def _state_dir(environ: Mapping[str, str]) -> Path | None:
    # The XDG rules: a path that is not absolute is ignored.
    base = Path(environ.get("XDG_STATE_HOME", "").strip())
    if base.is_absolute():
        return base / "lastbeat"
    home = environ.get("HOME", "").strip() or os.path.expanduser("~")  # noqa: PTH111 - Path's raises without one
    return Path(home) / ".local" / "state" / "lastbeat" if Path(home).is_absolute() else None


def _secrets(settings: Sequence[Setting], texts: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[str]:
    yield from (texts[setting.name] for setting in settings if setting.secret and setting.name in texts)
    # Real ones have 40 characters; "test", as local S3 servers take it, would be masked out of run ids.
    yield from (environ[name] for name in _AWS_SECRETS if len(environ.get(name, "").strip()) >= _AWS_SECRET_CHARS)


def _unknown(settings: Sequence[Setting], environ: Mapping[str, str]) -> Iterator[str]:
    known = {setting.name for setting in settings}
    for name in sorted(environ):
        if name.startswith("LASTBEAT_") and name not in known:
            from difflib import get_close_matches  # noqa: PLC0415 - only for who mistyped

            near = get_close_matches(name, known, n=1, cutoff=0.75)
            yield f"{name} is no setting of lastbeat" + (f"; did you mean {near[0]}?" if near else "")
