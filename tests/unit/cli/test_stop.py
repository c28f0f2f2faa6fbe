"""A wish to stop is heard wherever the process is when it comes."""

import os
import signal
import threading

import pytest

from lastbeat_cli.loop import Stop


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
