"""What training does about a request to end, and about a watchdog that leaves no mark; what looking for both costs."""

import json
import logging
import signal
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.stop_request import StopRequest, encode_request, read_request
from lastbeat.stores.port import DeniedError
from lastbeat.training.sdk.beat_tasks import Beat
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.watcher_checks import StopCheck, WatchdogCheck
from support.memory import MemoryStore
from support.there import there
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


@pytest.mark.parametrize(
    ("start", "attempt", "meant"),
    [
        pytest.param(BEGAN, 3, True, id="the same start, whatever the number"),
        pytest.param(BEGAN + timedelta(days=1), 2, False, id="another start with the same number"),
        pytest.param(None, 2, False, id="an attempt without a start"),
    ],
)
def test_a_request_means_the_attempt_of_its_start(start: datetime | None, attempt: int, *, meant: bool) -> None:
    assert REQUEST.is_of(start, attempt) is meant


@pytest.mark.parametrize("attempt", [1, 2])
def test_where_no_start_is_known_a_request_means_the_attempt_of_its_number(attempt: int) -> None:
    assert replace(REQUEST, start_time=None).is_of(None, attempt) is (attempt == 2)


OTHERS = [
    pytest.param(replace(REQUEST, start_time=BEGAN - timedelta(days=1)), id="of an earlier attempt"),
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
    pytest.param(b"[1]", None, id="a list"),
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
    request = there(read_request(encode_request(replace(REQUEST, by="b" * 9999, why="w" * 9999, grace_s=1e300))))
    assert (len(request.by), len(request.why), request.grace_s) == (100, 200, 86400.0)


def test_what_was_asked_is_read_as_it_was_written() -> None:
    assert read_request(encode_request(REQUEST)) == REQUEST


MARK = "_watchdog/last_pass.json"
RECORD = "run/_watchdog.json"


class Fleet:
    """A fleet root whose sweeps the test makes."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.task = WatchdogCheck()

    def sweep(self, interval_s: object = 60) -> None:
        self.store.put_text(MARK, json.dumps({"at": "2001-01-01T00:00:00Z", "interval_s": interval_s}))

    def beats(self, count: int, each_s: float = 30.0) -> None:
        for _ in range(count):
            self.task.write(Beat(Run("run", None), self.store, "run/", self.store.now.timestamp()))
            self.store.pass_time(each_s)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_a_mark_that_is_old_is_worth_one_warning_until_passes_come_back(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        fleet.sweep()
        fleet.beats(5)
        assert not caplog.records
        fleet.beats(100)
        assert len(caplog.records) == 1
        assert "left its last mark 5m 30s ago, and should leave one every 1m; check" in caplog.text
        for _ in range(20):
            fleet.sweep()
            fleet.beats(1)
        assert len(caplog.records) == 1
        fleet.beats(100)
        assert len(caplog.records) == 2


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param("", id="an empty mark"),
        pytest.param('{"at": "2026-01-01T00:00:00Z"}', id="no interval"),
        pytest.param('{"interval_s": "often"}', id="an interval in words"),
        pytest.param('{"interval_s": NaN}', id="an interval that is no number"),
        pytest.param('{"interval_s": 1e300}', id="one beyond all time"),
        pytest.param('{"interval_s": 1, "more": "' + "x" * 100_000 + '"}', id="a mark too large to be one"),
    ],
)
def test_where_nothing_is_known_nothing_is_said(fleet: Fleet, mark: str, caplog: pytest.LogCaptureFixture) -> None:
    fleet.store.put_text(MARK, mark)
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        fleet.beats(200)
    assert not caplog.records


def test_where_no_pass_has_left_anything_that_is_told_once_after_some_minutes(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        fleet.beats(10)
        assert not caplog.records
        fleet.beats(200)
    (told,) = caplog.records
    assert "no watchdog watches this run yet" in told.getMessage()
    assert "lastbeat watch --run-id run" in told.getMessage()
    assert fleet.store.calls.count(("read", RECORD)) == 1


def test_a_run_that_beats_often_gives_its_watchdog_as_long_to_come(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        fleet.beats(1000, each_s=0.2)
    assert not caplog.records


@pytest.mark.parametrize(
    ("age_s", "warned"),
    [
        pytest.param(60, False, id="a command watches it"),
        pytest.param(86400, True, id="somebody watched an earlier attempt"),
    ],
)
def test_who_watches_one_run_leaves_its_record(
    fleet: Fleet, age_s: float, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.store.put_text(RECORD, "{}")
    fleet.store.pass_time(age_s)
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        fleet.beats(50)
    assert bool(caplog.records) is warned


def test_a_record_that_training_may_not_read_says_nothing(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    fleet.store.refuse("any", DeniedError("no", ""), key=RECORD)
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        fleet.beats(50)
    assert not caplog.records


def test_it_costs_one_small_read_in_ten_beats(fleet: Fleet) -> None:
    fleet.sweep()
    fleet.beats(100)
    assert fleet.store.calls == [("read", MARK)] * 10
