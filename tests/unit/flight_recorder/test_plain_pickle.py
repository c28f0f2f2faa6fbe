"""A pickle of plain values is read as Python reads it; anything else is refused, and costs little."""

import os
import pickle
import struct
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.flight_recorder.plain_pickle import PlainPickle, RefusedDumpError
from support.row_by_row import check_each

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(inner, max_size=4).map(tuple)
    ),
    max_leaves=20,
)  # fmt: skip


def load(data: bytes, expired: Callable[[], bool] = lambda: False) -> Any:
    return PlainPickle(BytesIO(data).read, lambda _: False, expired).load()


@given(PLAIN, st.sampled_from([2, 3, 4, 5]))
def test_plain_values_are_read_as_python_reads_them(value: Any, protocol: int) -> None:
    assert load(pickle.dumps(value, protocol)) == value


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for start in (b"", b"\x80\x02", b"\x80\x04"):
        read_or_refused(start + data)


def read_or_refused(data: bytes) -> None:
    with suppress(RefusedDumpError):
        load(data)


@given(PLAIN, st.data())
def test_a_pickle_that_is_cut_off_or_changed_is_read_or_refused(value: Any, data: st.DataObject) -> None:
    whole = bytearray(pickle.dumps(value, 2))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    read_or_refused(bytes(whole))
    read_or_refused(bytes(whole[:at]))


class Runs:
    """Runs a command as it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self._mark}",)


class ById(pickle.Pickler):
    def persistent_id(self, obj: Any) -> Any:
        return "secret" if obj == "this" else None


def by_id() -> bytes:
    file = BytesIO()
    ById(file, 2).dump(["this"])
    return file.getvalue()


def text(count: int) -> bytes:
    return b"\x80\x02X" + struct.pack("<I", count)


def of_five_gigabytes(opcode: bytes) -> bytes:
    return b"\x80\x04" + opcode + struct.pack("<Q", 5 << 30) + b"few"


def laughs() -> bytes:
    """Lists of lists: each names the one before it ten times, so all together have 10**100 items."""
    value: list[Any] = []
    for _ in range(100):
        value = [value] * 10
    return pickle.dumps({"entries": value}, 2)


def key_of_tuples() -> bytes:
    """A key that takes 2**60 steps to hash."""
    levels = b"".join(b"h%ch%c\x86q%c" % (level, level, level + 1) for level in range(60))
    return b"\x80\x02})q\x00" + levels + b"Ns."


REFUSED = {
    "a text of 4 GB that is not there": (text(0xFFFFFFFF), "a text of 4,294,967,295 bytes"),
    "a text of 5 GB that is not there": (of_five_gigabytes(pickle.BINUNICODE8), "a text of 5,368,709,120 bytes"),
    "bytes of 5 GB that are not there": (of_five_gigabytes(pickle.BINBYTES8), "a text of 5,368,709,120 bytes"),
    "a text of 900 KB that is not there": (text(900_000), "cut off"),
    "a persistent id": (by_id(), "opcode"),
    "a global": (b"\x80\x02cposix\nsystem\n.", "opcode b'c'"),
    "a global from the stack": (b"\x80\x04\x8c\x05posix\x8c\x06system\x93.", "opcode"),
    "an extension": (b"\x80\x02\x82\x01.", "opcode"),
    "an object to build": (b"\x80\x02}}b.", "opcode b'b'"),
    "an old class": (b"(i__main__\nX\n.", "opcode b'i'"),
    "a buffer from outside": (b"\x80\x05\x97.", "opcode"),
    "text of protocol 0": (pickle.dumps(["a"], 0), "opcode"),
    "a key that takes ages to hash": (key_of_tuples(), "a key that is neither text nor a number"),
    "numbers as keys that collide": (
        pickle.dumps({key * (2**61 - 1): None for key in range(1000)}, 2),
        "a key that is neither text nor a number",
    ),
    "a number of 200 bytes": (b"\x80\x02\x8a\xc8" + b"\xff" * 200 + b".", "a number of 200 bytes"),
    "a long number of 5 GB": (b"\x80\x02\x8b\xff\xff\xff\x7f", "opcode"),
    "a reference beyond all that is known": (b"\x80\x02]r\xff\xff\xff\x7f.", "a reference that no pickler makes"),
    "a reference to nothing": (b"\x80\x02h\x05N.", "damaged"),
    "more lists in each other than a dump has": (b"\x80\x02" + b"(" * 100_000 + b".", "more than 100 levels"),
    "a pickle without an end": (pickle.dumps(["a"], 2)[:-1], "cut off"),
    "nothing": (b"", "cut off"),
    "a list where a dictionary belongs": (b"\x80\x02](X\x01\x00\x00\x00aNu.", "damaged"),
    "an end before anything": (b"\x80\x02.", "cut off|damaged"),
}


def test_what_no_dump_has_is_refused() -> None:
    check_each(REFUSED.items(), is_refused)


def is_refused(data: bytes, why: str) -> None:
    with pytest.raises(RefusedDumpError, match=why):
        load(data)


def test_a_pickle_that_runs_a_command_runs_none(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for protocol in (2, 3, 4, 5):
        with pytest.raises(RefusedDumpError, match="opcode"):
            load(pickle.dumps({"entries": [Runs(mark)]}, protocol))
    assert not mark.exists()
    pickle.loads(pickle.dumps(Runs(mark)))
    assert mark.exists(), "the same bytes do run it elsewhere"


def test_lists_that_share_others_take_no_more_room_than_their_bytes() -> None:
    assert set(load(laughs())) == {"entries"}


HUNGRY = {
    "empty lists": b"]",
    "empty lists to refer to": b"]\x94",
    "empty dictionaries": b"}",
    "tuples of tuples": b")\x85",
}


def test_values_that_take_more_room_than_their_bytes_are_counted() -> None:
    check_each(((name, (unit,)) for name, unit in HUNGRY.items()), is_counted)


def is_counted(unit: bytes) -> None:
    with pytest.raises(RefusedDumpError, match="more than 300,000 items in an entry"):
        load(b"\x80\x04" + unit * 300_010)


def test_reading_ends_when_the_time_is_up() -> None:
    asked: list[None] = []

    def expired() -> bool:
        asked.append(None)
        return len(asked) > 3

    with pytest.raises(RefusedDumpError, match="there was no time to read beyond byte"):
        load(pickle.dumps(["x" * 100_000 + str(each) for each in range(50)], 2), expired)
