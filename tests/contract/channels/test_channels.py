"""What every channel owes, whoever wrote it: run over the registry."""

import logging
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from lastbeat.alerts import registry
from lastbeat.alerts.port import Channel, DeliveryError, Receipt
from lastbeat.alerts.slack_bot import SlackApp
from lastbeat.model.alert import Message
from lastbeat.model.setting import Setting, SettingValues
from support.http_sink import Answer, closed_port, http_sink
from support.messages import FAILED, GROUP, STALLED, hostile_messages
from support.row_by_row import check_each
from support.waiting import LIMIT_S

KEY = "R0ABCDEFGHIJKLMNOPQRSTUVWXYZ0123"
BOT = "xoxb-123456789012-123456789012-abcdefABCDEF"
TOKEN = "abcdefghijklmnopqrstuvwx"
PATH = f"/services/T0AAAAAAA/B0BBBBBBB/{TOKEN}"


@dataclass(frozen=True)
class Example:
    """A channel set up for an address where nobody is."""

    values: Mapping[str, object]
    elsewhere: Mapping[str, object]
    """The same channel with another destination."""
    secrets: tuple[str, ...] = ()


def hook(variable: str, port: int, **more: object) -> Example:
    return Example(
        {variable: f"http://127.0.0.1:{port}{PATH}", **more},
        {variable: f"http://127.0.0.1:{port}{PATH}2", **more},
        (PATH, TOKEN, *map(str, more.values())),
    )


def arn(name: str) -> dict[str, object]:
    return {"SNS_TOPIC_ARN": f"arn:aws:sns:us-east-1:123456789012:{name}"}


def apprise(port: int, more: str = "") -> dict[str, object]:
    return {"LASTBEAT_APPRISE_URLS": (f"json://127.0.0.1:{port}{PATH}{more}",)}


def pager(key: str, port: int) -> dict[str, object]:
    return {"LASTBEAT_PAGERDUTY_ROUTING_KEY": key, "LASTBEAT_PAGERDUTY_URL": f"http://127.0.0.1:{port}/v2/enqueue"}


def bot(channel: str, port: int) -> dict[str, object]:
    url = f"http://127.0.0.1:{port}/api/"
    return {
        "SLACK_BOT_TOKEN": SlackApp(BOT, "8f742231b10e8888abcd99baac85a5aa"),
        "SLACK_CHANNEL": channel,
        "LASTBEAT_SLACK_BOT_URL": url,
    }


# A new channel needs a row, or this suite fails for it.
EXAMPLES: dict[str, Callable[[int], Example]] = {
    "apprise": lambda port: Example(apprise(port), apprise(port, "2"), (PATH, TOKEN)),
    "pagerduty": lambda port: Example(pager(KEY, port), pager(KEY[::-1], port), (KEY,)),
    "slack": lambda port: hook("SLACK_WEBHOOK_URL", port),
    "slack_bot": lambda port: Example(bot("C0AAAAAAA", port), bot("C0BBBBBBB", port), (BOT,)),
    "sns": lambda port: Example(arn("alerts"), arn("other"), ("wJalrXUtnFEMI",)),
    "webhook": lambda port: hook("LASTBEAT_WEBHOOK_URL", port, LASTBEAT_WEBHOOK_SECRET="correct-horse-battery"),
}


@pytest.fixture(params=list(registry.CHANNELS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def example(name: str, monkeypatch: pytest.MonkeyPatch) -> Example:
    port = closed_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return EXAMPLES[name](port)


@pytest.fixture
def channel(name: str, example: Example) -> Channel:
    (made,) = registry.module(name).channels(SettingValues(example.values))
    return made


def everything_said(error: BaseException) -> Iterator[str]:
    """All that a log could show of ``error``: itself, its arguments, whatever it is chained to."""
    yield from traceback.format_exception(error)
    seen: BaseException | None = error
    while seen is not None:
        yield f"{seen} {seen!r} {seen.args}"
        seen = seen.__cause__ or seen.__context__


def test_a_channel_is_off_until_it_is_set_up(name: str) -> None:
    module = registry.module(name)
    assert not module.channels(SettingValues({}))
    assert not module.channels(SettingValues({setting.name: None for setting in module.SETTINGS}))


def test_its_line_names_its_settings(name: str) -> None:
    assert registry.CHANNELS[name].settings == tuple(setting.name for setting in registry.module(name).SETTINGS)


def test_no_setting_belongs_to_two_channels() -> None:
    names = [setting.name for setting in registry.settings()]
    assert len(names) == len(set(names)) > len(registry.CHANNELS)


@pytest.mark.parametrize("text", [TOKEN, f"ftp://x.example{PATH}", f"https://[{TOKEN}", f"'{TOKEN}'"])
@pytest.mark.parametrize(
    "setting", [s for s in registry.settings() if s.secret and "URL" in s.name], ids=lambda s: s.name
)
def test_a_malformed_secret_is_not_shown(setting: Setting[str | None], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{setting.name} ") as caught:
        setting.read(text)
    assert not any(TOKEN in said for said in everything_said(caught.value))


def test_an_identity_names_one_destination_for_good(name: str, example: Example, channel: Channel) -> None:
    (again,) = registry.module(name).channels(SettingValues(example.values))
    (other,) = registry.module(name).channels(SettingValues(example.elsewhere))
    assert re.fullmatch(rf"{name}(-[a-z]+)?:[0-9a-f]{{8}}", channel.identity)
    assert channel.identity == again.identity != other.identity


def test_nothing_that_is_shown_leaks_a_secret(example: Example, channel: Channel) -> None:
    shown = [channel.identity, channel.describe, repr(channel), str(channel), channel.preview(FAILED)]
    assert not [text for text in shown for secret in example.secrets if secret in text]


def test_an_alert_does_not_carry_the_channels_own_secrets(example: Example, channel: Channel) -> None:
    hidden = example.secrets[0] in {PATH, KEY, BOT}
    values = [each for value in example.values.values() for each in (value if isinstance(value, tuple) else [value])]
    printed = " ".join(map(str, values)) if hidden else ""
    leaky = replace(
        FAILED, reason=printed, log_tail=(printed,), stack=(printed,), conditions={"stalled": printed},
        notes=(printed,), shared={"Host": printed},
    )  # fmt: skip
    assert not [secret for secret in example.secrets if secret in channel.preview(leaky)]


def test_an_alert_shows_where_the_main_thread_hangs(channel: Channel) -> None:
    assert "torch/distributed/distributed_c10d.py" in channel.preview(STALLED)


def test_an_alert_about_many_runs_says_which_how_many_and_what_they_share(channel: Channel) -> None:
    shown = channel.preview(GROUP)
    assert GROUP.members[0] in shown
    assert GROUP.members[-1] in shown
    assert "us-east-1a (93 of 97)" in shown
    assert re.search('93 runs|lastbeat TIMED_OUT: 93 runs|"member_count": 93', shown)


@pytest.mark.parametrize("ask", [pytest.param("send", id="sending"), pytest.param("check", id="checking")])
def test_an_unreachable_destination_is_tried_again_and_leaks_no_secret(
    ask: str, example: Example, channel: Channel, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.DEBUG, logger="urllib3"),
        caplog.at_level(logging.DEBUG, logger="apprise"),
        pytest.raises(DeliveryError) as caught,
    ):
        channel.send(FAILED) if ask == "send" else channel.check()
    assert caught.value.retryable
    assert channel.describe in str(caught.value)
    assert "\n" not in str(caught.value)
    told = "\n".join([*everything_said(caught.value), caplog.text])
    assert not [secret for secret in example.secrets if secret in told]


@given(message=hostile_messages)
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_any_message_has_a_bounded_printable_preview(channel: Channel, message: Message) -> None:
    shown = channel.preview(message)
    assert len(shown.encode()) < 256 * 1024
    assert "NaN," not in shown
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", shown)


@given(message=hostile_messages, after=hostile_messages)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_a_channel_keeps_is_small_and_without_secrets(message: Message, after: Message) -> None:
    with http_sink() as sink:
        sink.otherwise = Answer(200, b'{"ok":true,"channel":"C0AAAAAAA","ts":"1723.0001"}')
        port = int(sink.url.rpartition(":")[2])
        for name in ("pagerduty", "slack_bot"):
            example = EXAMPLES[name](port)
            (channel,) = registry.module(name).channels(SettingValues(example.values))
            kept = channel.send(message)
            again = channel.send(after, kept)
            for receipt in (kept, again):
                assert receipt is None or len(receipt) <= 1000
                assert not [secret for secret in example.secrets if secret in (receipt or "")]


RECEIPTS = ["null", "{", '{"trouble":1}', '{"ts":[]}']


def test_a_receipt_of_another_form_changes_nothing(example: Example, channel: Channel) -> None:
    def changes_nothing(receipt: str) -> None:
        with pytest.raises(DeliveryError, match=r"(?i)connection|reached") as caught:
            channel.send(FAILED, Receipt(receipt))
        assert caught.value.retryable

    check_each(((repr(receipt), (receipt,)) for receipt in RECEIPTS), changes_nothing)


def test_importing_every_channel_loads_no_network_library() -> None:
    core = Path(registry.__file__).parents[2]
    program = (
        f"import sys; sys.path.insert(0, {str(core)!r})\n"
        "from lastbeat.alerts import registry\nfrom lastbeat.model.setting import SettingValues\n"
        "every = registry.settings()\n"
        "registry.channels(SettingValues({setting.name: None for setting in every}))\n"
        "heavy = {'apprise', 'slack_sdk', 'requests', 'urllib3', 'boto3', 'botocore', 'http.client', 'ssl'}\n"
        "print(*sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout.split() == []
