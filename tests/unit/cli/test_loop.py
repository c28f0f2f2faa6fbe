"""The rhythm of the loop, its end, wishes to stop, and the pace that an estimate is made of."""

import os
import signal
import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.alert import Alert, Delivery, Message
from lastbeat.model.observation import NeverSeen
from lastbeat.model.outcome import Outcome
from lastbeat.model.record import Finding, HeartbeatMemory, Record
from lastbeat.model.state import State
from lastbeat.model.status import Event, Status
from lastbeat.stores.clock import next_due
from lastbeat.watch.decide.over import is_over, retry_in_s
from lastbeat_cli.loop import Stop, follow
from support.states import with_state

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
RUNNING = Outcome("run-1", State(Status.RUNNING), NeverSeen(), NOW)
MESSAGE = Message("run-1", Event.FAILED, Status.FAILED, "boom", NOW)
FAILED = with_state(RUNNING, status=Status.FAILED)
FLAPPING = replace(with_state(RUNNING, status=Status.TIMED_OUT), record=Record("run-1", flapping_since=NOW))


def by_log(beat_s: float, seen_s: float = 60) -> Outcome:
    """FAILED for a line that was seen ``seen_s`` ago, with a heartbeat ``beat_s`` after it."""
    seen_at = NOW - timedelta(seconds=seen_s)
    beat = HeartbeatMemory(NOW, alive_at=seen_at + timedelta(seconds=beat_s))
    return replace(FAILED, record=Record("run-1", metadata=beat, finding=Finding("7:aa", seen_at, alone=True)))


@given(st.floats(0, 1e6), st.floats(-1e5, 1e5), st.floats(0.1, 1e4))
def test_the_next_pass_is_on_the_beat_and_within_one_interval(due: float, late: float, interval: float) -> None:
    after = next_due(due, due + late, interval)
    # One that comes early leaves the next where it is.
    assert max(due, due + late - 1e-6) <= after <= max(due, due + late + interval + 1e-6)
    assert abs((after - due) / interval - round((after - due) / interval)) < 1e-6


@pytest.mark.parametrize(
    ("outcome", "dry_run", "over"),
    [
        pytest.param(RUNNING, False, False, id="a running run is waited for"),
        pytest.param(FAILED, False, True, id="a finished run whose alerts are out is over"),
        pytest.param(replace(FAILED, pending=1), False, False, id="alerts that wait are waited for"),
        pytest.param(replace(FAILED, pending=1), True, True, id="but not by a dry run, which sends none"),
        pytest.param(with_state(FAILED, status=Status.UNKNOWN), False, False, id="what could not be seen is not over"),
        pytest.param(by_log(-30), False, True, id="a crash that a log shows, with no heartbeat since, is over"),
        pytest.param(by_log(30), False, False, id="but with heartbeats since it is perhaps taken back"),
        pytest.param(
            with_state(by_log(30), status=Status.CANCELLED), False, False, id="as a Ctrl-C that a log shows is"
        ),
        pytest.param(by_log(30, seen_s=200), False, True, id="though not for ever"),
        pytest.param(FLAPPING, False, False, id="a flapping run may come back, and people are told when it settles"),
    ],
)
def test_when_a_watch_is_over(outcome: Outcome, dry_run: bool, over: bool) -> None:
    assert is_over(outcome, dry_run=dry_run) is over


def waiting(*deliveries: Delivery) -> Outcome:
    alerts = tuple(Alert(n, Event.FAILED, NOW, MESSAGE, {"slack:1": each}) for n, each in enumerate(deliveries))
    return replace(FAILED, record=Record("run-1", outbox=alerts), pending=len(alerts))


def test_a_waiting_delivery_is_tried_again_when_its_back_off_ends() -> None:
    soon, later = NOW + timedelta(seconds=5), NOW + timedelta(seconds=50)
    assert retry_in_s(waiting(Delivery(not_before=later), Delivery(not_before=soon))) == 5
    assert retry_in_s(waiting(Delivery(not_before=soon, claimed_until=later))) == 50
    assert retry_in_s(waiting(Delivery(not_before=NOW + timedelta(seconds=0.1)))) == 1, "never in a tight loop"
    assert retry_in_s(waiting(Delivery(not_before=NOW - timedelta(days=1)))) is None, "it waits for something else"
    assert retry_in_s(waiting(Delivery(not_before=soon, sent_at=NOW))) is None
    assert retry_in_s(RUNNING) is None


def test_passes_come_by_the_interval_until_the_watch_is_over() -> None:
    outcomes = iter([RUNNING, with_state(RUNNING, status=Status.UNKNOWN), RUNNING, FAILED])
    shown: list[Status] = []
    with Stop() as stop:
        last = follow(lambda: next(outcomes), lambda each: shown.append(each.status), stop, 0.01)
    assert last == FAILED
    assert shown == [Status.RUNNING, Status.UNKNOWN, Status.RUNNING, Status.FAILED]


def test_a_signal_during_a_pass_lets_it_end_and_is_the_last() -> None:
    def tick() -> Outcome:
        signal.raise_signal(signal.SIGTERM)
        return RUNNING

    shown: list[Outcome] = []
    before = signal.getsignal(signal.SIGTERM)
    with Stop() as stop:
        assert follow(tick, shown.append, stop, 3600) == RUNNING
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "a second one has its usual effect"
    assert shown == [RUNNING]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_another_thread_gets_ends_the_sleep() -> None:
    """The kernel may choose any thread, and the main one may be just about to sleep: neither hears of it by itself."""
    with Stop() as stop:
        sender = threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
        sender.start()
        assert stop.wait(3600)
        sender.join()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_sleep_is_not_slept_over(number: signal.Signals) -> None:
    with Stop() as stop:
        os.kill(os.getpid(), number)
        assert stop.wait(3600)


def test_without_a_wish_it_sleeps_its_time_and_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in Stop.SIGNALS]
    with Stop() as stop:
        assert not stop.wait(0.01)
    assert [signal.getsignal(number) for number in Stop.SIGNALS] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_somebody_who_asks_ends_a_sleep_that_has_not_begun() -> None:
    with Stop() as stop:
        stop.ask()
        stop.ask()
        assert stop.wait(3600)
