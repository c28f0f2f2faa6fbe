"""Whether a file of tensors is whole, as far as its own header or directory tells. Tensors are never read."""

import io
import json
import zipfile
from typing import Final

from lastbeat.stores.port import Entry, Store

HEADER_LIMIT: Final = 32 << 20
"""Bytes of a header or a zip directory that are read; a model of a million tensors has less."""
_BLOCK: Final = 1 << 16
_ZIP: Final = b"PK\x03\x04"
_PICKLE: Final = b"\x80"
_SAFETENSORS_SUFFIX: Final = ".safetensors"
_TORCH_SUFFIXES: Final = (".pt", ".pth", ".ckpt", ".bin", ".tar")


class BrokenFileError(ValueError):
    """The file is not whole; ``str()`` says what shows it."""


def has_header(name: str) -> bool:
    """Whether a file of this name has something that :func:`check` can look at."""
    return name.endswith((_SAFETENSORS_SUFFIX, *_TORCH_SUFFIXES))


def check(store: Store, entry: Entry) -> bool:
    """Whether the file's own header shows that it is whole. False: its format tells nothing of that.

    Raises :class:`BrokenFileError` if it is not whole, :class:`StoreError` if it could not be read.
    """
    if entry.size_bytes == 0:
        raise BrokenFileError("is empty")
    if entry.key.endswith(_SAFETENSORS_SUFFIX):
        _check_safetensors(store, entry)
        return True
    start = _read(store, entry, 0, 4)
    if start.startswith(_ZIP):
        _check_zip(store, entry)
        return True
    # Torch wrote plain pickles until 1.6, whose end is known only by running them.
    if not start.startswith(_PICKLE) and entry.key.endswith((".pt", ".pth", ".ckpt")):
        raise BrokenFileError("begins like no file of torch")
    return False


def _check_safetensors(store: Store, entry: Entry) -> None:
    length = int.from_bytes(_read(store, entry, 0, 8), "little")
    if entry.size_bytes < 8 or length > entry.size_bytes - 8:
        raise BrokenFileError("ends within its header")
    if length > HEADER_LIMIT:
        raise BrokenFileError(f"has a header of {length:,} bytes, which no such file has")
    try:
        header = json.loads(_read(store, entry, 8, length))
        ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        end = max(ends, default=0)
        whole = isinstance(end, int) and 8 + length + end == entry.size_bytes
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise BrokenFileError("has a header that cannot be read") from None
    if not whole:
        raise BrokenFileError(f"has {entry.size_bytes:,} bytes, and its header says {8 + length + end:,}")


def _check_zip(store: Store, entry: Entry) -> None:
    try:
        # The directory of a zip file stands at its end, so what was cut off has none.
        with zipfile.ZipFile(_StoredFile(store, entry)) as archive:
            members = archive.infolist()
    except _TooMuchError:
        raise BrokenFileError("has a zip directory that is larger than any such file's") from None
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError):
        raise BrokenFileError("has no readable zip directory: it was cut off, or is not yet whole") from None
    if not members:
        raise BrokenFileError("is a zip file with nothing in it")


def _read(store: Store, entry: Entry, start: int, size: int) -> bytes:
    blob = store.read(entry.key, size, start=start)
    if blob is None:
        raise BrokenFileError("is gone")
    if blob.version != entry.version:
        raise BrokenFileError("is being written")
    return blob.body


class _TooMuchError(Exception):
    pass


class _StoredFile(io.RawIOBase):
    """A key as a file that can be sought in. It reads blocks, and refuses to read more than :data:`HEADER_LIMIT`."""

    def __init__(self, store: Store, entry: Entry) -> None:
        super().__init__()
        self._store = store
        self._entry = entry
        self._at = 0
        self._block_at = 0
        self._block = b""
        self._read_bytes = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._entry.size_bytes}[whence]
        if base + offset < 0:
            # As a real file does: zipfile looks there for the end of a file that is too short.
            raise OSError("negative seek")
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._entry.size_bytes - self._at)
        wanted = left if size < 0 else min(size, left)
        if not self._block_at <= self._at <= self._at + wanted <= self._block_at + len(self._block):
            fetched = min(max(wanted, _BLOCK), left)
            self._read_bytes += fetched
            if self._read_bytes > HEADER_LIMIT:
                raise _TooMuchError
            self._block = _read(self._store, self._entry, self._at, fetched)
            self._block_at = self._at
        first = self._at - self._block_at
        found = self._block[first : first + wanted]
        self._at += len(found)
        return found
