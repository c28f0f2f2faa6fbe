"""``init``: set up where the runs are and who gets alerts."""

import os
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Final

import click
from dotenv import dotenv_values
from dotenv.parser import parse_stream

from lastbeat import settings as configuration
from lastbeat.settings import Settings, SettingsError, opening, table
from lastbeat.settings.channels import configured_channels
from lastbeat.stores import registry
from lastbeat_cli import exits, logs, options, test_alert, whole_file
from lastbeat_cli.doctor import checks
from lastbeat_cli.document import tell_checks

_FILE: Final = ".env"
_MODE: Final = 0o600
"""Mode of the file: it may hold secrets."""
_ROOT: Final = "training-runs"
_PLACES: Final = f"{registry.beginnings()}bucket/prefix, or a directory"
"""What a fleet root may be."""
_CHANNELS: Final = (
    ("arn:", "SNS_TOPIC_ARN"),
    ("https://hooks.slack.com/", "SLACK_WEBHOOK_URL"),
    ("https://", "LASTBEAT_WEBHOOK_URL"),
    ("http://", "LASTBEAT_WEBHOOK_URL"),
)
"""How the address of a channel begins → the setting that takes it."""
_EPILOG: Final = """\
Exit status:
  0  everything is fine
  1  watching works, but there are warnings
  2  something does not work: a check failed, or a channel did not take the test message
  3  wrong settings or arguments; nothing was written

Examples:
  lastbeat init
  lastbeat init --root s3://my-bucket/training-runs --sns-topic arn:aws:sns:us-east-1:123456789012:runs --yes
"""


@click.command("init", cls=options.Grouped, epilog=_EPILOG)
@options.place
@options.people
@options.option("--yes", "Ask nothing, and replace settings that .env has already.")
@options.verbose
def command(*, yes: bool, **given: str | None) -> int:
    """Set lastbeat up: write .env in this folder, check everything, and send a test alert.

    Asks for the fleet root and a channel unless options name them. Other lines of .env stay. Without a terminal, and
    without --yes, prints what it would write.
    """
    asks = not yes and all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    before = _text()
    try:
        wanted = _wanted(options.arguments(given), before, asks=asks)
        settings = configuration.load(wanted, watching=True)
        logs.follow(settings)
        if why := _root_fault(settings):
            raise SettingsError([f"{opening.root_url(settings)}: {why}"])
        if asks:
            wanted = _agreed(wanted, before)
    except click.Abort:
        print(file=sys.stderr)
        return exits.INTERRUPTED
    after = _with(before, wanted)
    if not (asks or yes):
        # Other lines may hold secrets that lastbeat does not know.
        print(logs.redact(_with("", wanted)), end="")
        print(f"Nothing was written; 'lastbeat init --yes' writes this to {_FILE}.", file=sys.stderr)
        return exits.OK
    whole_file.replace(Path(_FILE).resolve(), after.encode(), _MODE)
    print(f"{Path(_FILE).resolve()}: {', '.join(wanted) or 'unchanged'}")
    return _checked(wanted)


def _text() -> str:
    """The text of the file, empty if there is none. Raises :class:`SettingsError`."""
    path = Path(_FILE)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8 text"
        raise SettingsError([f"{path.absolute()} cannot be read: {why}; correct it or move it away"]) from None


def _wanted(given: dict[str, str], before: str, *, asks: bool) -> dict[str, str]:
    """The settings to write: those of the options, and the answers for what they leave open."""
    wanted, there = dict(given), dotenv_values(stream=StringIO(before))
    if not {table.MONITORING_ROOT.name, table.MONITORING_BUCKET.name} & {*given}:
        kept = there.get(table.MONITORING_ROOT.name)
        if asks:
            print(f"The fleet root is where the runs are: {_PLACES}.")
            wanted[table.MONITORING_ROOT.name] = click.prompt("Fleet root", default=kept or _ROOT, value_proc=_root)
        elif not kept:
            wanted[table.MONITORING_ROOT.name] = _ROOT
    if asks and not {name for _, name in _CHANNELS} & {*given}:
        print("A channel gets the alerts: a Slack Incoming Webhook, the ARN of an SNS topic, or any webhook's URL.")
        wanted |= click.prompt("Channel, or nothing", default="", show_default=False, value_proc=_channel)
    return wanted


def _root(answer: str) -> str:
    """The fleet root. Raises :class:`click.BadParameter` for one that cannot be used."""
    try:
        why = _root_fault(configuration.load({table.MONITORING_ROOT.name: answer}, channels=False))
    except SettingsError as error:
        # Other settings may be wrong, too: those are reported when all are known.
        names_none = any(fault.startswith(f"{table.MONITORING_ROOT.option}=") for fault in error.faults)
        why = f"it is {_PLACES}" if names_none else ""
    if why:
        raise click.BadParameter(why)
    return answer


def _root_fault(settings: Settings) -> str:
    """Why the fleet root cannot be used; empty if it can. A folder below this one may still have to be made."""
    root = settings.root
    if not registry.of(root).TRAITS.local or root.path.is_dir():
        return ""
    can_be_made = root.path.is_relative_to(Path.cwd()) and not root.path.exists()
    return "" if can_be_made else "there is no such directory: create it, mount its file system, or name another root"


def _channel(answer: str) -> dict[str, str]:
    """The setting for the address of a channel. Raises :class:`click.BadParameter` for any other text."""
    address = answer.strip()
    if not address:
        return {}
    for beginning, name in _CHANNELS:
        if address.startswith(beginning):
            return {name: address}
    raise click.BadParameter("an address begins with https:// or arn:; docs/alerts.md has further channels")


def _agreed(wanted: Mapping[str, str], before: str) -> dict[str, str]:
    """``wanted`` without the settings that have another value in the file and are to keep it."""
    there = dotenv_values(stream=StringIO(before))
    return {
        name: text
        for name, text in wanted.items()
        if there.get(name) in {None, "", text} or click.confirm(f"{name} is set in {_FILE} already; replace it?")
    }


def _with(before: str, wanted: Mapping[str, str]) -> str:
    """``before`` with the settings ``wanted``, each in its old line or at the end. All other lines stay.

    Raises :class:`SettingsError` for a value that the file cannot hold.
    """
    lines = {name: f"{name}={_quoted(text)}\n" for name, text in wanted.items()}
    left = dict(lines)
    parts = []
    for binding in parse_stream(StringIO(before)):
        if binding.key in lines:
            parts.append(left.pop(binding.key, ""))
        else:
            parts.append(binding.original.string)
    if parts and parts[-1] and not parts[-1].endswith("\n"):
        parts.append("\n")
    after = "".join([*parts, *left.values()])
    there = dotenv_values(stream=StringIO(after))
    faults = [f"{name} cannot be written to {_FILE}: its value is read otherwise; set it in the environment"
              for name, text in wanted.items() if there.get(name) != text]  # fmt: skip
    if faults:
        raise SettingsError(faults)
    return after


def _quoted(text: str) -> str:
    if text and not set(text) & set(" \t\r\n#'\"\\$`"):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _checked(wanted: Mapping[str, str]) -> int:
    """Check the settings that hold now, and send a test alert. Returns the exit status."""
    outranked = [name for name, text in wanted.items() if os.environ.get(name, text) != text]
    for name in outranked:
        print(f"Note: {name} in the environment outranks {_FILE}")
    settings = configuration.load(watching=True)
    logs.follow(settings)
    _make_folder(settings)
    status = tell_checks(checks(settings), as_json=False)
    if configured_channels(settings):
        status = max(status, test_alert.send(settings, as_json=False))
    return status


def _make_folder(settings: Settings) -> None:
    """Make the fleet root if it is to be a folder below this one. Elsewhere a file system may not be mounted."""
    if registry.of(settings.root).TRAITS.local and settings.root.path.is_relative_to(Path.cwd()):
        settings.root.path.mkdir(parents=True, exist_ok=True)
