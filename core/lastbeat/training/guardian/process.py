"""Observes a process that is not a child: when it ends, and how, as far as the kernel reports."""

import fcntl
import os
import struct
import time

_GET_INFO = 0xC040FF0B
"""PIDFD_GET_INFO with the 64 bytes of its first version."""
_INFO_EXIT = 1 << 3
_SPIN_S = 0.05
"""Time in s for which a beginning end is polled without pause, because the parent reaps the exit status within
moments."""


class Process:
    """The process ``pid``, which lives or has just ended. ``pidfd`` is the kernel's descriptor of it, if there is one,
    and is closed here."""

    def __init__(self, pid: int, pidfd: int | None = None) -> None:
        self.pid = pid
        self._last: int | None = None
        """Wait status observed while it was ending."""
        self._stat = _open(f"/proc/{pid}/stat")
        self.pidfd = _pidfd(pid) if pidfd is None else pidfd
        """Descriptor that is readable once it has ended; None on kernels before 5.3, or if forbidden."""

    def ended(self) -> bool:
        """Whether it has ended, for a process without ``pidfd``."""
        fields = self._fields()
        # A main thread that has ended before the others is a zombie too.
        return fields is None or (fields[0] in "ZX" and int(fields[17]) <= 1)

    def catch_end(self) -> None:
        """Read its exit status before its parent reaps it. Call this when it seems to be ending."""
        until = time.monotonic() + _SPIN_S
        while time.monotonic() < until:
            fields = self._fields()
            if fields is None:
                return
            status = int(fields[49])
            if status or fields[0] == "Z":
                self._last = status
            if fields[0] in "ZX":
                return

    def wait_status(self) -> int | None:
        """Its wait status as in ``waitpid``: exit status times 256, or the signal, plus 128 with a core file. None if
        unknown. Call this once it has ended."""
        fields = self._fields()
        if fields is not None and fields[0] == "Z":
            return int(fields[49])
        found = self._from_pidfd()
        return self._last if found is None else found

    def close(self) -> None:
        for descriptor in (self.pidfd, self._stat):
            if descriptor is not None:
                os.close(descriptor)
        self.pidfd = self._stat = None

    def _fields(self) -> list[str] | None:
        """The fields of /proc/PID/stat from the state on; None once its parent has reaped it."""
        if self._stat is None:
            return None
        try:
            text = os.pread(self._stat, 4096, 0)
        except OSError:
            return None
        # The name before it is in parentheses and may hold anything.
        fields = text.rpartition(b")")[2].decode("ascii", "replace").split()
        return fields if len(fields) > 49 else None

    def _from_pidfd(self) -> int | None:
        """The wait status that kernels from 6.15 on keep of a process that is gone, or None."""
        if self.pidfd is None:
            return None
        info = bytearray(64)
        struct.pack_into("Q", info, 0, _INFO_EXIT)
        try:
            fcntl.ioctl(self.pidfd, _GET_INFO, info)
        except OSError:
            return None
        (known,) = struct.unpack_from("Q", info, 0)
        return int(struct.unpack_from("i", info, 60)[0]) if known & _INFO_EXIT else None


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _open(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
