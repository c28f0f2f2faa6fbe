"""Bytes to lines."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.scanning.splitting import LINE_LIMIT, Line, Splitter
from lastbeat.model.codec import codec

# What means something to terminals and to this, and what does not.
PIECES = st.sampled_from(
    [
        b"\n",
        b"\r",
        b"\r\n",
        b"\x00",
        b"\x1b[31m",
        b"\x1b[0m",
        b"\x1b",
        b"[0m",
        b"\x1b]0;title\x07",
        b"\xe2\x96\x88",
        b"\xe2",
        b" 5%| 1/20 [00:01<00:10, 1.1it/s]",
        b"it/s, loss=1.0]",
        b"Killed",
        b"[rank3]:",
        b" ",
        b"x",
        b"\xff\xfe",
        b"%",
        b"y" * (LINE_LIMIT - 3),
        b"word " * 4000,
    ]
)
BYTES = st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=12).map(b"".join))


def lines(*chunks: bytes, store: bool = False) -> list[Line]:
    splitter = Splitter()
    found: list[Line] = []
    for chunk in chunks:
        batch = splitter.feed(chunk)
        found += [batch.line(index) for index in range(len(batch))]
        if store:
            splitter = codec(Splitter).read(json.loads(json.dumps(codec(Splitter).document(splitter))))
    batch = splitter.finish()
    return found + [batch.line(index) for index in range(len(batch))]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"a\nb\n", [(1, "a"), (2, "b")], id="lines are counted from one"),
        pytest.param(b"a\n\nb", [(1, "a"), (2, ""), (3, "b")],
                     id="an empty line is a line, and so is the last half one"),
        pytest.param(b"a\r\nb\r\n", [(1, "a"), (2, "b")], id="a newline may have a carriage return before it"),
        pytest.param(b"1%\r2%\r3%\nb\n", [(1, "1%"), (1, "2%"), (1, "3%"), (2, "b")], id="states share a number"),
        pytest.param(b"\r\r1%\r\r\n\r\nb", [(1, "1%"), (2, ""), (3, "b")], id="an empty state is nothing"),
        pytest.param(b"\r 9%| 9/99 [00:01<00:09, 11.24it/s]slurmstepd-gpu-n1: error: *** JOB\n",
                     [(1, " 9%| 9/99 [00:01<00:09, 11.24it/s]"), (1, "slurmstepd-gpu-n1: error: *** JOB")],
                     id="what another process printed right behind a progress bar stands by itself"),
        pytest.param(b" 9%| 9/99 [00:09<01:30,  1.01s/it, loss=0.5]Killed\n",
                     [(1, " 9%| 9/99 [00:09<01:30,  1.01s/it, loss=0.5]"), (1, "Killed")],
                     id="a slow bar with a postfix, too"),
        pytest.param(b"\x1b[1;31mCUDA\x1b[0m out of memory\n", [(1, "CUDA out of memory")], id="colours are taken off"),
        pytest.param(b"\x1b]0;a title\x07a\x1b(Bb\x1b[Kc\n", [(1, "abc")],
                     id="titles, character sets and clearing, too"),
        pytest.param(b"\0\0\0\0a\0b\n", [(1, "ab")], id="the hole of a truncated file is nothing"),
        pytest.param("é\u2588\n".encode(), [(1, "é\u2588")], id="UTF-8"),
        pytest.param(b"a\xffb\n", [(1, "a\ufffdb")], id="what is not UTF-8 is replaced"),
        pytest.param("a\u2028b\x0bc\x85d\n".encode(), [(1, "a\u2028b\x0bc\x85d")], id="no other character ends a line"),
    ],
)  # fmt: skip
def test_lines(data: bytes, expected: list[tuple[int, str]]) -> None:
    assert [(line.number, line.raw) for line in lines(data)] == expected


@given(data=BYTES, cuts=st.lists(st.integers(0, 1 << 15)), store=st.booleans())
def test_however_the_bytes_are_cut_the_lines_are_the_same(data: bytes, cuts: list[int], store: bool) -> None:
    ends = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    assert lines(*(data[begin:end] for begin, end in pairwise(ends)), store=store) == lines(data)


@given(data=BYTES)
def test_numbers_are_those_that_grep_shows(data: bytes) -> None:
    numbers = [line.number for line in lines(data)]
    assert numbers == sorted(numbers)
    whole = data.replace(b"\0", b"")
    complete = whole.count(b"\n")
    assert set(range(1, complete + 1)) <= set(numbers) <= set(range(1, complete + 2))


def test_of_a_line_of_ten_megabytes_the_beginning_is_kept() -> None:
    splitter = Splitter()
    found = []
    for _ in range(160):
        batch = splitter.feed(b"word " * 13107)
        found += [batch.line(index) for index in range(len(batch))]
        assert len(json.dumps(codec(Splitter).document(splitter))) < 24 * 1024
    batch = splitter.feed(b"the end\nnext\n")
    found += [batch.line(index) for index in range(len(batch))]
    assert [line.number for line in found] == [1, 2]
    assert found[0].raw.startswith("word word")
    assert LINE_LIMIT - 10 < len(found[0].raw) <= LINE_LIMIT
    assert found[1].raw == "next"


def test_a_bar_without_any_newline_keeps_no_more_than_its_last_state() -> None:
    splitter = Splitter()
    states = 0
    for step in range(2000):
        states += len(splitter.feed(f"\rstep {step}".encode() + b" " * 1000))
        assert len(json.dumps(codec(Splitter).document(splitter))) < 4096
    batch = splitter.finish()
    assert states == 1999
    assert batch.line(0).raw.startswith("step 1999")
    assert batch.line(0).number == 1


def test_after_a_gap_reading_goes_on_with_the_next_line() -> None:
    splitter = Splitter()
    splitter.feed(b"one\nhalf of tw")
    splitter.skip()
    assert len(splitter.feed(b"the end of another, err")) == 0
    batch = splitter.feed(b"or\nwhole\n")
    assert [(batch.line(index).number, batch.line(index).raw) for index in range(len(batch))] == [(3, "whole")]
