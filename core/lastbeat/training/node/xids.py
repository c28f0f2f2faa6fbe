"""Xids, the error numbers of NVIDIA's driver for a GPU: their meanings, and those caused by hardware.

The source is NVIDIA's catalogue of Xid errors. Errors that a program causes (13, 31, 43, 45 and others) are no fault of
a GPU, and are left to the run's log.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lastbeat.model.status import GPU_ECC, GPU_LOST, NETWORK_ERRORS

KERNEL_LOG: Final = Path("/dev/kmsg")
_XID: Final = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]{4,20})\): (\d{1,4})\b")
_MOST_RECORDS: Final = 50_000
"""Most lines of the kernel's log that are read at once; its buffer rarely holds more."""
_RECORD_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class XidMeaning:
    """The meaning of an Xid, and the condition that it raises."""

    text: str
    condition: str


XIDS: Final = {
    48: XidMeaning("memory error that could not be corrected", GPU_ECC),
    62: XidMeaning("an internal processor of the GPU halted", GPU_LOST),
    63: XidMeaning("a row of its memory is to be remapped", GPU_ECC),
    64: XidMeaning("a row of its memory could not be remapped", GPU_ECC),
    74: XidMeaning("NVLink error", NETWORK_ERRORS),
    79: XidMeaning("the GPU has fallen off the bus", GPU_LOST),
    92: XidMeaning("many corrected memory errors", GPU_ECC),
    94: XidMeaning("memory error, contained to one program", GPU_ECC),
    95: XidMeaning("memory error that was not contained", GPU_ECC),
    119: XidMeaning("the GPU's system processor does not answer", GPU_LOST),
    120: XidMeaning("an error of the GPU's system processor", GPU_LOST),
    140: XidMeaning("memory error that was not recovered from", GPU_ECC),
}


@dataclass(frozen=True, slots=True)
class XidLine:
    """An Xid in the kernel's log."""

    number: int
    bus: str
    """The GPU's place on the PCI bus, in lower case: ``0000:3b:00``."""
    at_s: float
    """Seconds since boot."""


class KernelLog:
    """Reads new Xids in the kernel's log. Reading it needs a permission that few users have; without it there are
    none."""

    def __init__(self, path: Path = KERNEL_LOG, *, past: bool = False) -> None:
        """``past`` makes the first call include existing lines."""
        self._file: int | None = None
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if not past:
                os.lseek(self._file, 0, os.SEEK_END)
        except OSError:
            self.close()

    @property
    def readable(self) -> bool:
        """Whether the kernel's log can be read."""
        return self._file is not None

    def news(self) -> list[XidLine]:
        """The Xids since the last call, oldest first; bounded. Never raises."""
        return [line for record in self._records() if (line := xid_in(record)) is not None]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _records(self) -> Iterator[str]:
        for _ in range(_MOST_RECORDS):
            if self._file is None:
                return
            try:
                # The kernel returns one record at a time, and EPIPE if some were overwritten meanwhile.
                read = os.read(self._file, _RECORD_BYTES)
            except BrokenPipeError:
                continue
            except OSError:
                return
            if not read:
                return
            yield from read.decode("utf-8", "replace").splitlines()


def xid_in(record: str) -> XidLine | None:
    """The Xid in a line of /dev/kmsg: ``4,1042,9000000,-;NVRM: Xid (PCI:0000:3b:00): 79, …``; None if there is none."""
    found = _XID.search(record)
    if found is None:
        return None
    head = record.partition(";")[0].split(",")
    micros = head[2] if len(head) > 2 and head[2].isascii() and head[2].isdigit() and len(head[2]) < 20 else "0"
    return XidLine(int(found[2]), short_bus(found[1]), int(micros) / 1e6)


def short_bus(bus: str) -> str:
    """A place on the PCI bus as the kernel's log writes it: ``00000000:3B:00.0`` is ``0000:3b:00``."""
    domain, colon, rest = bus.lower().partition(":")
    return f"{domain[-4:]}{colon}{rest.partition('.')[0]}"
