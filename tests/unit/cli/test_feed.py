"""What a live screen shows is asked for again and again, whatever the answer."""

import threading
from collections.abc import Iterator

from lastbeat.stores.port import UnreachableError
from lastbeat_cli.terminal.live import Feed

LIMIT_S = 30.0


class Answers:
    """One after the other, the last for ever; waits until each was seen."""

    def __init__(self, *answers: object) -> None:
        self._left: Iterator[object] = iter(answers)
        self._last: object = None
        self.told = threading.Semaphore(0)
        self.seen = threading.Semaphore(0)

    def look(self) -> object:
        self._last = next(self._left, self._last)
        if isinstance(self._last, Exception):
            raise self._last
        return self._last

    def changed(self) -> None:
        self.told.release()
        self.seen.acquire(timeout=LIMIT_S)


def test_what_was_seen_stands_while_the_store_fails_and_the_fault_goes_when_it_is_back() -> None:
    answers = Answers("one", UnreachableError("no answer"), UnreachableError("still none"), "two")
    feed: Feed[object] = Feed(answers.look, 0.001, answers.changed)
    feed.start()
    told = []
    for _ in range(4):
        assert answers.told.acquire(timeout=LIMIT_S)
        told.append((feed.value, str(feed.fault) if feed.fault is not None else None, feed.fault_since))
        answers.seen.release()
    assert [each[:2] for each in told] == [("one", None), ("one", "no answer"), ("one", "still none"), ("two", None)]
    assert told[1][2] == told[2][2], "it is counted from when it began"
    answers.seen.release()
    assert feed.stop(LIMIT_S)


def test_a_defect_ends_it_and_is_kept_for_who_shows_it() -> None:
    answers = Answers(RuntimeError("a defect"))
    feed: Feed[object] = Feed(answers.look, 0.001, answers.changed)
    feed.start()
    assert answers.told.acquire(timeout=LIMIT_S)
    assert isinstance(feed.broken, RuntimeError)
    answers.seen.release()
    assert feed.stop(LIMIT_S)


def test_a_look_that_hangs_is_waited_for_by_nobody() -> None:
    hangs = threading.Event()
    feed: Feed[object] = Feed(lambda: hangs.wait(LIMIT_S), 1.0, lambda: None)
    feed.start()
    assert not feed.stop(0.01)
    hangs.set()
    assert feed.stop(LIMIT_S)
