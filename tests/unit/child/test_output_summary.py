"""What is kept of a program's output."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.training.exec.child.output_summary import TAIL_BYTES, TAIL_LINES, OutputSummary

TRACE = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 3, in <module>\n'
    "    raise ValueError('gone')\n"
    "ValueError: gone\n"
)


def _after(*chunks: bytes) -> OutputSummary:
    output = OutputSummary()
    for chunk in chunks:
        output.add(1, chunk)
    return output


TAILS = [
    pytest.param([b"o", b"ne\ntw", b"o"], "one\ntwo", id="lines in pieces, the last one unfinished"),
    pytest.param([b"one\r\n\r\ntwo\r\n"], "one\ntwo", id="lines of a terminal"),
    pytest.param(
        [b"\r 1%|", b"\r 2%|", b"\r 3%|\n", b"done\n"], " 3%|\ndone", id="a bar that is drawn again and again"
    ),
    pytest.param([b"\x1b[31mred\x1b[0m\x1b]0;title\x07\n"], "red", id="colours and titles"),
    pytest.param([b"caf\xc3", b"\xa9\n\xff\n"], "café\n\ufffd", id="a character in two pieces, and none at all"),
    pytest.param([b"a\n" * 100 + b"z"], "\n".join(["a"] * (TAIL_LINES - 1) + ["z"]), id="the last lines only"),
    pytest.param([b"x" * 100_000 + b"\nend\n"], "end", id="a line whose start was not looked at is left out"),
    pytest.param([b"token=hf_abcdefghijklmnopqrstuvwxyz\n"], "token=***", id="a secret"),
]


@pytest.mark.parametrize(("chunks", "tail"), TAILS)
def test_the_tail(chunks: Sequence[bytes], tail: str) -> None:
    assert _after(*chunks).tail == tail


@given(st.lists(st.tuples(st.integers(1, 2), st.binary(max_size=3000) | st.just(b"y" * 20_000)), max_size=20))
def test_whatever_comes_is_taken_and_little_is_kept(pieces: list[tuple[int, bytes]]) -> None:
    output = OutputSummary()
    for stream, chunk in pieces:
        output.add(stream, chunk)
    assert len(output.tail.encode()) <= TAIL_BYTES + 3
    assert output.tail.count("\n") < TAIL_LINES
    assert output.error is None or output.error


@given(st.binary(max_size=2000), st.lists(st.integers(0, 2000), max_size=6))
def test_it_does_not_matter_how_output_is_cut(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(places)]
    assert _after(*pieces).tail == _after(data).tail


ERRORS = [
    pytest.param(TRACE, "ValueError: gone", id="a traceback"),
    pytest.param(TRACE + "\nDuring …\n\n" + TRACE.replace("gone", "worse"), "ValueError: worse", id="a chain"),
    pytest.param(TRACE.replace("    raise ValueError('gone')\n", "    #\n^^~~\n"), "ValueError: gone",
                 id="of a script that was edited since it started"),
    pytest.param(TRACE.replace("ValueError: gone\n", "train.Broken\n"), "train.Broken", id="a name of its own"),
    pytest.param("".join(f"[rank3]: {line}\n" for line in TRACE.splitlines()), "ValueError: gone",
                 id="with its rank before it"),
    pytest.param(TRACE + "cleaning up\n" * 10, "ValueError: gone", id="with a few lines after it"),
    pytest.param(TRACE + "training on\n" * 50, None, id="one that training survived"),
    pytest.param("all is well\n", None, id="none"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "error"), ERRORS)
def test_the_exception_at_the_end(text: str, error: str | None) -> None:
    output = OutputSummary()
    for start in range(0, len(text), 1000):
        output.add(2, text[start : start + 1000].encode())
    assert output.error == error


def test_two_streams_do_not_mix_their_lines() -> None:
    output = OutputSummary()
    output.add(1, b"half a ")
    output.add(2, b"error\n")
    output.add(1, b"line\n")
    assert output.tail == "error\nhalf a line"


def test_a_burst_is_looked_at_where_it_ends() -> None:
    output = OutputSummary()
    assert output.add(1, b"noise\n" * 100_000 + b"step 5 loss 1.5\n")
    assert output.progress.step == 5
