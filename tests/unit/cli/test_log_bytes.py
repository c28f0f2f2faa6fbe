"""The bytes of a log: packed, cut off, hostile, or none at all."""

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat_cli.explain.log_bytes import CHUNK_BYTES, UnreadableLogError, text_chunks

TEXT = b"".join(b"step %d loss 2.5\n" % step for step in range(20_000))


def read(data: bytes) -> tuple[bytes, list[str]]:
    notes: list[str] = []
    found = b"".join(text_chunks("train.log", io.BytesIO(data).read, notes.append))
    return found, notes


PACKED = gzip.compress(TEXT)
WHOLE = [
    pytest.param(TEXT, id="plain"),
    pytest.param(PACKED, id="gzip"),
    pytest.param(gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:]), id="members, as appending makes them"),
    pytest.param(PACKED + b"\0" * 512, id="padded with zeros"),
]


@pytest.mark.parametrize("data", WHOLE)
def test_a_log_is_read_whole(data: bytes) -> None:
    assert read(data) == (TEXT, [])


def test_a_gzip_file_that_is_still_written_is_read_as_far_as_it_goes() -> None:
    found, notes = read(PACKED[: len(PACKED) // 2])
    assert 0 < len(found) < len(TEXT)
    assert TEXT.startswith(found)
    assert len(notes) == 1
    assert "ends early" in notes[0]


def test_damage_in_the_middle_costs_what_lies_behind_it() -> None:
    first = gzip.compress(TEXT)
    damaged = first + gzip.compress(TEXT)[:20] + b"\xff" * 50
    found, notes = read(damaged)
    assert found.startswith(TEXT)
    assert ["damaged" in note for note in notes] == [True]


def test_a_bomb_is_given_up_on() -> None:
    notes: list[str] = []
    bomb = gzip.compress(b"\n" * 40_000_000, 9)
    size = 0
    for chunk in text_chunks("bomb.gz", io.BytesIO(bomb).read, notes.append, free=CHUNK_BYTES):
        assert len(chunk) <= CHUNK_BYTES
        size += len(chunk)
    assert size <= len(bomb) * 300 + CHUNK_BYTES
    assert "300 times its size" in notes[0]


REFUSED = [
    pytest.param(gzip.compress(b"\x80\x02}" + bytes(range(256)) * 99), "is no text", "", id="a packed checkpoint"),
    pytest.param(b"\x28\xb5\x2f\xfd....", "packed (zstd)", "zstdcat train.log | lastbeat explain -", id="zstd"),
    pytest.param("step 1\n".encode("utf-16"), "UTF-16", "iconv", id="a Windows console's log"),
    pytest.param(b"\x1f\x8b not gzip at all", "damaged gzip", "", id="only the first two bytes are gzip's"),
]


@pytest.mark.parametrize(("data", "what", "advice"), REFUSED)
def test_what_is_no_log_is_refused_with_what_to_do(data: bytes, what: str, advice: str) -> None:
    with pytest.raises(UnreadableLogError) as refused:
        read(data)
    assert what in str(refused.value)
    assert advice in refused.value.advice


READABLE = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"\0" * 70_000 + b"step 1\n", id="a log that was truncated under its writer"),
    pytest.param("损失 2.5 步骤 1\n".encode() * 50, id="another script"),
    pytest.param(b"\x1b[31mred\x1b[0m 10%|##|\r 20%|##|\r\x07\n", id="a terminal's sequences"),
    pytest.param("Speicherfehler: zu groß, läuft über\n".encode("latin-1"), id="an old encoding"),
]


@pytest.mark.parametrize("data", READABLE)
def test_odd_text_is_text(data: bytes) -> None:
    assert read(data) == (data, [])


@given(st.binary(max_size=3000))
def test_any_packed_bytes_end_in_an_answer(data: bytes) -> None:
    packed = gzip.compress(data)
    for damaged in (packed, packed[:-3], packed[: len(packed) // 2], packed + data, b"\x1f\x8b" + data):
        try:
            found, _ = read(damaged)
        except UnreadableLogError:
            continue
        assert isinstance(found, bytes)
