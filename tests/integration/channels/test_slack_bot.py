"""The Slack bot against a small Slack on loopback: one thread a run, its head, and what every answer means."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings

from lastbeat.alerts.port import DeliveryError, Receipt
from lastbeat.alerts.slack_blocks import head
from lastbeat.alerts.slack_bot import SlackBot
from lastbeat.alerts.weburl import HttpTimeouts
from lastbeat.model.alert import Message
from lastbeat.model.status import Event, Status
from support.http_sink import Answer
from support.messages import FAILED, GROUP, STALLED, TIMED_OUT, hostile_messages
from support.slack_workspace import CHANNEL, Workspace, workspace
from support.world import World

TOKEN = "xoxb-123456789012-123456789012-abcdefABCDEF"
RECOVERED = replace(TIMED_OUT, event=Event.RECOVERED, status=Status.RUNNING, at=TIMED_OUT.at + timedelta(minutes=5))


@pytest.fixture
def slack() -> Iterator[Workspace]:
    with workspace() as made:
        yield made


@pytest.fixture
def bot(slack: Workspace) -> SlackBot:
    return SlackBot(TOKEN, "alerts", slack.url)


def headline_of(message: dict[str, object]) -> str:
    blocks = message["blocks"]
    return str((json.loads(blocks) if isinstance(blocks, str) else blocks)[0]["text"]["text"])  # type: ignore[index]


def test_the_alerts_of_a_run_are_one_thread_whose_head_shows_how_it_is_now(slack: Workspace, bot: SlackBot) -> None:
    receipt: Receipt | None = None
    for message in (STALLED, TIMED_OUT, RECOVERED):
        receipt = bot.send(message, receipt)
    (top,) = slack.heads
    assert "RECOVERED" in headline_of(slack.messages[top])
    told = [headline_of(each).partition(":")[0].split()[-1] for each in slack.replies(top)]
    assert told == ["WARNING", "TIMED_OUT", "RECOVERED"]
    assert [bool(each.get("reply_broadcast")) for each in slack.replies(top)] == [False, True, False], (
        "editing the head notifies nobody, so what is critical is shown in the channel"
    )
    assert slack.messages[top]["channel"] == CHANNEL, "a head is edited by the channel's id"


def test_an_alert_that_comes_late_is_a_reply_and_leaves_the_head(slack: Workspace, bot: SlackBot) -> None:
    receipt = bot.send(RECOVERED)
    bot.send(TIMED_OUT, receipt)
    (top,) = slack.heads
    assert "RECOVERED" in headline_of(slack.messages[top])
    assert len(slack.replies(top)) == 2


@pytest.mark.parametrize("late", [False, True], ids=["found when it is edited", "found when it is replied to"])
def test_where_the_head_was_deleted_a_new_one_is_posted(slack: Workspace, bot: SlackBot, late: bool) -> None:
    first = bot.send(TIMED_OUT if not late else RECOVERED)
    slack.messages.clear()
    if late:
        slack.faults.append("thread_not_found")
    second = bot.send(RECOVERED if not late else TIMED_OUT, first)
    (top,) = slack.heads
    assert len(slack.replies(top)) == 1
    assert second != first


def test_a_failure_in_between_goes_on_in_the_same_thread(slack: Workspace, bot: SlackBot) -> None:
    slack.faults.extend([None, Answer(503)])
    with pytest.raises(DeliveryError) as caught:
        bot.send(FAILED)
    assert caught.value.receipt is not None
    bot.send(FAILED, caught.value.receipt)
    (top,) = slack.heads
    assert len(slack.replies(top)) == 1


def test_a_test_is_a_message_without_a_thread(slack: Workspace, bot: SlackBot) -> None:
    assert bot.send(replace(FAILED, event=Event.TEST)) is None
    assert slack.calls == ["chat.postMessage"]


def test_a_watcher_that_begins_anew_finds_the_thread_in_the_record(slack: Workspace, bot: SlackBot) -> None:
    world = World()
    world.channel = bot
    world.error("boom")
    world.look()
    world.delete("_error")
    world.after(3600)
    world.beat(start_time=world.instance_now.isoformat(), attempt=2)
    world.complete()
    world.look()
    (top,) = slack.heads
    assert "SUCCEEDED" in headline_of(slack.messages[top])
    first, *later = map(headline_of, slack.replies(top))
    assert "FAILED" in first
    assert "SUCCEEDED" in later[-1]


ANSWERS = {
    "a limit of calls": (
        Answer(429, b'{"ok":false,"error":"ratelimited"}', {"Retry-After": "30"}),
        True,
        30.0,
        "limited",
    ),
    "a fault of Slack's": ("internal_error", True, None, "internal_error"),
    "a server that is down": (Answer(502, b"<html>"), True, None, "502|JSON|body"),
    "no answer": (Answer(reset=True), True, None, "reset|broke|failed"),
    "a token that was revoked": ("token_revoked", False, None, "SLACK_BOT_TOKEN"),
    "a channel without the bot": ("not_in_channel", False, None, "/invite"),
    "a channel that is not there": ("channel_not_found", False, None, "SLACK_CHANNEL"),
    "a word that nobody knows": (f"no_such_{TOKEN}", False, None, "no_such_"),
}


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in ANSWERS.items()])
def test_what_an_answer_means(
    slack: Workspace, bot: SlackBot, row: tuple[Answer | str, bool, float | None, str], caplog: pytest.LogCaptureFixture
) -> None:
    fault, later, wait_s, says = row
    slack.faults.append(fault)
    with caplog.at_level(logging.DEBUG), pytest.raises(DeliveryError, match=says) as caught:
        bot.send(FAILED)
    assert (caught.value.retryable, caught.value.retry_after_s) == (later, wait_s)
    assert TOKEN not in str(caught.value) + caplog.text
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_one_that_answers_for_ever_is_given_up_in_time(slack: Workspace) -> None:
    slack.faults.append(Answer(trickle=True))
    bot = SlackBot(TOKEN, "alerts", slack.url, HttpTimeouts(total_s=0.5))
    with pytest.raises(DeliveryError, match=r"no complete answer within 0\.5 s"):
        bot.send(FAILED)


def test_a_check_posts_nothing_and_says_what_the_token_may_not(slack: Workspace, bot: SlackBot) -> None:
    assert "valid for Example" in bot.check()
    slack.scopes = "channels:read,chat:write.customize"
    with pytest.raises(DeliveryError, match="chat:write"):
        bot.check()
    assert slack.calls == ["auth.test", "auth.test"]


@pytest.mark.parametrize(
    ("token", "name", "same"),
    [
        ("xoxb-123456789012-123456789012-rotated000", "alerts", True),
        ("xoxb-999999999999-123456789012-abcdefABCDEF", "alerts", False),
        (TOKEN, "others", False),
    ],
)
def test_a_new_token_of_the_same_workspace_is_the_same_destination(token: str, name: str, same: bool) -> None:
    assert (SlackBot(token, name).identity == SlackBot(TOKEN, "alerts").identity) is same


@given(message=hostile_messages)
@settings(max_examples=20, deadline=None)
def test_any_head_is_within_slacks_limits(message: Message) -> None:
    shown = head(message)
    assert 1 <= len(shown["blocks"]) <= 50
    for block in shown["blocks"]:
        text = block.get("text", {}).get("text", "-")
        assert 1 <= len(text) <= (150 if block["type"] == "header" else 3000)
        assert len(block.get("fields", [])) <= 10
    said = json.dumps(shown["blocks"], ensure_ascii=False)
    assert "<!" not in said
    assert "<@" not in said


def test_a_groups_thread_is_its_own(slack: Workspace, bot: SlackBot) -> None:
    bot.send(GROUP)
    (top,) = slack.heads
    assert "93 runs" in headline_of(slack.messages[top])
