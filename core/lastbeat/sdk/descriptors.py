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
