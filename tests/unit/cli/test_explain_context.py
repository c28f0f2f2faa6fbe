"""The lines around the evidence, found again in a log that goes by in chunks."""

from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.cause import Evidence
from lastbeat_cli.explain.reading import AFTER, BEFORE, BEFORE_IN_TRACEBACK, LINE_BYTES, around


def at(line: int, text: str = "") -> Evidence:
    return Evidence("train.log", line, text)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    chunks, start = [], 0
    for size in sizes:
        chunks.append(data[start : start + size])
        start += size
    return [*chunks, data[start:]]


@given(st.lists(st.text("ab \u00e9", max_size=6), max_size=30), st.integers(1, 35), st.lists(st.integers(0, 9)))
def test_they_are_what_an_editor_shows_however_the_log_is_cut(lines: list[str], line: int, sizes: list[int]) -> None:
    data = "".join(f"{text}\n" for text in lines).encode()
    expected = tuple(
        (number, text.rstrip()) for number, text in enumerate(lines, start=1) if line - BEFORE <= number <= line + AFTER
    )
    assert around(cut(data, sizes), at(line), str) == expected


def test_the_rest_of_the_log_is_not_read() -> None:
    chunks = iter([b"a\n" * 20, b"b\n"])
    shown = around(chunks, at(5), str)
    assert [number for number, _ in shown] == list(range(5 - BEFORE, 5 + AFTER + 1))
    assert next(chunks) == b"b\n"


def test_a_long_line_is_cut() -> None:
    ((_, text),) = around([b"x" * 3000] * 5, at(1), str)
    assert text == "x" * LINE_BYTES


def test_of_an_overwritten_line_the_evidence_itself_is_shown() -> None:
    data = b" 10%|#\r 20%|##CUDA out of memory\r 30%|###\nend\n"
    shown = around([data], at(1, " 20%|##CUDA out of memory"), str)
    assert shown == ((1, " 20%|##CUDA out of memory"), (2, "end"))


def test_what_a_terminal_would_interpret_is_gone_and_secrets_are_masked() -> None:
    data = b"\x1b[31mred\x1b[0m\x1b]0;title\x07 token\n"
    assert around([data], at(1), lambda text: text.replace("token", "***")) == ((1, "red ***"),)


def test_evidence_without_a_line_has_no_neighbours() -> None:
    assert around([b"a\nb\n"], at(0), str) == ()


def test_of_a_traceback_more_frames_are_shown() -> None:
    frames = [f'[rank3]:   File "train.py", line {number // 2}\n[rank3]:     work()\n' for number in range(20)]
    data = "".join([*frames, "[rank3]: ValueError: bad\n"]).encode()
    shown = around([data], at(41), str)
    assert [number for number, _ in shown] == list(range(41 - BEFORE_IN_TRACEBACK, 42))


def test_of_a_short_traceback_nothing_before_it_is_shown() -> None:
    data = (
        b"step 1\n" * 6
        + b"0: [rank3]: Traceback (most recent call last):\n0: [rank3]:   File\n0: [rank3]:     work()\n"
    )
    shown = around([data + b"0: [rank3]: ValueError: bad\nstep 2\n"], at(10), str)
    assert [number for number, _ in shown] == [7, 8, 9, 10, 11]
