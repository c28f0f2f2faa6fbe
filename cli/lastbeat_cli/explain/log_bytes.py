"""The bytes of a log file, plain or gzip: bounded, and refused if they are not text."""

import zlib
from collections.abc import Callable, Iterator
from typing import Final

Note = Callable[[str], None]

CHUNK_BYTES = 1024 * 1024
_GZIP = b"\x1f\x8b"
_GZIP_BITS = 31
# Other formats are refused by name, with the command that unpacks them.
_PACKED: Final = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstdcat"),
    b"\xfd7zXZ\x00": ("xz", "xzcat"),
    b"BZh": ("bzip2", "bzcat"),
    b"PK\x03\x04": ("a zip archive", "unzip -p"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4cat"),
}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_MOST_RATIO = 300
"""Highest compression ratio of a log. Even a repetitive one reaches only about 100."""
FREE_BYTES = 1 << 30
"""The ratio is not checked until a file has unpacked to this many bytes."""
_JUDGED_BYTES = 64 * 1024
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\b\x1b\x07\x00")) + b"\x7f"
_MOST_CONTROLS = 0.02
_MOST_FOREIGN = 0.4


class UnreadableLogError(ValueError):
    """A file that cannot be read as a log; ``str()`` says which and why, ``advice`` what to do."""

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(what)
        self.advice = advice


def text_chunks(name: str, read: Callable[[int], bytes], note: Note, free: int = FREE_BYTES) -> Iterator[bytes]:
    """The bytes that ``read`` returns, unpacked if they are gzip, in chunks of at most a megabyte.

    Calls ``note`` with what is left out. Raises :class:`UnreadableLogError` if the first bytes are not text.
    """
    head = read(CHUNK_BYTES)
    packed = head.startswith(_GZIP)
    chunks = _unpacked(name, head, read, note, free) if packed else _plain(head, read)
    first = next(chunks, b"")
    _judge(name, first)
    if first:
        yield first
    yield from chunks


def _plain(head: bytes, read: Callable[[int], bytes]) -> Iterator[bytes]:
    while head:
        yield head
        head = read(CHUNK_BYTES)


def _unpacked(name: str, head: bytes, read: Callable[[int], bytes], note: Note, free: int) -> Iterator[bytes]:
    """The unpacked bytes of a gzip file. It may have several members, as after appending to it."""
    unpacker = zlib.decompressobj(_GZIP_BITS)
    taken, given = len(head), 0
    waiting = head
    while waiting:
        try:
            chunk = unpacker.decompress(waiting, CHUNK_BYTES)
        except zlib.error as fault:
            if not given:
                raise UnreadableLogError(f"{name} is a damaged gzip file: {fault}", "Fetch it again.") from None
            note(f"{name}: the gzip file is damaged, and what lies behind the damage was not read")
            return
        if chunk:
            given += len(chunk)
            yield chunk
        if given > free and given > taken * _MOST_RATIO:
            note(f"{name}: unpacks to more than {_MOST_RATIO} times its size, as no log does; the rest was not read")
            return
        waiting = unpacker.unconsumed_tail
        if unpacker.eof:
            waiting = unpacker.unused_data
            if len(waiting) < len(_GZIP):
                waiting += (more := read(CHUNK_BYTES))
                taken += len(more)
            if not waiting.startswith(_GZIP):
                return
            unpacker = zlib.decompressobj(_GZIP_BITS)
        elif not waiting:
            waiting = read(CHUNK_BYTES)
            taken += len(waiting)
    if rest := unpacker.flush():
        yield rest
    note(f"{name}: the gzip file ends early; it may still be written, or was cut off")


def _judge(name: str, start: bytes) -> None:
    for magic, (what, tool) in _PACKED.items():
        if start.startswith(magic):
            raise UnreadableLogError(f"{name} is packed ({what})", f"Unpack it: {tool} {name} | lastbeat explain -")
    if start.startswith(_UTF16):
        advice = f"Convert it: iconv -f UTF-16 -t UTF-8 {name} | lastbeat explain -"
        raise UnreadableLogError(f"{name} is UTF-16 text", advice)
    # Zero bytes do not count: a log truncated under its writer begins with them, and a crash may leave them at the end.
    judged = start[:_JUDGED_BYTES].replace(b"\0", b"")
    if not judged:
        return
    controls = len(judged) - len(judged.translate(None, _CONTROLS))
    foreign = judged.decode("utf-8", "replace").count("\ufffd")
    if controls > len(judged) * _MOST_CONTROLS + 8 or foreign > len(judged) * _MOST_FOREIGN + 8:
        raise UnreadableLogError(
            f"{name} is no text: it looks like a binary file", "Name the log that training printed."
        )
