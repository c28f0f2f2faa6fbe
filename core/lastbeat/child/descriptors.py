"""File descriptors that stay clear of 0, 1 and 2, which belong to the child."""

import fcntl
import os


def pipe() -> tuple[int, int]:
    """The read end and write end of a pipe, never 0, 1 or 2: if those are closed, the child must find them closed."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def open_streams() -> tuple[int, ...]:
    """Which of stdout (1) and stderr (2) are open. Call it before opening any other file.

    Closed ones among 0, 1 and 2 are filled with /dev/null, so that no file of ours gets their number. The child does
    not inherit that, and still finds them closed.
    """
    found = []
    for stream in (0, 1, 2):
        if is_open(stream):
            found.append(stream)
        else:
            # open() takes the lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
    return tuple(stream for stream in found if stream)


def is_open(descriptor: int) -> bool:
    """Whether ``descriptor`` is open."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
