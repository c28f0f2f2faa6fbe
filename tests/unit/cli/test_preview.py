"""What a dry run shows: the message as people read it, once, and the payload for programs."""

import json
from dataclasses import replace

import pytest

from lastbeat.alerts.webhook import Webhook
from lastbeat_cli.watch.preview import Preview, payloads, shown
from support.channel import ListChannel
from support.messages import FAILED
from support.world import World

HOOK = Webhook("https://example.com/secret")


def test_each_message_is_told_once_with_all_its_channels() -> None:
    world = World()
    world.error("CUDA out of memory")
    channels = [world.channel, ListChannel("other:2")]
    preview = Preview(channels)
    watch = world.fresh_watch(dry_run=True, channels=channels)
    told = preview.lines(watch.tick())
    assert told[0] == "Would send to a list (list:1), a list (other:2) (FAILED):"
    assert sum("FAILED: mistral" in line for line in told) == 1
    assert preview.lines(watch.tick()) == []


def test_a_wide_message_is_wrapped_behind_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    _, *lines = shown(replace(FAILED, reason="word " * 60), [HOOK])
    assert all(len(line) <= 60 and line.startswith("│") for line in lines)
    assert sum(line.count("word") for line in lines) == 60


def test_a_payload_that_is_json_is_an_object_and_any_other_a_text() -> None:
    hook, plain = payloads(FAILED, [HOOK, ListChannel()])
    assert hook["payload"] == json.loads(HOOK.preview(FAILED))
    assert plain["payload"] == FAILED.reason
