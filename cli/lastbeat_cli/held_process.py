"""Holds a process of this machine by a pidfd, so that its number cannot be reused for another process."""

import os

from lastbeat.training.sdk.documents import process_mark


def hold(number: int, mark: str) -> int | None:
    """A pidfd of process ``number`` if it has this ``mark`` and belongs to this user, else None."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        process = os.pidfd_open(number)
    except OSError:
        return None
    try:
        # Checked after it is held: from here on the number cannot be reused.
        ours = os.stat(f"/proc/{number}").st_uid == os.getuid()  # noqa: PTH116 - a path of the kernel
    except OSError:
        ours = False
    if ours and process_mark(number) == mark:
        return process
    os.close(process)
    return None
