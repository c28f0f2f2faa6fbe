"""Who watches the watchdog from outside: what he is told, and what he never learns."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lastbeat import settings as configuration
from lastbeat.alerts.weburl import HttpTimeouts
from lastbeat.fleet.configured import configured_sweep
from lastbeat.fleet.ping import Ping, ping_pass, trouble
from lastbeat.model.fleet import PassReport
from lastbeat.stores.clock import steady_clock
from support.http_sink import Answer, HttpSink, closed_port
from support.memory import START
from support.row_by_row import labelled
from support.waiting import LIMIT_S

UUID = "0f3b1c9e-5f43-4f6e-9a53-1d2f3a4b5c6d"
FOR_EVER_S = 3600.0
"""Longer than any test may take: one that waits for it is ended, and named."""

GOOD = PassReport(at=START, statuses={"RUNNING": 3, "FAILED": 1})


def paths(sink: HttpSink) -> list[str]:
    return [request.path for request in sink.requests]


REPORTS = [
    ("a pass that could see went well, whatever the runs do", GOOD, [f"/{UUID}/start", f"/{UUID}"]),
    ("an alert that could not be delivered is a failure", PassReport(at=START, failed=1), [f"/{UUID}/start",
     f"/{UUID}/fail"]),
    ("a decision that could not be recorded is a failure", PassReport(at=START, unrecorded=2), [f"/{UUID}/start",
     f"/{UUID}/fail"]),
    ("a run that could not be read is that run's trouble", PassReport(at=START, unreadable={"run-1": "denied"},
     unreadable_count=1), [f"/{UUID}/start", f"/{UUID}"]),
]  # fmt: skip


@pytest.mark.parametrize(("report", "expected"), labelled(REPORTS))
def test_a_pass_is_told_from_its_beginning_to_its_end(sink: HttpSink, report: PassReport, expected: list[str]) -> None:
    ping = Ping(f"{sink.url}/{UUID}")
    ping.start()
    ping_pass(ping, report)
    assert paths(sink) == expected


def test_a_sweep_pings_where_the_settings_say(sink: HttpSink, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    places = {"MONITORING_ROOT": f"{tmp_path}/runs", "LASTBEAT_STATE_DIR": f"{tmp_path}/state"}
    for url, told in (("", []), (f"{sink.url}/{UUID}", [f"/{UUID}/start", f"/{UUID}"])):
        given = configuration.load({}, {**places, "LASTBEAT_PING_URL": url}, tmp_path)
        assert configured_sweep(given, [], clock=steady_clock()).run().blind is None
        assert paths(sink) == told


def test_a_blind_pass_is_silence(sink: HttpSink) -> None:
    ping_pass(Ping(f"{sink.url}/{UUID}"), PassReport(at=START, blind="no answer", failed=1))
    assert sink.requests == []


def test_the_beginning_is_told_from_the_side(sink: HttpSink) -> None:
    """A server that is slow with the one does not hold the pass up, and hears of the end after it."""
    sink.script.append(Answer(delay_s=0.3))
    ping = Ping(f"{sink.url}/{UUID}")
    ping.start()
    ping.success()
    assert paths(sink) == [f"/{UUID}/start", f"/{UUID}"]


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (PassReport(at=START, failed=1), "1 alert could not be delivered"),
        (
            PassReport(at=START, failed=2, unrecorded=1, notes=("s3cret",)),
            "1 decision could not be recorded; 2 alerts could not be delivered",
        ),
        (GOOD, None),
    ],
)
def test_what_was_wrong_is_told_in_figures_alone(report: PassReport, text: str | None) -> None:
    assert trouble(report) == text


def test_a_failure_comes_with_a_short_text_without_the_address(sink: HttpSink) -> None:
    url = f"{sink.url}/{UUID}"
    Ping(url).fail(f"{url} said no\x1b[31m\n" + "x" * 100_000)
    body = sink.requests[0].body.decode()
    assert UUID not in body
    assert "\n" not in body
    assert "\x1b" not in body
    assert len(body) <= 1000


TROUBLE: list[tuple[str, Callable[[HttpSink], None]]] = [
    ("an answer that names the address", lambda sink: sink.script.append(Answer(404, body=f"no /{UUID}/x".encode()))),
    ("a redirect elsewhere", lambda sink: sink.script.append(Answer(302, headers={"Location": f"http://x/{UUID}"}))),
    ("a connection that breaks", lambda sink: sink.script.append(Answer(reset=True))),
    ("an answer that never ends", lambda sink: sink.script.append(Answer(500, body=b"x" * 10, endless=True))),
]


@pytest.mark.parametrize("prepare", labelled(TROUBLE))
def test_trouble_is_a_warning_without_the_address(
    sink: HttpSink, prepare: Callable[[HttpSink], None], caplog: pytest.LogCaptureFixture
) -> None:
    prepare(sink)
    with caplog.at_level(logging.DEBUG):
        Ping(f"{sink.url}/{UUID}", limits=HttpTimeouts(1.0, 1.0, 1.0)).success()
        # A call that was given up on still has to end, and may log as it does.
        assert settled(lambda: not any(thread.name == "lastbeat-ping" for thread in threading.enumerate()))
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.name for record in warnings] == ["lastbeat.fleet.ping"]
    assert "ping (127.0.0.1" in warnings[0].getMessage()
    assert UUID not in caplog.text


def test_nobody_there_is_told_once_until_somebody_is(sink: HttpSink, caplog: pytest.LogCaptureFixture) -> None:
    ping = Ping(f"http://127.0.0.1:{closed_port()}/{UUID}")
    for _ in range(3):
        ping.success()
    assert len(caplog.records) == 1
    again = Ping(f"{sink.url}/{UUID}")
    sink.script.extend([Answer(500), Answer(500), Answer(), Answer(500)])
    for _ in range(4):
        again.success()
    assert len(caplog.records) == 3


def test_a_name_that_does_not_exist_is_no_error_either(caplog: pytest.LogCaptureFixture) -> None:
    Ping(f"http://no-such-host.invalid/{UUID}", limits=HttpTimeouts(1.0, 1.0, 2.0)).success()
    assert UUID not in caplog.text


def test_a_server_that_hangs_holds_a_pass_up_no_longer_than_the_limit(sink: HttpSink) -> None:
    sink.otherwise = Answer(delay_s=FOR_EVER_S)
    ping = Ping(f"{sink.url}/{UUID}", limits=HttpTimeouts(0.5, FOR_EVER_S, 0.5))
    ping.start()
    ping.fail("x")


def test_who_has_no_time_left_does_not_wait(sink: HttpSink) -> None:
    sink.otherwise = Answer(delay_s=FOR_EVER_S)
    ping = Ping(f"{sink.url}/{UUID}", limits=HttpTimeouts(FOR_EVER_S, FOR_EVER_S, FOR_EVER_S))
    for left_s in (0.0, -3.0):
        ping_pass(ping, GOOD, within_s=left_s)


def settled(is_so: Callable[[], bool]) -> bool:
    until = time.monotonic() + LIMIT_S
    while not is_so() and time.monotonic() < until:
        time.sleep(0.01)
    return is_so()
