"""``test-alert``: send a test message to every channel."""

import secrets
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

import click

from lastbeat.alerts.port import Channel, DeliveryError, named
from lastbeat.model.alert import Message
from lastbeat.model.status import Event, Status
from lastbeat.model.text import one_line
from lastbeat.settings import Settings, opening
from lastbeat.settings.channels import configured_channels
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.document import tell

EPILOG = """\
Exit status:
  0  every channel accepted the message
  2  at least one channel did not
  3  no channel is set up; also wrong settings or arguments
"""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of sending the message on one channel."""

    channel: str
    ok: bool
    detail: str


@click.command("test-alert", cls=options.Grouped, epilog=EPILOG)
@options.place
@options.people
@options.form
def command(*, as_json: bool, **given: str | None) -> int:
    """Send a message marked as a test to every channel that is set up."""
    return send(values.settings(given, []), as_json=as_json)


def send(settings: Settings, *, as_json: bool) -> int:
    """Send a test message to every channel, and print the results. Returns the exit status."""
    channels = configured_channels(settings)
    message = _message(opening.root_url(settings))
    results = [_send(channel, message) for channel in channels]
    lines = [f"{'ok  ' if each.ok else 'fail'}  {named(each.channel, each.detail)}" for each in results]
    none = ["No channel is set up; set for example SLACK_WEBHOOK_URL or SNS_TOPIC_ARN."]
    tell({"channels": [asdict(result) for result in results]}, lines or none, as_json=as_json)
    if not results:
        return exits.UNKNOWN
    return exits.OK if all(result.ok for result in results) else exits.CRITICAL


def _message(where: str) -> Message:
    return Message(
        run_id="lastbeat-test-alert",
        event=Event.TEST,
        status=Status.RUNNING,
        reason="Somebody ran 'lastbeat test-alert' to see whether alerts arrive here. No run is concerned.",
        at=datetime.now(timezone.utc).replace(microsecond=0),
        action="None. If you can read this, this channel works.",
        where=where,
        # Unique, because receivers that drop repeats would show only the first test.
        key=f"test-{secrets.token_hex(8)}",
    )


def _send(channel: Channel, message: Message) -> Result:
    try:
        channel.send(message)
    except DeliveryError as fault:
        return Result(channel.describe, ok=False, detail=one_line(logs.redact(str(fault))))
    return Result(channel.describe, ok=True, detail="the test message was taken")
