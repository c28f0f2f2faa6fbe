"""Calls that may hang: nobody waits beyond the deadline, and none is made twice at once."""

import logging
import threading
import time

import pytest

from lastbeat.fleet.deadlines import BoundedCalls


def test_one_that_hangs_is_left_alone_and_not_begun_again_before_it_has_ended() -> None:
    calls, held, begun = BoundedCalls(), threading.Event(), []

    def hang() -> str:
        begun.append(1)
        held.wait(60)
        return "done"

    assert calls.call("call", hang, time.monotonic() + 0.05) is None
    assert calls.call("call", hang, time.monotonic() + 0.05) is None
    assert len(begun) == 1
    assert calls.call("another", lambda: "meanwhile", time.monotonic() + 60) == "meanwhile"
    held.set()
    assert calls.call("call", hang, time.monotonic() + 60) == "done"
    assert len(begun) == 2


def test_a_fault_of_ours_is_logged_and_breaks_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> str:
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR):
        assert BoundedCalls().call("the ledger", broken, time.monotonic() + 60) is None
    assert "the ledger broke" in caplog.text
