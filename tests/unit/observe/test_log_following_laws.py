"""A log is read once and whole, whatever is done to its file."""

import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.training.sdk.log_shipping import LogWindow
from lastbeat.watch.observe.local_logs import local_log
from lastbeat.watch.observe.log_cursor import SEARCHABLE_BYTES
from lastbeat.watch.observe.log_following import follow
from lastbeat.watch.observe.tailed_log import TailedLog
from support.followed import ROOM, Followed, kept, lines, said
from support.log_recorder import GAP, recorders

_printed = st.lists(
    st.tuples(st.sampled_from(["", "ä", "x" * 100, " 12%|", " 13%|\r 14%|"]), st.sampled_from(["\n", "\n", "\r", ""])),
    max_size=6,
)


@given(st.lists(st.tuples(_printed, st.booleans()), max_size=15))
def test_what_the_sdk_ships_is_read_line_by_line(beats: list[tuple[list[tuple[str, str]], bool]]) -> None:
    log, window, everything, count = Followed(), LogWindow(4000), LogWindow(1 << 20), 0
    for printed, restarted in beats:
        for text, end in printed:
            count += 1
            for each in (window, everything):
                each.feed(f"{count} {text}{end}")
        log.put(window.content().decode())
        if restarted:
            log.restart()
        log.look()
    log.put(window.content(ending=True).decode())
    log.look()
    assert log.text == everything.content(ending=True).decode("latin-1")
    assert len(log.made) <= 1


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
                source = local_log(path)
                assert source is not None
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
