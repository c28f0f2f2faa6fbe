"""Where the library of a channel is missing, its alerts wait and say what to install; other channels work."""

import sys

import pytest

from lastbeat.alerts import registry
from lastbeat.alerts.port import DeliveryError
from lastbeat.alerts.slack_bot import SlackApp
from lastbeat.model.setting import SettingValues
from support.messages import FAILED

APPRISE = {"LASTBEAT_APPRISE_URLS": ("json://127.0.0.1:9/secret-path",)}
BOT = {"SLACK_BOT_TOKEN": SlackApp("xoxb-123456789012-123456789012-abcdefABCDEF"), "SLACK_CHANNEL": "alerts"}
EXTRAS = {"apprise": ("apprise", APPRISE), "slack": ("slack_sdk", BOT)}


@pytest.mark.parametrize(("library", "values"), EXTRAS.values(), ids=list(EXTRAS))
def test_a_missing_library_is_told_with_the_command_and_the_alert_waits(
    library: str, values: dict[str, object], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = request.node.callspec.id
    monkeypatch.setitem(sys.modules, library, None)
    hook = {"LASTBEAT_WEBHOOK_URL": "https://hooks.example.com/x"}
    made = registry.channels(SettingValues({**values, **hook}))
    assert len(made) == 2
    for ask in (made[0].check, lambda: made[0].send(FAILED)):
        with pytest.raises(DeliveryError, match=rf"pip install 'lastbeat\[{extra}\]'") as caught:
            ask()
        assert caught.value.retryable
    (doubt,) = registry.doubts(SettingValues(values))
    assert f"pip install 'lastbeat[{extra}]'" in doubt
    assert "secret-path" not in doubt


DOUBTS = {
    "nothing is set": ({}, ""),
    "all is there": ({**APPRISE, **BOT}, ""),
    "a token without a channel": ({"SLACK_BOT_TOKEN": BOT["SLACK_BOT_TOKEN"]}, "set without SLACK_CHANNEL"),
    "a channel without a token": ({"SLACK_CHANNEL": "alerts"}, "set without SLACK_BOT_TOKEN"),
}


@pytest.mark.parametrize(("values", "says"), DOUBTS.values(), ids=list(DOUBTS))
def test_what_is_likely_to_be_wrong_is_told_before_an_alert_is_lost(values: dict[str, object], says: str) -> None:
    told = "; ".join(registry.doubts(SettingValues(values)))
    assert says in told
    assert bool(told) == bool(says)
