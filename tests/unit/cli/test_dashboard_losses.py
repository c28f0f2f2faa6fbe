"""What failures cost, for browsers: read once for all of them, and never waited for without end."""

import json
import queue
import threading
from contextlib import suppress
from typing import Any

import pytest

from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.views.served.losses import GOOD_FOR_S, LossLooks
from support.waiting import LIMIT_S, until


def stopped() -> float:
    """A clock that stands still."""
    return 0.0


def told(looks: LossLooks) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(looks.document().plain)
    return found


def told_or_none(looks: LossLooks) -> dict[str, Any] | None:
    with suppress(StoreError):
        return told(looks)
    return None


def test_it_is_read_once_in_five_minutes_however_many_ask() -> None:
    reads, now = iter(range(100)), [0.0]
    looks = LossLooks(lambda: {"read": next(reads)}, steady=lambda: now[0])
    assert [told(looks)["read"] for _ in range(3)] == [0, 0, 0]
    now[0] = GOOD_FOR_S
    assert told(looks)["read"] == 1


def test_a_store_that_fails_is_asked_again_by_whoever_asks_next() -> None:
    broken = [True]

    def read() -> dict[str, object]:
        if broken:
            raise UnreachableError("503")
        return {"read": 1}

    looks = LossLooks(read, steady=stopped)
    with pytest.raises(UnreachableError, match="503"):
        looks.document()
    broken.clear()
    assert told(looks) == {"read": 1}


def test_a_defect_is_told_and_the_next_who_asks_starts_again(caplog: pytest.LogCaptureFixture) -> None:
    broken = [True]

    def read() -> dict[str, object]:
        if broken:
            raise KeyError("a detail")
        return {"read": 1}

    looks = LossLooks(read, steady=stopped)
    with pytest.raises(StoreError, match=r"could not be told: KeyError$"):
        looks.document()
    assert "a detail" in caplog.text
    broken.clear()
    assert told(looks) == {"read": 1}


def test_two_wait_at_most_and_whoever_comes_then_is_answered_at_once() -> None:
    go_on, answers = threading.Event(), queue.SimpleQueue[str]()

    def read() -> dict[str, object]:
        go_on.wait(60)
        return {"read": 1}

    looks = LossLooks(read, patience_s=60, steady=stopped)

    def ask() -> None:
        try:
            answers.put(looks.document().plain.decode())
        except StoreError as fault:
            answers.put(str(fault))

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    at_once = [answers.get(timeout=LIMIT_S) for _ in range(8)]
    assert all("still being read" in each for each in at_once)
    go_on.set()
    for thread in threads:
        thread.join(LIMIT_S)
    assert [json.loads(answers.get(timeout=LIMIT_S)) for _ in range(2)] == [{"read": 1}] * 2


def test_who_waits_for_a_store_that_hangs_is_told_so_and_has_the_answer_later() -> None:
    go_on, asked = threading.Event(), threading.Semaphore(0)

    def read() -> dict[str, object]:
        asked.release()
        go_on.wait(60)
        return {"read": 1}

    looks = LossLooks(read, patience_s=0.05, steady=stopped)
    for _ in range(2):
        with pytest.raises(StoreError, match="still being read"):
            looks.document()
    assert asked.acquire(timeout=LIMIT_S)
    assert not asked.acquire(blocking=False), "it is read once"
    go_on.set()
    assert until(lambda: told_or_none(looks)) == {"read": 1}
