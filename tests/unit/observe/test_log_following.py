"""What a look reads of a log, and in how many requests: grown, moved along, shipped again, truncated."""

import pytest

from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.watch.observe.log_following import FIRST_BYTES, LONG_LINE_BYTES, follow
from lastbeat.watch.observe.log_source import StoredLog
from support.followed import KEY, ROOM, Followed, document, lines, said
from support.log_recorder import GAP
from support.memory import MemoryStore


def test_a_log_that_has_not_changed_costs_nothing() -> None:
    log = Followed()
    log.put(lines(0, 10))
    assert log.look() == 1
    assert [log.look() for _ in range(3)] == [0, 0, 0]
    log.restart()
    assert log.look() == 0
    assert log.text == lines(0, 10)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_log_that_grew_costs_one_read_of_little_more_than_what_is_new(restarted: bool) -> None:
    log = Followed()
    for count in (100, 101, 500, 2000):
        log.put(lines(0, count))
        if restarted:
            log.restart()
        assert log.look() == 1
        assert log.text == lines(0, count)
    assert len(log.made) == 1


def test_what_is_read_of_a_log_that_grew_is_little() -> None:
    class Measured(MemoryStore):
        most = 0

        def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0):  # type: ignore[no-untyped-def]
            blob = super().read(key, limit_bytes, from_end=from_end, start=start)
            self.most = max(self.most, len(blob.body)) if blob else 0
            return blob

    log = Followed()
    log.store = store = Measured()
    log.put(lines(0, 3000))
    log.look()
    store.most = 0
    log.put(lines(0, 3001))
    log.look()
    assert store.most < 5000


def test_the_window_that_the_sdk_ships_costs_one_read_once_it_moves() -> None:
    log = Followed()
    costs = []
    for count in range(1000, 3000, 200):
        log.put(lines(count - 1000, 1000))
        costs.append(log.look())
    assert costs == [1, 2, *[1] * 8]
    assert log.text == lines(0, 2800)


def test_a_window_that_moved_on_too_far_has_a_gap_and_keeps_what_it_said() -> None:
    log = Followed()
    log.put(lines(0, 3000))
    log.look()
    log.put(lines(5000, 3000))
    log.look()
    assert log.text == lines(0, 3000) + GAP + "\n" + lines(5000, 3000)
    assert log.file.late
    assert "went by unread" in log.file.notes[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(lines(0, 100), lines(500, 3), id="truncated, and begun anew"),
        pytest.param(lines(0, 100), lines(500, 300), id="begun anew, and longer by now"),
        pytest.param(lines(0, 100), "", id="truncated"),
        pytest.param("\n", "Traceback\n", id="nothing but an empty line before"),
        pytest.param("short\n", "other\nshort\nmore\n", id="too short to be known again"),
    ],
)
def test_a_file_that_is_another_one_now_is_read_from_its_start(before: str, after: str) -> None:
    log = Followed()
    log.put(before)
    log.look()
    log.put(after)
    assert log.look() <= 2
    log.put(after + "on\n")
    log.look()
    assert log.text == after + "on\n"
    assert not log.file.late


def test_the_first_look_reads_the_end_of_a_long_log_and_knows_that_it_came_late() -> None:
    log = Followed()
    log.put(lines(0, 20_000))
    assert log.look() == 1
    assert log.text.startswith(GAP)
    assert len(log.text) < FIRST_BYTES + 100
    assert log.text.endswith(lines(19_990, 10))
    assert log.file.late


def test_more_than_may_be_read_is_skipped_but_for_its_end() -> None:
    log = Followed(room=100_000)
    log.put(lines(0, 10))
    log.look()
    log.put(lines(0, 10_000))
    assert log.look() == 2
    assert log.text.startswith(lines(0, 10) + GAP)
    assert log.text.endswith(lines(9990, 10))
    assert "bytes were skipped" in log.file.notes[0]
    log.put(lines(0, 10_001))
    assert log.look() == 1
    assert log.text.endswith(lines(9990, 11))


def test_a_line_counts_when_it_has_ended_or_stands_still() -> None:
    log = Followed()
    log.put("step 1\nste")
    log.look()
    assert said(log.file, log.readers) == "step 1\n"
    log.look()
    assert said(log.file, log.readers) == "step 1\nste"
    log.put("step 1\nstep 2\n")
    log.look()
    assert log.text == "step 1\nstep 2\n"


def test_a_line_without_end_is_read_on_and_bounded() -> None:
    log = Followed()
    for size in (LONG_LINE_BYTES - 1, LONG_LINE_BYTES, 5 * LONG_LINE_BYTES):
        log.put("x" * size)
        log.look()
    assert log.text == "x" * 5 * LONG_LINE_BYTES


def test_what_goes_away_or_cannot_be_read_changes_nothing() -> None:
    log = Followed()
    log.put(lines(0, 10))
    log.look()
    before = document(log.file)
    log.put(lines(0, 20))
    log.store.refuse("read", UnreachableError("no answer"))
    with pytest.raises(StoreError):
        log.look()
    log.store.heal()
    (entry,) = log.store.list("run-1/").entries
    log.store.delete(KEY)
    with pytest.raises(StoreError, match="went away"):
        follow(log.file, StoredLog(log.store, log.file.name, entry), ROOM, None, log.readers)
    assert document(log.file) == before
    log.put(lines(0, 20))
    log.look()
    assert log.text == lines(0, 20)


def test_the_lines_of_a_window_are_numbered_as_it_shows_them_now() -> None:
    log = Followed()
    for count in (1000, 1200, 1900):
        log.put(lines(count - 1000, 1000))
        log.look()
        assert log.file.shift is not None
        assert log.file.next_line - log.file.shift == 1001
    log.restart()
    log.put(lines(5000, 1000))
    log.look()
    assert log.file.shift is not None
    assert log.file.next_line - log.file.shift == 1001
