"""Which incidents an alert opens and ends in PagerDuty, and what is told of them, against a real HTTP server."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.alerts.pagerduty import PagerDuty
from lastbeat.alerts.port import DeliveryError, Receipt
from lastbeat.model.alert import Message
from lastbeat.model.status import Event, Status
from support.http_sink import Answer, HttpSink, http_sink
from support.messages import AT, FAILED, hostile_messages

KEY = "R0ABCDEFGHIJKLMNOPQRSTUVWXYZ0123"
ACCEPTED = Answer(202, b'{"status":"success","message":"Event processed","dedup_key":"x"}')


@pytest.fixture
def sink() -> Iterator[HttpSink]:
    with http_sink() as started:
        started.otherwise = ACCEPTED
        yield started


@pytest.fixture
def pager(sink: HttpSink) -> PagerDuty:
    return PagerDuty(KEY, f"{sink.url}/v2/enqueue")


def told(event: str, minute: int, *conditions: str) -> Message:
    """``group`` before an event makes it a group's; a number after it says how many of its runs are still out."""
    about, _, name = event.rpartition(" ")
    word, _, still_out = name.partition(":")
    at = AT + timedelta(minutes=minute)
    seen = dict.fromkeys(conditions, "seen")
    message = Message("run", Event(word), Status.RUNNING, "why", at, conditions=seen, where="/runs/run")
    if not about:
        return message
    return replace(message, run_id="_groups", group=int(about), still_out=int(still_out or 0), member_count=3)


def actions(sink: HttpSink, since: int = 0) -> list[str]:
    sent = [json.loads(request.body) for request in sink.requests[since:]]
    return [
        f"{each['event_action']} {each['dedup_key'].partition('/run/')[2] or each['dedup_key'][26:]}" for each in sent
    ]


STORIES: dict[str, tuple[list[Message], list[str]]] = {
    "a failed run whose restart was not told, but its success": ([told("FAILED", 0), told("SUCCEEDED", 99)],
                                                                 ["trigger trouble", "resolve trouble"]),
    "a run that nobody was told of": ([told("STARTED", 0), told("RECOVERED", 3), told("SUCCEEDED", 9)], []),
    "a silent run that fails, which is one trouble": ([told("TIMED_OUT", 0), told("FAILED", 9), told("CANCELLED", 20)],
                                                      ["trigger trouble", "trigger trouble", "resolve trouble"]),
    "a warning that outlasts a silence": (
        [told("WARNING", 0, "slow"), told("TIMED_OUT", 5, "slow"), told("RECOVERED", 6, "slow"), told("SUCCEEDED", 9)],
        ["trigger warning", "trigger trouble", "resolve trouble", "resolve warning"],
    ),
    "a warning that a failure replaces": ([told("WARNING", 0, "slow"), told("FAILED", 9, "slow")],
                                          ["trigger warning", "trigger trouble", "resolve warning"]),
    "a success with a warning": ([told("SUCCEEDED", 0, "loss_nan")], ["trigger warning"]),
    "a run that flaps": ([told("TIMED_OUT", 0), told("RECOVERED", 1), told("FLAPPING", 2), told("RECOVERED", 90)],
                         ["trigger trouble", "resolve trouble", "trigger trouble", "resolve trouble"]),
    "a watchdog that was blind says nothing of the run": (
        [told("TIMED_OUT", 0), told("BLIND", 20), told("SIGHTED", 40)],
        ["trigger trouble", "trigger blindness", "resolve blindness"],
    ),
    "an alert that comes twice": (
        [told("TIMED_OUT", 0), told("TIMED_OUT", 0), told("RECOVERED", 9), told("RECOVERED", 9)],
        ["trigger trouble", "trigger trouble", "resolve trouble"],
    ),
    "a group, until none of its runs is out": (
        [told("7 TIMED_OUT:3", 0), told("7 RECOVERED:1", 5), told("7 RECOVERED", 9)],
        ["trigger _groups/group-7/trouble", "resolve _groups/group-7/trouble"],
    ),
    "a test": ([told("TEST", 0), told("TEST", 1)], ["trigger test", "trigger test"]),
}  # fmt: skip


@pytest.mark.parametrize(("story", "expected"), [pytest.param(*row, id=name) for name, row in STORIES.items()])
def test_trouble_opens_an_incident_and_its_end_resolves_it(
    sink: HttpSink, pager: PagerDuty, story: list[Message], expected: list[str]
) -> None:
    receipt: Receipt | None = None
    for message in story:
        receipt = pager.send(message, receipt) or receipt
    assert actions(sink) == expected


def test_an_incident_says_what_happened(sink: HttpSink, pager: PagerDuty) -> None:
    pager.send(FAILED)
    (request,) = sink.requests
    event = json.loads(request.body)
    assert event["routing_key"] == KEY
    assert event["payload"]["severity"] == "critical"
    assert event["payload"]["timestamp"] == "2025-08-04T17:16:21Z"
    assert event["payload"]["summary"].startswith(
        "FAILED: mistral-20250804-171621: cuda_out_of_memory: torch.cuda.OutOfMemoryError"
    )
    assert event["payload"]["custom_details"]["action"] == FAILED.action
    assert event["links"] == [{"href": FAILED.link, "text": "Open in the browser"}]
    shown = json.loads(pager.preview(FAILED))
    assert shown == {**event, "routing_key": shown["routing_key"]}


LONG = [
    pytest.param(replace(FAILED, run_id="r" * 5000), id="the name of a run"),
    pytest.param(replace(FAILED, reason="x" * 5000), id="a reason"),
    pytest.param(replace(FAILED, cause="c" * 5000), id="a cause"),
    pytest.param(replace(FAILED, where="/" + "w" * 5000), id="a place"),
    pytest.param(replace(FAILED, run_id="r" * 900, reason="x" * 900, cause="c" * 900), id="all together"),
]


@pytest.mark.parametrize("message", LONG)
def test_what_is_longer_than_pagerduty_takes_is_cut(pager: PagerDuty, message: Message) -> None:
    # It refuses such an event for good, and nobody would hear of the failure.
    event = json.loads(pager.preview(message))
    assert event["payload"]["summary"].startswith("FAILED: ")
    assert len(event["payload"]["summary"]) <= 1024
    assert len(event["payload"]["source"]) <= 500
    assert len(event["payload"]["component"]) <= 300
    assert len(event["payload"]["class"]) <= 300
    assert len(event["dedup_key"]) <= 255


ANSWERS = {
    "a key of nobody": (
        Answer(400, b'{"status":"invalid event","errors":["Invalid routing key R0ABCDEFGHIJKLMNOPQRSTUVWXYZ0123"]}'),
        False, None, "check LASTBEAT_PAGERDUTY_ROUTING_KEY",
    ),
    "too many events": (Answer(429, b"", {"Retry-After": "30"}), True, 30.0, "429"),
    "a fault of PagerDuty's": (Answer(500, b"no"), True, None, "500"),
    "no answer": (Answer(reset=True), True, None, "broke"),
}  # fmt: skip


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in ANSWERS.items()])
def test_what_an_answer_means(
    sink: HttpSink, pager: PagerDuty, row: tuple[Answer, bool, float | None, str], caplog: pytest.LogCaptureFixture
) -> None:
    sink.otherwise, later, wait_s, says = row
    with caplog.at_level(logging.DEBUG), pytest.raises(DeliveryError, match=says) as caught:
        pager.send(FAILED)
    assert (caught.value.retryable, caught.value.retry_after_s) == (later, wait_s)
    assert KEY not in str(caught.value) + caplog.text


def test_what_was_done_before_a_failure_is_not_done_again(sink: HttpSink, pager: PagerDuty) -> None:
    receipt = pager.send(told("WARNING", 0, "slow"))
    sink.script.extend([ACCEPTED, Answer(503)])
    with pytest.raises(DeliveryError) as caught:
        pager.send(told("FAILED", 9), receipt)
    assert caught.value.receipt is not None
    seen = len(sink.requests)
    after = pager.send(told("FAILED", 9), caught.value.receipt)
    assert actions(sink, seen) == ["trigger trouble", "resolve warning"]
    seen = len(sink.requests)
    pager.send(told("RESTARTED", 12), after)
    assert actions(sink, seen) == ["resolve trouble"]


RECEIPTS: list[tuple[str, str, list[str]]] = [
    ("one with more than a key", '{"trouble":["k","2025-08-04T17:16:21Z",3]}', ["resolve k"]),
    ("one of a closed incident", '{"trouble":["","2025-08-04T17:16:21Z",3]}', []),
    ("one with fields that are not known", '{"trouble":["k","later",{}],"weather":7}', ["resolve k"]),
    ("one of another kind", '["C024BE91L","1700000000.0"]', []),
    ("one that is damaged", '{"trouble":', []),
]


@pytest.mark.parametrize(("receipt", "expected"), [pytest.param(*row, id=name) for name, *row in RECEIPTS])
def test_what_an_earlier_receipt_says_is_open_is_resolved(
    sink: HttpSink, pager: PagerDuty, receipt: str, expected: list[str]
) -> None:
    pager.send(told("SUCCEEDED", 9), Receipt(receipt))
    sent = [json.loads(request.body) for request in sink.requests]
    assert [f"{each['event_action']} {each['dedup_key']}" for each in sent] == expected


@given(messages=st.lists(hostile_messages, min_size=1, max_size=4))
@settings(max_examples=10, deadline=None)
def test_any_alert_makes_events_within_the_limits(messages: list[Message]) -> None:
    with http_sink() as sink:
        sink.otherwise = ACCEPTED
        pager, receipt = PagerDuty(KEY, f"{sink.url}/v2/enqueue"), None
        opened: set[str] = set()
        for message in messages:
            receipt = pager.send(message, receipt) or receipt
        for request in sink.requests:
            event = json.loads(request.body)
            assert len(request.body) < 512 * 1024
            assert 1 <= len(event["dedup_key"]) <= 255
            if event["event_action"] == "trigger":
                opened.add(event["dedup_key"])
                assert 1 <= len(event["payload"]["summary"]) <= 1024
                assert all(link["href"].startswith(("http://", "https://")) for link in event.get("links", []))
            else:
                assert event["dedup_key"] in opened, "only what was opened is resolved"
