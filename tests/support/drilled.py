"""What a drill of every scenario is to say."""

from typing import Final

ALL_BUT_A_NODE_LOST: Final = {
    "scancel": "PASS",
    "hang": "PASS",
    "nccl": "PASS",
    "oom": "PASS",
    "max_retries": "PASS",
    "node_lost": "SKIPPED",
    "preempt": "PASS",
    "supervisor_killed": "PASS",
}
"""Where there is no node that may be lost: scenario → result."""
