"""A process that is not our child: when it ends, and how, as far as the kernel says."""

import fcntl
import os
import struct
import time

_GET_INFO = 0xC040FF0B
"""PIDFD_GET_INFO with the 64 bytes of its first version."""
_INFO_EXIT = 1 << 3
_SPIN_S = 0.05
"""How long an end that has begun is looked at without pause: its parent takes its exit status away within moments."""


class Process:
    """The process ``pid``, which lives now or has just ended. ``pidfd`` refers to it where the kernel has handed one
    out, and is then ours."""

    def __init__(self, pid: int, pidfd: int | None = None) -> None:
        self.pid = pid
        self._last: int | None = None
        """Wait status seen while it was on its way out."""
        self._stat = _open(f"/proc/{pid}/stat")
        self.pidfd = _pidfd(pid) if pidfd is None else pidfd
        """Readable once it has ended; None on kernels before 5.3, and where it has been forbidden."""

    def ended(self) -> bool:
        """Whether it has, where ``pidfd`` cannot tell."""
        fields = self._fields()
        # A main thread that has ended before the others is a zombie, too.
        return fields is None or (fields[0] in "ZX" and int(fields[17]) <= 1)

    def catch_end(self) -> None:
        """To be called when it seems to be ending: look at its exit status before its parent does."""
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
        """How it ended, as ``waitpid`` tells it: exit status times 256, or the signal, plus 128 with a core file. None:
        nobody knows. To be called once it has ended."""
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
        """What /proc/PID/stat says from the state on; None once its parent has been told of its end."""
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
        """What kernels from 6.15 on remember of a process that is gone."""
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
