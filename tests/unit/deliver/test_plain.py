"""The alert on a terminal."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from lastbeat.alerts.plain import render
from lastbeat.model.alert import Message
from support.laws import examples
from support.messages import FAILED, GROUP, STALLED, TIMED_OUT, hostile_messages

RECORDS = Path(__file__).parents[2] / "records"


@pytest.mark.parametrize(
    ("message", "record"),
    [
        pytest.param(FAILED, "plain_failed.txt", id="a run that ran out of memory"),
        pytest.param(TIMED_OUT, "plain_timed_out.txt", id="a run that fell silent"),
        pytest.param(STALLED, "plain_stalled.txt", id="a run that hangs"),
        pytest.param(GROUP, "plain_group.txt", id="many runs that fell silent together"),
    ],
)
def test_alerts_are_laid_out_as_recorded(message: Message, record: str) -> None:
    assert render(message) + "\n" == (RECORDS / record).read_text("utf-8")


@given(hostile_messages)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_message_reaches_the_terminal_itself(message: Message) -> None:
    shown = render(message)
    shown.encode()
    for line in shown.split("\n"):
        assert line.startswith("│")
        assert len(line) <= 500
        assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in line)
