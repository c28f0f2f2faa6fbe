"""A Slack alert reads well, stays within Slack's limits and obeys nobody but us."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from lastbeat.alerts.slack_blocks import payload
from lastbeat.model.alert import MentionedPerson, Message
from lastbeat.model.figures import Figures
from lastbeat.model.status import Event, Status
from support.laws import examples
from support.messages import FAILED, GROUP, STALLED, TIMED_OUT, hostile_messages

RECORDS = Path(__file__).parents[2] / "records"


@pytest.mark.parametrize(
    ("message", "record"),
    [
        pytest.param(FAILED, "slack_failed.json", id="a run that ran out of memory"),
        pytest.param(TIMED_OUT, "slack_timed_out.json", id="a run that fell silent"),
        pytest.param(STALLED, "slack_stalled.json", id="a run that hangs"),
        pytest.param(GROUP, "slack_group.json", id="many runs that fell silent together"),
    ],
)
def test_alerts_are_laid_out_as_recorded(message: Message, record: str) -> None:
    assert json.dumps(payload(message), indent=2, ensure_ascii=False) + "\n" == (RECORDS / record).read_text("utf-8")


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def texts(block: object) -> Iterator[dict[str, Any]]:
    """Every text object in a payload."""
    if isinstance(block, dict):
        if block.get("type") in {"mrkdwn", "plain_text"}:
            yield block
        for inner in block.values():
            yield from texts(inner)
    elif isinstance(block, list):
        for inner in block:
            yield from texts(inner)


def assert_within_limits(sent: dict[str, Any]) -> None:
    assert 1 <= units(sent["text"]) <= 4000
    assert 1 <= len(sent["blocks"]) <= 50
    for block in sent["blocks"]:
        kind = block["type"]
        if kind == "header":
            assert block["text"]["type"] == "plain_text"
            assert 1 <= units(block["text"]["text"]) <= 150
        elif kind == "section":
            assert ("text" in block) != ("fields" in block)
            assert 1 <= len(block.get("fields", [1])) <= 10
            assert all(1 <= units(field["text"]) <= 2000 for field in block.get("fields", []))
        else:
            assert kind == "context"
            assert 1 <= len(block["elements"]) <= 10
    assert all(1 <= units(each["text"]) <= 3000 for each in texts(sent))


ENTITY = re.compile(r"&(?!amp;|lt;|gt;)")
OUR_LINK = re.compile(r"<https?://[^<>|\s]+\|Open in the browser>")
OUR_MARKUP = re.compile(
    r"\*(Status|Last known status|Cause|Step|Loss|Phase|Instance|Duration|Attempt|Time"
    r"|Conditions|What they share|Runs|Files|Last log lines|Where it hangs|What shows it"
    r"|Where it was raised|Also seen|Restart|Owner|Last heartbeat)\*"
)
OUR_STATUS = re.compile("|".join(status.value for status in Status))


def assert_obeys_nobody(sent: dict[str, Any]) -> None:
    for each in [*texts(sent), {"type": "plain_text", "text": sent["text"]}]:
        text = each["text"]
        assert not ENTITY.search(text), "an ampersand that is no entity, or half an entity"
        if each["type"] == "plain_text":
            assert not re.search("[<>]", text)
            continue
        assert each["verbatim"] is True
        assert text.count("`") % 2 == 0
        left = OUR_LINK.sub("", text)
        assert not re.search("[<>]", left), "a link, a mention or a quotation that is not ours"
        left = re.sub(r"```\n[^`]*\n```|`[^`\n]+`", "", left)
        # Outside of code there are our own words alone.
        assert not re.search(r"[*_~`@]", OUR_STATUS.sub("", OUR_MARKUP.sub("", left)))
    assert sent["mrkdwn"] is False
    raw = json.dumps(sent, ensure_ascii=False)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", raw)
    assert "<!" not in raw
    assert "<@" not in raw
    assert not re.search(r"@(here|channel)\b", sent["text"]), "a bell, in text that only fallbacks show"


@given(hostile_messages)
@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_message_leaves_the_limits_or_breaks_out(message: Message) -> None:
    sent = payload(message)
    assert_within_limits(sent)
    assert_obeys_nobody(sent)


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        pytest.param(
            "https://console.example/a?b=1&c=2", "<https://console.example/a?b=1&amp;c=2|", id="a web address"
        ),
        pytest.param("https://x.example/a|b>c d`e", "<https://x.example/a%7Cb%3Ec%20d%60e|", id="with odd characters"),
        pytest.param("javascript:alert(1)", None, id="a script is no web address"),
        pytest.param("https://", None, id="nor is one without a host"),
        pytest.param("https://[", None, id="nor one that cannot be read"),
        pytest.param("https://x.example/" + "a" * 3000, None, id="too long a one would be cut, so it is left out"),
    ],
)
def test_links(link: str, shown: str | None) -> None:
    sent = json.dumps(payload(replace(FAILED, link=link)), ensure_ascii=False)
    assert "s3://ml-training/" in sent
    assert shown in sent if shown else "Open in the browser" not in sent


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"figures": Figures(0, 0)}, "*Step*\n0/0", id="no steps at all have no share"),
        pytest.param({"figures": Figures(7)}, "*Step*\n7", id="a step without a total"),
        pytest.param({"figures": Figures(None, 9)}, "*Step*\n?/9", id="a total without a step"),
        pytest.param({"figures": Figures(12, 9)}, "*Step*\n12/9", id="more steps than there are"),
        pytest.param({"figures": Figures(4999, 5000)}, "*Step*\n4999/5000 (99%)", id="all but done is not done"),
        pytest.param({"figures": Figures(4999, 5000), "status": Status.SUCCEEDED}, "*Step*\n5000/5000 (100%)",
                     id="a success that counts from 0 is complete"),
        pytest.param({"figures": Figures(10**5000, 5000)}, "*Step*\nout of range/5000",
                     id="a number from a damaged document"),
        pytest.param({"figures": Figures(loss=float("nan"))}, "*Loss*\nNaN", id="a loss that is no number"),
        pytest.param({"figures": Figures(loss=float("inf"))}, "*Loss*\ninf", id="a loss without bound"),
        pytest.param({"confidence": 0.84}, "*Cause*\n`cuda_out_of_memory (likely)`", id="a cause that is likely"),
        pytest.param({"confidence": 0.49}, "*Cause*\n`cuda_out_of_memory (perhaps)`", id="a cause that is a guess"),
        pytest.param({"confidence": 0.49, "second_cause": "cancelled"},
                     "*Cause*\n`cuda_out_of_memory or cancelled (perhaps)`", id="two causes"),
        pytest.param({"confidence": None}, "*Cause*\n`cuda_out_of_memory`", id="a cause of unknown confidence"),
        pytest.param({"cause": "unknown", "confidence": 0.1}, "*Cause*\n`unknown`", id="unknown is no guess"),
        pytest.param({"status": Status.RUNNING}, "*Status*\nRUNNING (WARNING)", id="running with a condition"),
        pytest.param({"event": Event.BLIND}, "*Last known status*\nFAILED", id="what was known before going blind"),
    ],
)  # fmt: skip
def test_fields(changes: dict[str, Any], field: str) -> None:
    assert field in [each["text"] for each in texts(payload(replace(FAILED, **changes)))]


PEOPLE = [
    pytest.param("<@U0123ABCD>", True, id="a member"),
    pytest.param("<!subteam^S0123ABCD>", True, id="a group"),
    pytest.param("<!here>", True, id="who is there"),
    pytest.param("<!channel|x>", False, id="a mention with a label"),
    pytest.param("<https://example.com|click>", False, id="a link"),
    pytest.param("*bold*", False, id="no mention at all"),
    pytest.param(None, False, id="nobody in Slack"),
]


@pytest.mark.parametrize(("slack", "rings"), PEOPLE)
def test_only_a_mention_that_people_wrote_mentions(slack: str | None, rings: bool) -> None:
    sent = payload(replace(FAILED, owner="<!channel>", mentions=(MentionedPerson("al`ice", slack),)))
    assert_within_limits(sent)
    said = json.dumps(sent, ensure_ascii=False)
    assert "*Owner* `&lt;!channel&gt;` · *For* " in said
    assert (str(slack) in said) is rings
    assert "<!channel>" not in said
    if not rings:
        assert "`al\u02cbice`" in said
