"""The scalars in TensorBoard's event files, read while these grow. Whatever their bytes are, nothing here raises.

A file is a sequence of TFRecords, little-endian: the length of the data in 8 bytes, its masked CRC-32C in 4, the data,
and their CRC in 4 (TensorFlow's guide "TFRecord and tf.train.Example"). The data are a protobuf message ``Event``
(tensorflow/core/util/event.proto): wall time is field 1, step 2, summary 5. A ``Summary``
(tensorflow/core/framework/summary.proto) repeats values as field 1, each with its tag as field 1, and its number as
field 2 or as a tensor in field 8 (tensor.proto beside it: type is field 1, content 4, floats 5, doubles 6).

The CRCs are not checked: that costs more than reading the data, and a damaged scalar is one wrong point. A length that
no event has is damage, or a hole where a file system is still writing.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

RECORD_LIMIT_BYTES: Final = 128 << 10
"""Larger records hold images or graphs; their data are left out."""
_LENGTHS: Final = range(1, 1 << 40)
"""Bytes that a record's data may have; another length is damage."""
_TAG_CHARS: Final = 100
_HEAD: Final = struct.Struct("<QI")
_VARINT_BYTES: Final = 10
"""Most bytes of a protobuf varint."""


class Scalar(NamedTuple):
    """One number that training has logged."""

    wall: float
    """Unix time in s, by the clock of the process that logged it."""
    step: int
    tag: str
    value: float


def records(chunk: bytes) -> Iterator[tuple[int, bytes]]:
    """The place behind each whole record, and its data, until one is cut off or damaged.

    The place behind a record above the limit may be behind the chunk, and behind all that is written by now.
    """
    at = 0
    while at + _HEAD.size <= len(chunk):
        size, _ = _HEAD.unpack_from(chunk, at)
        start, end = at + _HEAD.size, at + _HEAD.size + size + 4
        if size not in _LENGTHS or (size <= RECORD_LIMIT_BYTES and end > len(chunk)):
            return
        yield end, chunk[start : end - 4] if size <= RECORD_LIMIT_BYTES else b""
        at = end


def scalars(event: bytes) -> Iterator[Scalar]:
    """The scalars in the data of a record, in their order. A malformed message ends early."""
    fields = dict(_fields(event))
    wall, step, summary = _number(fields.get(1)), fields.get(2, 0), fields.get(5)
    if wall is None or not isinstance(step, int) or step >> 63 or not isinstance(summary, bytes):
        return
    for number, value in _fields(summary):
        about = dict(_fields(value)) if number == 1 and isinstance(value, bytes) else {}
        tag, found = about.get(1), _number(about[2]) if 2 in about else _tensor(about.get(8))
        if isinstance(tag, bytes) and found is not None:
            yield Scalar(wall, step, tag[: 4 * _TAG_CHARS].decode("utf-8", "replace")[:_TAG_CHARS], found)


def _tensor(message: int | bytes | None) -> float | None:
    """The number in a ``TensorProto`` of one float (type 1) or double (2), as TensorFlow 2 writes scalars."""
    fields = dict(_fields(message)) if isinstance(message, bytes) else {}
    kind, raw = fields.get(1), fields.get(4) or fields.get(5) or fields.get(6)
    fits = isinstance(kind, int) and isinstance(raw, bytes) and len(raw) == 4 * kind
    return _number(raw) if fits else None


def _number(raw: int | bytes | None) -> float | None:
    """The float or double in ``raw``; None if it is neither."""
    if not isinstance(raw, bytes) or len(raw) not in {4, 8}:
        return None
    # As many digits as a float has: 0.1 and not 0.10000000149.
    return float(f"{struct.unpack('<f', raw)[0]:.7g}") if len(raw) == 4 else float(struct.unpack("<d", raw)[0])


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a protobuf message, until it is malformed."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind, start, number = key & 7, at, 0
        if kind == 0:
            number, at = _varint(message, at)
        elif kind == 2:
            size, start = _varint(message, at)
            at = start + size
        else:
            at += {1: 8, 5: 4}.get(kind, len(message) + 1)
        if at > len(message):
            return
        yield key >> 3, number if kind == 0 else message[start:at]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it, which is behind all data if the number has no end."""
    value = 0
    for index, byte in enumerate(message[at : at + _VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    return 0, len(message) + 1
