"""File descriptors that stay clear of 0, 1 and 2, which belong to the child."""

import fcntl
import os
import stat
from contextlib import suppress


def pipe() -> tuple[int, int]:
    """The read end and write end of a pipe, never 0, 1 or 2: if those are closed, the child must find them closed."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def open_streams() -> tuple[int, ...]:
    """The open ones of stdout (1) and stderr (2). Call this before opening any other file.

    Closed ones among 0, 1 and 2 are opened as /dev/null, so that no other file gets their number. The child does not
    inherit that, and still finds them closed.
    """
    found = []
    for stream in (0, 1, 2):
        if is_open(stream):
            found.append(stream)
        else:
            # open() takes the lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
    return tuple(stream for stream in found if stream)


class StandardInput:
    """The stdin of this process, and the position at which a command that inherits it begins to read."""

    def __init__(self) -> None:
        self._began: int | None = None
        with suppress(OSError):
            if stat.S_ISREG(os.fstat(0).st_mode):
                self._began = os.lseek(0, 0, os.SEEK_CUR)

    def rewind(self) -> None:
        """Have the next command read a file from the same position as the first one. Data of a pipe is gone."""
        if self._began is not None:
            with suppress(OSError):
                os.lseek(0, self._began, os.SEEK_SET)


def is_open(descriptor: int) -> bool:
    """Whether ``descriptor`` is open."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
