"""A process of this machine, held so that its number cannot come to mean another."""

import os

from lastbeat.sdk.process_mark import process_mark


def hold(number: int, mark: str) -> int | None:
    """A pidfd of the very process that ``mark`` is of, where that is one of ours on this machine; else None."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        process = os.pidfd_open(number)
    except OSError:
        return None
    try:
        # Looked at once it is held: from here on the number cannot come to mean another.
        ours = os.stat(f"/proc/{number}").st_uid == os.getuid()  # noqa: PTH116 - no path of ours
    except OSError:
        ours = False
    if ours and process_mark(number) == mark:
        return process
    os.close(process)
    return None
