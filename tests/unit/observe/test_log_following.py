"""What a look reads of a log, and in how many requests: grown, moved along, shipped again, truncated, rotated."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.watch.observe.local_logs import local_log
from lastbeat.watch.observe.log_cursor import SEARCHABLE_BYTES
from lastbeat.watch.observe.log_following import follow
from lastbeat.watch.observe.log_source import StoredLog
from lastbeat.watch.observe.tailed_log import TailedLog
from support.followed import KEY, ROOM, Followed, document, kept, lines, said
from support.log_recorder import GAP, recorders
from support.memory import MemoryStore
from support.there import there


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


def test_of_a_rotated_file_more_than_may_be_read_is_skipped(tmp_path: Path) -> None:
    path, readers = tmp_path / "train.log", recorders()[0]
    file = TailedLog(str(path))

    def look() -> None:
        source = there(local_log(path))
        follow(file, source, 100_000, None, readers)

    path.write_text(lines(0, 10))
    look()
    path.write_text(lines(0, 10_000))
    path.rename(path.with_name("train.log.1"))
    path.write_text("new\n")
    look()
    before, _, after = said(file, readers).partition(GAP)
    assert before.startswith(lines(0, 1000))
    assert after == "new\n"


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


class _Shipping:
    """A program's log, and what of it lies in the store."""

    def __init__(self) -> None:
        self.log = Followed()
        self.written = ""
        self.seen = self.shipped = 0
        self.count = 0

    def write(self, length: int, ends: str) -> None:
        self.count += 1
        self.written += f"{self.count} " + "y" * length + ends

    def ship(self, how: str) -> None:
        text = self.written
        if how == "window":
            # Whole lines: what has not been seen, and something before it.
            keep = max(0, self.seen - 400)
            text = text[text.rfind("\n", 0, keep) + 1 :]
        self.log.put(text)
        self.shipped = len(self.written)

    def look(self, *, fails: bool) -> None:
        if fails:
            self.log.store.refuse("read", UnreachableError("no answer"))
        if self.log.store.held:
            try:
                self.log.look()
                self.seen = self.shipped
            except StoreError:
                assert fails
        self.log.store.heal()


_steps = st.one_of(
    st.tuples(
        st.just("write"), st.sampled_from([0, 3, 60, 500]), st.sampled_from(["\n", "\n", "\n", "\r", "", "\r\n"])
    ),
    st.tuples(st.just("ship"), st.sampled_from(["whole", "whole", "window"]), st.just("")),
    st.tuples(st.just("look"), st.sampled_from([False, False, True]), st.just("")),
    st.tuples(st.just("restart"), st.just(0), st.just("")),
)


@given(st.lists(_steps, min_size=3, max_size=40))
def test_however_a_log_is_shipped_it_is_read_once_and_whole(steps: list[tuple[str, object, str]]) -> None:
    shipping = _Shipping()
    for what, argument, ends in steps:
        if what == "write":
            shipping.write(int(str(argument)), ends)
        elif what == "ship":
            shipping.ship(str(argument))
        elif what == "restart":
            shipping.log.restart()
        else:
            shipping.look(fails=argument is True)
    shipping.ship("whole")
    shipping.look(fails=False)
    assert shipping.log.text == shipping.written
    assert len(shipping.log.made) <= 1


_wild = st.lists(
    st.tuples(st.sampled_from(["grow", "window", "anew", "cut"]), st.integers(1, 60), st.booleans()),
    min_size=1,
    max_size=25,
)


@given(_wild)
def test_whatever_is_done_to_a_file_no_line_is_read_twice_and_only_another_file_begins_anew(
    steps: list[tuple[str, int, bool]],
) -> None:
    log = Followed()
    text, count = "", 0
    for how, amount, restarted in steps:
        fresh = lines(count, amount)
        count += amount
        if how == "window":
            text = "".join((text + fresh).splitlines(keepends=True)[-50:])
        else:
            text = {"grow": text + fresh, "anew": fresh, "cut": (text + fresh)[: 70 * amount]}[how]
        log.put(text)
        if restarted:
            log.restart()
        known = len(log.made)
        log.look()
        # A window of fifty lines that moved on by more than fifty cannot be told from another file.
        assert len(log.made) == known or known == 0 or how in {"anew", "cut"} or amount > 45
        whole = [line for line in log.text.replace(GAP, "").splitlines() if line.endswith("logs")]
        assert len(whole) == len(set(whole))
        assert not whole or log.text.endswith(text[-30:])


@given(
    st.lists(
        st.tuples(st.sampled_from(["write", "write", "rename", "copy", "look", "restart"]), st.integers(1, 8)),
        max_size=30,
    )
)
def test_a_file_that_is_rotated_is_read_to_its_end(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, readers = Path(folder) / "train.log", recorders()[0]
        file, written, rotations = TailedLog(str(path)), "", 0
        path.touch()
        may_rotate = may_be_copied = False
        for tick, (what, amount) in enumerate([*steps, ("look", 1)]):
            if what == "write":
                text = lines(len(written), amount)
                written += text
                with path.open("a") as open_file:
                    open_file.write(text)
                os.utime(path, (tick, tick))
            elif what == "restart":
                file = kept(file)
            elif what == "look":
                source = there(local_log(path))
                if not file.is_read(source):
                    follow(file, source, ROOM, None, readers)
                # Between two looks no more than one rotation can be followed, and a copy only by its text.
                may_rotate, may_be_copied = True, path.stat().st_size >= SEARCHABLE_BYTES
            elif (what == "rename" and may_rotate) or (what == "copy" and may_be_copied):
                rotations += 1
                former = path.with_name(f"train.log.{rotations}")
                if what == "copy":
                    former.write_text(path.read_text())
                    os.utime(former, (tick, tick))
                else:
                    path.rename(former)
                path.write_text("")
                os.utime(path, (tick, tick))
                may_rotate = may_be_copied = False
        assert said(file, readers, ended=True) == written
