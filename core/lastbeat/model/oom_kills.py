"""Explains a SIGKILL that the kernel's OOM killer did not send.

It is written into ``_error`` where the counter is read, and read there where causes are found.
"""

from typing import Final

NONE_COUNTED: Final = "its cgroup counted no OOM kill"
""""The number of processes belonging to this cgroup killed by any kind of OOM killer" (the kernel's documents) stayed
what it was while the process ran."""
