"""Makes a screenshot small: 256 of its colours, and every other one as the nearest of those.

A page is text on few grounds: what goes are shades at the edges of letters and half of the bytes. With the standard
library alone, for it is needed here and nowhere else.
"""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {2: 3, 6: 4}
"""Colour type → bytes a pixel, of those that browsers write."""


def shrink(picture: bytes) -> bytes:
    """``picture`` with a palette, without transparency."""
    chunks = list(_chunks(picture))
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or kind not in _CHANNELS or interlaced:
        raise ValueError("only what Chromium writes is understood: 8 bits, RGB or RGBA, not interlaced")
    rows = _rows(zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT")), width, _CHANNELS[kind])
    pixels = [[row[i : i + 3] for i in range(0, len(row), _CHANNELS[kind])] for row in rows]
    counted = Counter(pixel for row in pixels for pixel in row)
    palette = _palette(counted)
    index = {colour: number for number, colour in enumerate(palette)}
    for colour in counted:
        if colour not in index:
            index[colour] = _nearest(colour, palette)
    body = b"".join(b"\0" + bytes(index[pixel] for pixel in row) for row in pixels)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", b"".join(palette)),
        (b"IDAT", zlib.compress(body, 9)),
        (b"IEND", b""),
    )
    return _SIGNATURE + b"".join(_chunk(name, data) for name, data in parts)


def _palette(counted: Counter[bytes]) -> list[bytes]:
    """The most frequent colours, of each region of the colours one first: a dot that alone is green stays green."""
    frequent = [colour for colour, _ in counted.most_common()]
    regions: dict[tuple[int, ...], bytes] = {}
    for colour in frequent:
        regions.setdefault(tuple(part >> 5 for part in colour), colour)
    return list(dict.fromkeys([*list(regions.values())[:160], *frequent]))[:256]


def _nearest(colour: bytes, palette: list[bytes]) -> int:
    def distance(number: int) -> int:
        return sum((one - other) ** 2 for one, other in zip(palette[number], colour, strict=True))

    return min(range(len(palette)), key=distance)


def _chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(picture):
        (size,) = struct.unpack(">I", picture[at : at + 4])
        yield picture[at + 4 : at + 8], picture[at + 8 : at + 8 + size]
        at += 12 + size


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _rows(packed: bytes, width: int, channels: int) -> Iterator[bytes]:
    """The rows as they look, with PNG's filters undone."""
    size = width * channels
    before = bytearray(size)
    for begin in range(0, len(packed), size + 1):
        kind, row = packed[begin], bytearray(packed[begin + 1 : begin + 1 + size])
        for i in range(size if kind else 0):
            left = row[i - channels] if i >= channels else 0
            corner = before[i - channels] if i >= channels else 0
            row[i] = (row[i] + _guess(kind, left, before[i], corner)) & 255
        yield bytes(row)
        before = row


def _guess(kind: int, left: int, above: int, corner: int) -> int:
    if kind == 1:
        return left
    if kind == 2:
        return above
    if kind == 3:
        return (left + above) // 2
    whole = left + above - corner
    return min((left, above, corner), key=lambda each: abs(whole - each))
