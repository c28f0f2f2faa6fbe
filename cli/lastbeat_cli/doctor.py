"""``doctor``: check that everything is set up for watching."""

from dataclasses import asdict

import click

from lastbeat import settings as configuration
from lastbeat.model.text import one_line
from lastbeat.settings import Settings, SettingsError
from lastbeat_cli import exits, logs, options
from lastbeat_cli.checks import CheckResult, checks
from lastbeat_cli.document import dump

EPILOG = """\
\b
Exit status:
  0  everything is fine
  1  watching works, but there are warnings
  2  something does not work
  3  wrong settings or arguments
"""


@click.command("doctor", cls=options.Grouped, epilog=EPILOG)
@options.place
@options.people
@options.form
def command(*, as_json: bool, **given: str | None) -> int:
    """Check settings, credentials, the store, permissions and channels; one line each, with the remedy.

    Channels are checked without sending a message.
    """
    try:
        settings = configuration.load(options.arguments(given), watching=True)
    except SettingsError as wrong:
        faults = [CheckResult("settings", "fail", fault) for fault in wrong.faults]
        _tell(faults, as_json=as_json)
        return exits.UNKNOWN
    # Misspelt settings are one of the checks.
    logs.follow(settings, tell=False)
    return check(settings, as_json=as_json)


def check(settings: Settings, *, as_json: bool) -> int:
    """Make every check, and print its result. Returns the exit status."""
    made: list[CheckResult] = []
    for result in checks(settings):
        made.append(result)
        if not as_json:
            _tell([result], as_json=False)
    if as_json:
        _tell(made, as_json=True)
    words = {result.word for result in made}
    return exits.CRITICAL if "fail" in words else exits.WARNING if "warn" in words else exits.OK


def _tell(made: list[CheckResult], *, as_json: bool) -> None:
    if as_json:
        print(logs.redact(dump({"checks": [asdict(check) for check in made]})))
        return
    for check in made:
        remedy = f" → {check.remedy}" if check.remedy else ""
        told = one_line(logs.redact(f"{check.name}: {check.detail}{remedy}"))
        print(f"{check.word:<4}  {told}", flush=True)
