"""Apprise: which destinations a setting names, and what becomes of hostile text on its way to a service."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings

from lastbeat.alerts.apprise_urls import APPRISE_URLS, AppriseUrl, body, channels, harmless
from lastbeat.model.alert import Message
from lastbeat.model.setting import SettingValues
from support.messages import FAILED, hostile_messages

NTFY, MAIL = "ntfys://ntfy.example.com/alerts", "mailtos://user:pass@example.com?to=a@x.org,b@x.org"


@pytest.mark.parametrize("between", [" ", ",", ", ", "\n", " , "])
def test_each_url_is_a_destination_of_its_own(between: str) -> None:
    made = channels(SettingValues({APPRISE_URLS.name: APPRISE_URLS.read(f"{NTFY}{between}{MAIL}{between}{NTFY}")}))
    assert [channel.url for channel in made] == [NTFY, MAIL], "one that is named twice is one"
    assert [channel.identity.partition(":")[0] for channel in made] == ["apprise-ntfys", "apprise-mailtos"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("alerts@example.com", "is not a URL of Apprise"),
        ("ntfy://", "is not a URL of Apprise"),
        ("file:///etc/apprise.yml", "is a file"),
        (f"{NTFY} FILE:///etc/apprise.yml", "number 2"),
        (" ".join(f"ntfy://t{n}" for n in range(51)), "names 51"),
    ],
)
def test_what_is_no_destination_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        APPRISE_URLS.read(text)
    assert "etc" not in str(caught.value), "an address is a secret"


LIVELY = {
    "a mention of all": ("@everyone look", "@everyone"),
    "a mention of all inside of a word": ("x@here", "@here"),
    "a mention by name": ("ask @bob", "@bob"),
    "a mention of Slack's": ("<!channel> <@U123>", "<!channel>"),
    "a link of Slack's": ("<https://evil.example|log in>", "<https"),
    "a link of Markdown": ("[log in](https://evil.example)", "]("),
    "an image of HTML": ("<img src=x>", "<img"),
}


@pytest.mark.parametrize(("text", "live"), [pytest.param(*row, id=name) for name, row in LIVELY.items()])
def test_what_could_mention_or_link_is_broken_and_reads_the_same(text: str, live: str) -> None:
    assert live not in harmless(text)
    assert harmless(text).replace("\u2060", "") == text
    assert harmless(harmless(text)) == harmless(text)


@given(message=hostile_messages)
@settings(max_examples=25, deadline=None)
def test_any_alert_fits_whatever_the_service_takes(message: Message) -> None:
    for limit in (0, 1, 140, 1000, 4096):
        text = body(message, limit)
        assert len(text) <= limit
        assert not re.search(r"<(?=[\w!@#/])|\](?=[(\[:])|@(?=everyone\b)", text)


def test_where_there_is_little_room_the_facts_stay_and_the_newest_lines_of_the_log() -> None:
    whole = body(FAILED, 30_000)
    short = body(FAILED, len(whole) - 60)
    assert "step 1198" in whole
    assert "step 1198" not in short
    for said in (FAILED.action or "", "Cause", "Files", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried"):
        assert said in short
    assert short.endswith("the error above")
    assert FAILED.reason[:60] in body(FAILED, 160)


def test_of_a_url_its_parts_are_masked_and_not_the_words_of_its_syntax() -> None:
    url = "workflows://host.example/token%2Bwith-sign?priority=highest-secret&overflow=split"
    said = "workflows with priority and overflow: token+with-sign, token%2Bwith-sign, highest-secret"
    shown = AppriseUrl(url).preview(replace(FAILED, reason=said))
    assert "workflows with priority and overflow" in shown
    assert not any(secret in shown for secret in ("with-sign", "highest-secret"))
