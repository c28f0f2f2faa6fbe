# ruff: noqa: E501 - lines of logs are as long as they are
"""A log that grows: what is read of it does not depend on how it arrives."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.causes.explaining import explain
from lastbeat.explain.causes.log_parser import LogParser, ParserState, Vocabulary
from lastbeat.explain.causes.log_reader import LogReader
from lastbeat.explain.causes.log_summary import LogSummary
from lastbeat.explain.scanning.splitting import line_of
from lastbeat.explain.signals.loading import load
from support.printed import traceback

CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "files"
CATALOGUE = load("default")
STEPS = "".join(f"step {n}/90000 loss {3 - n / 90000:.3f} lr 3.0e-04\n" for n in range(10, 9000, 10)).encode()
PIECES = (
    b"step 9010/90000 loss 2.1\n",
    b"step 9020/90000 loss nan\n",
    b'[rank3]: Traceback (most recent call last):\n[rank3]:   File "t.py", line 3, in <module>\n',
    b"[rank3]:     x()\n[rank3]: KeyError: 'x'\n",
    b"Traceback (most recent call last):\n  File \"t.py\", line 3, in f\nRuntimeError: \nUnknown type name 'dict':\n",
    b"\nThe above exception was the direct cause of the following exception:\n\n",
    b'Timeout (0:00:12)!\nThread 0x00007f (most recent call first):\n  File "t.py", line 3 in f\n',
    b" 10%|#  | 10/100 [00:01<00:09]\r 20%|## | 20/100 [00:02<00:08]\r",
    b"slurmstepd: error: *** JOB 6 ON n1 CANCELLED AT 2026-03-01T04:15:48 ***\n",
    b"Retrying (attempt 1/3)\n",
    b"\xff\xfe\x00\x1b[31mred\x1b[0m\n",
    b"x" * 5000 + b"\n",
    STEPS,
)
ENVELOPE = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "/srv/train.py", line 40, in <module>
[rank3]:     main()
[rank3]:   File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2714, in broadcast
[rank3]:     work = group.broadcast([tensor], opts)
[rank3]: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.26.2
[rank3]: ncclUnhandledCudaError: Call to CUDA function failed.
[rank3]: Last error:
[rank3]: Cuda failure 2 'out of memory'
"""


def told(reader: LogReader) -> str:
    summary = reader.summary()
    # As text, because a loss that is no number does not equal itself.
    return repr((summary, explain([summary], CATALOGUE)))


def read(data: bytes, cuts: list[int], *, through_json: bool) -> LogReader:
    reader = LogReader(CATALOGUE, "log")
    begin = 0
    for end in [*sorted(cut for cut in cuts if cut < len(data)), len(data)]:
        reader.feed(data[begin:end])
        reader.summary()
        if through_json:
            reader = LogReader.restore(CATALOGUE, json.loads(json.dumps(reader.document())))
        begin = end
    reader.finish()
    return reader


@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=8),
    cuts=st.lists(st.integers(0, 30_000), max_size=6),
    through_json=st.booleans(),
)
def test_it_says_the_same_however_it_is_cut_and_whoever_goes_on(
    pieces: list[bytes], cuts: list[int], through_json: bool
) -> None:
    data = b"".join(pieces)
    assert told(read(data, cuts, through_json=through_json)) == told(read(data, [], through_json=False))


@pytest.mark.parametrize("name", ["oom-r01", "exc-l11", "dlk-l03", "hea-l05"])
def test_real_logs_say_the_same_byte_by_byte(name: str) -> None:
    data = (CORPUS / f"{name}.log").read_bytes()[:12_000]
    assert told(read(data, list(range(0, len(data), 7)), through_json=False)) == told(
        read(data, [], through_json=False)
    )


@given(st.binary(max_size=3000))
def test_any_bytes_can_be_read(data: bytes) -> None:
    reader = LogReader(CATALOGUE, "log")
    reader.feed(data)
    reader.finish()
    explain([reader.summary()], CATALOGUE)


def test_what_is_remembered_stays_small_whatever_is_printed() -> None:
    reader = LogReader(CATALOGUE, "log")
    names = (
        "KeyError",
        "OSError: [Errno 28] No space left on device",
        "slurmstepd: error: *** JOB 6 ON n1 CANCELLED AT x ***",
    )
    for number in range(500):
        rank = number % 250
        reader.feed(
            f'[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "{"d" * 300}.py", line 3, in <module>\n'
            f"[rank{rank}]: {names[number % 3]} {'y' * 900}\n".encode()
        )
    for number in range(300):
        reader.feed(f"[rank{number}]: Traceback (most recent call last):\n".encode())
    assert len(json.dumps(reader.document())) < 64 * 1024
    assert len(reader.summary().mentions) < 50


def test_a_long_log_of_steps_tells_the_last_one() -> None:
    reader = LogReader(CATALOGUE, "log")
    reader.feed(STEPS * 3)
    summary = reader.summary()
    assert summary.progress.step == 8990
    assert summary.progress.total_steps == 90000
    assert summary.lines == 3 * STEPS.count(b"\n")
    assert summary.mentions == []


def test_an_envelope_and_its_detail_may_be_read_in_two_looks() -> None:
    """What is open is kept between processes."""
    text = ENVELOPE.encode()
    read_in_two = [read(text, [cut], through_json=True).summary() for cut in range(60, len(text), 97)]
    causes = [explain([summary], CATALOGUE).cause for summary in read_in_two]
    assert [cause.error_type for cause in causes if cause is not None] == ["oom"] * len(read_in_two)


def test_text_that_was_left_out_closes_what_was_open() -> None:
    reader = LogReader(CATALOGUE, "log")
    reader.feed(b'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    x(')
    reader.skipped(10_000)
    reader.feed(b"rest of a line\nValueError is what one gets for that\nstep 3 loss 2.1\n")
    summary = reader.summary()
    assert summary.mentions == []
    assert summary.skipped_bytes == 10_000


@pytest.mark.parametrize(
    "begins",
    ["", traceback("KeyError: 'x'"), "Training finished.\n"],
    ids=["a healthy log", "a crash that nobody ended", "a success"],
)
def test_of_much_text_only_the_lines_that_matter_are_parsed(begins: str) -> None:
    parser = LogParser(Vocabulary.of(CATALOGUE), ParserState(LogSummary("train.log")))
    lines = [*begins.splitlines(), *(f"waiting for the other ranks, {n} s" for n in range(900))]
    parsed = 0
    for order, text in enumerate(lines, start=1):
        if parser.is_attentive(order):
            parser.line(order, line_of(order, text), None)
            parsed += 1
    assert parsed < 500
