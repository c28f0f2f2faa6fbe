"""Attempts and alerts as a record tells them, and lines of logs as people are shown them."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.alert import Alert, Delivery, Message
from lastbeat.model.record import Attempt, Record, Transition
from lastbeat.model.state import State
from lastbeat.model.status import Event, Status
from lastbeat.model.view import Span
from lastbeat.stores.port import Blob
from lastbeat.views.alerts import alerts, pending
from lastbeat.views.excerpts import split, tail
from lastbeat.views.recorded import attempts
from lastbeat.views.safe import LINE_LIMIT, Safe
from support.memory import START

HOUR = timedelta(hours=1)


def change(hours: int, after: Status, attempt: int = 1) -> Transition:
    return Transition(hours + 1, START + hours * HOUR, None, after, "", attempt)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        pytest.param(Record("r"), (), id="nothing happened yet"),
        pytest.param(
            Record("r", State(Status.FAILED), history=(change(0, Status.RUNNING), change(2, Status.FAILED))),
            (Span(START, Status.FAILED, 1),),
            id="one attempt, which failed later",
        ),
        pytest.param(
            Record(
                "r",
                State(Status.RUNNING),
                attempt=Attempt(2),
                history=(change(0, Status.FAILED), change(2, Status.RUNNING, 2)),
            ),
            (Span(START, Status.FAILED, 1), Span(START + 2 * HOUR, Status.RUNNING, 2)),
            id="a second attempt",
        ),
        pytest.param(
            Record("r", State(Status.RUNNING), attempt=Attempt(1, START - HOUR), history=(change(0, Status.RUNNING),)),
            (Span(START - HOUR, Status.RUNNING, 1),),
            id="it began before anybody looked",
        ),
        pytest.param(
            Record(
                "r",
                State(Status.RUNNING),
                attempt=Attempt(1, START - 3 * HOUR, (7200.0, 7200.0)),
                history=(change(0, Status.RUNNING),),
            ),
            (Span(START - HOUR, Status.RUNNING, 1),),
            id="its clock was two hours behind the store's",
        ),
        pytest.param(
            Record("r", State(Status.RUNNING), attempt=Attempt(7, START)),
            (Span(START, Status.RUNNING, 7),),
            id="history knows nothing of it",
        ),
    ],
)
def test_when_each_attempt_began(record: Record, told: tuple[Span, ...]) -> None:
    assert attempts(record) == told


def alert(**deliveries: Delivery) -> Alert:
    message = Message("r", Event.FAILED, Status.FAILED, "boom", START)
    named = {name.replace("_", ":"): delivery for name, delivery in deliveries.items()}
    return Alert(1, Event.FAILED, START, message, named)


@pytest.mark.parametrize(
    ("delivery", "state", "waits"),
    [
        pytest.param(Delivery(1, sent_at=START), ("slack", "sent", START), 0, id="sent"),
        pytest.param(Delivery(1, failed="refused"), ("slack", "failed", None), 0, id="refused for good"),
        pytest.param(Delivery(), ("slack", "waiting", None), 1, id="not tried yet"),
        pytest.param(Delivery(2, not_before=START), ("slack", "waiting", START), 1, id="to be tried again then"),
        pytest.param(
            Delivery(1, sent_at=START, told_by="group/1"), ("slack", "told by a group", START), 0, id="told by a group"
        ),
    ],
)
def test_what_became_of_an_alert(delivery: Delivery, state: tuple[object, ...], waits: int) -> None:
    record = Record("r", outbox=(alert(slack_5f0c9a1e=delivery),))
    assert alerts(record, Safe())[0].deliveries == (state,)
    assert pending(record) == waits


def test_what_a_channel_is_called_is_made_harmless_as_all_that_a_record_says() -> None:
    named = {"\x1b[2Jslack\u202e hf_abcdefghijklmnopqrstuvwx " + "x" * 100_000 + ":1": Delivery()}
    channel, *_ = alerts(Record("r", outbox=(replace(alert(), deliveries=named),)), Safe())[0].deliveries[0]
    assert not {"\x1b", "\u202e"} & set(channel)
    assert "hf_abc" not in channel
    assert len(channel) <= 300


def test_an_alert_that_waits_for_one_channel_waits_though_another_took_it() -> None:
    record = Record("r", outbox=(alert(slack_1=Delivery(sent_at=START), sns_2=Delivery(1, last_error="503")),))
    assert pending(record) == 1
    assert alerts(record, Safe())[0].error == "503"


def log(body: bytes, *, of: int | None = None) -> Blob:
    return Blob(body, len(body) if of is None else of, START, "v")


@pytest.mark.parametrize(
    ("blob", "most", "lines", "first"),
    [
        pytest.param(log(b"a\nb\nc\n"), 2, ("b", "c"), 2, id="the last lines with their numbers"),
        pytest.param(log(b"a\nb"), 5, ("a", "b"), 1, id="a line that has not ended is one"),
        pytest.param(log(b""), 5, (), None, id="an empty log"),
        pytest.param(
            log(b"ut\nb\nc\n", of=900), 5, ("b", "c"), None, id="the end of a longer log, without half a line"
        ),
        pytest.param(
            log(b"no newline yet", of=900), 5, ("no newline yet",), None, id="one line longer than what is read"
        ),
        pytest.param(log(b"1%\r2%\r3%"), 5, ("3%",), 1, id="a progress bar as it last was"),
        pytest.param(log("a\u2028b\x0bc\n".encode()), 5, ("a b\ufffdc",), 1, id="what is no line end is none"),
        pytest.param(log(b"\xff\xfe\n"), 5, ("\ufffd\ufffd",), 1, id="no text"),
    ],
)
def test_the_end_of_a_log(blob: Blob, most: int, lines: tuple[str, ...], first: int | None) -> None:
    found = tail("logs/a.log", blob, most, Safe())
    assert (found.lines, found.first_line) == (lines, first)


@given(st.binary(max_size=200), st.booleans())
def test_no_line_is_lost_or_made_up(body: bytes, cut: bool) -> None:
    lines = split(body, cut_at_start=cut)
    whole = b"\n".join(lines)
    assert whole in body
    assert body.endswith((whole, whole + b"\n"))
    if not cut:
        assert body in {whole, whole + b"\n"}


@given(st.text(max_size=3000))
def test_a_line_is_one_and_bounded_whatever_it_holds(text: str) -> None:
    shown = Safe().line(text)
    assert len(shown) <= LINE_LIMIT
    assert not {"\n", "\r", "\x1b", "\x9b", "\x07", "\u202e"} & set(shown)
