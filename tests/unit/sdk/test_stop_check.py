"""What training does about a request to end, and what looking for one costs."""

import signal
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.stop_request import StopRequest, encode_request, read_request
from lastbeat.training.sdk.beat_tasks import Beat
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.watcher_checks import StopCheck
from support.memory import MemoryStore
from support.waiting import until

BEGAN = datetime(2026, 8, 1, 10, 0, tzinfo=timezone.utc)
REQUEST = StopRequest("ann@login1", BEGAN + timedelta(hours=1), "wrong data", BEGAN, 2)
KEY = "run/_stop"


class Training:
    """A run whose beats the test makes."""

    def __init__(self, every_beats: int = 1) -> None:
        self.store = MemoryStore()
        self.run = Run("run", None)
        self.sent: list[int] = []
        self.task = StopCheck(every_beats, self.sent.append)

    def beats(self, count: int) -> None:
        for _ in range(count):
            beat = Beat(self.run, self.store, "run/", 0.0, None, "2026-08-01T10:00:00.000Z", 2)
            self.task.write(beat)


def test_a_request_of_this_attempt_interrupts_it_once_and_is_named() -> None:
    training = Training()
    training.store.put_text(KEY, encode_request(REQUEST).decode())
    training.beats(5)
    assert training.sent == [signal.SIGINT]
    assert training.run.stopped == "stopped by ann@login1: wrong data"


OTHERS = [
    pytest.param(replace(REQUEST, start_time=BEGAN - timedelta(days=1)), id="of an earlier attempt"),
    pytest.param(replace(REQUEST, start_time=None), id="of a document without a start"),
    pytest.param(None, id="nothing that can be read"),
]


@pytest.mark.parametrize("request_", OTHERS)
def test_a_request_that_is_not_of_this_attempt_does_nothing(request_: StopRequest | None) -> None:
    training = Training()
    text = "{" * 5000 if request_ is None else encode_request(request_).decode()
    training.store.put_text(KEY, text)
    training.beats(5)
    assert (training.sent, training.run.stopped) == ([], None)


def test_who_has_been_interrupted_already_is_only_told_to_end_after_its_grace() -> None:
    training = Training()
    request = replace(REQUEST, signalled=True, grace_s=0.05)
    training.store.put_text(KEY, encode_request(request).decode())
    training.beats(3)
    assert until(lambda: training.sent) == [signal.SIGTERM]


@pytest.mark.parametrize(("every_beats", "reads"), [(1, 99), (10, 10)], ids=["where it is free", "where it is paid"])
def test_looking_costs_one_small_read_in_so_many_beats(every_beats: int, reads: int) -> None:
    training = Training(every_beats)
    training.beats(100)
    assert training.store.calls == [("read", KEY)] * reads


HOSTILE = [
    pytest.param(b"[" * 4000, None, id="deep"),
    pytest.param(b"{}", "stopped by somebody", id="nobody"),
    pytest.param(
        b'{"by": 7, "why": ["x"], "grace_s": "NaN", "attempt": 1e999}', "stopped by somebody", id="wrong types"
    ),
    pytest.param(
        b'{"by": "a\\n\\u001b[31mb", "why": "<!channel>"}', "stopped by a b: <!channel>", id="control characters"
    ),
]


@pytest.mark.parametrize(("body", "said"), HOSTILE)
def test_a_request_may_be_written_by_anybody(body: bytes, said: str | None) -> None:
    request = read_request(body)
    assert (request.summary if request is not None else None) == said


def test_a_long_one_is_bounded() -> None:
    request = read_request(encode_request(replace(REQUEST, by="b" * 9999, why="w" * 9999, grace_s=1e300)))
    assert request is not None
    assert (len(request.by), len(request.why), request.grace_s) == (100, 200, 86400.0)


def test_what_was_asked_is_read_as_it_was_written() -> None:
    assert read_request(encode_request(REQUEST)) == REQUEST
