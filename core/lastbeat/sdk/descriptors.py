"""File descriptors that keep clear of a child's standard streams."""

import fcntl
import os


def pipe() -> tuple[int, int]:
    """A pipe's two ends, none of them 0, 1 or 2: those may be closed, and must stay so for a child."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def streams() -> tuple[int, ...]:
    """Of stdout and stderr those that are open at all. The places of closed ones, and of stdin, are taken, so that no
    file of ours gets there; a child finds them closed still. Call it before anything else is opened."""
    found = []
    for stream in (0, 1, 2):
        if is_open(stream):
            found.append(stream)
        else:
            # The lowest free number, which is this one; not inherited.
            os.open(os.devnull, os.O_RDWR)
    return tuple(stream for stream in found if stream)


def is_open(descriptor: int) -> bool:
    """Whether ``descriptor`` is one."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
