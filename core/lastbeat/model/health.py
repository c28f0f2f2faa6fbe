"""What a node says of its own health, beside a run's heartbeats."""

from datetime import datetime
from typing import Final

from lastbeat.model import status as names
from lastbeat.model.data import dataclass

HEALTH_CONDITIONS: Final = (
    names.GPU_LOST,
    names.GPU_ECC,
    names.GPU_THROTTLED,
    names.GPU_IDLE,
    names.RAM_LOW,
    names.DISK_LOW,
    names.NETWORK_ERRORS,
)
"""What a node may raise of itself, what is worst first."""


_DRAIN: Final = "scontrol update nodename=NODE state=drain reason=REASON, or kubectl cordon NODE, keeps jobs off it"
REMEDIES: Final = {
    names.GPU_LOST: "Restart from the last checkpoint on other nodes. "
    f"{_DRAIN}; on the node, nvidia-smi -L shows which GPUs answer, and dmesg -T | grep -i xid why one does not. A "
    "reset (nvidia-smi --gpu-reset -i N) or a reboot may bring it back; if it is lost again, have it replaced.",
    names.GPU_ECC: "What this GPU computes may be wrong: go back to a checkpoint from before the errors, on other "
    f"nodes. {_DRAIN}; nvidia-smi -q -d ECC,ROW_REMAPPER shows the counts, nvidia-smi --gpu-reset -i N carries out a "
    "repair that waits. A GPU whose memory cannot be remapped any more has to be replaced.",
    names.GPU_THROTTLED: "This GPU is slow, and in synchronous training all wait for it: nvidia-smi -q -d "
    "PERFORMANCE,TEMPERATURE,POWER says why. Heat: look at fans, airflow and neighbours; a power brake: at the node's "
    f"power supplies. {_DRAIN}.",
    names.GPU_IDLE: "GPUs are reserved and do nothing: py-spy dump --pid PID on each rank shows where training is, the "
    "log what it does so long (a download, a data loader, a rank that others wait for). If it hangs, end it (lastbeat "
    "stop) and start it from its last checkpoint.",
    names.RAM_LOW: "The kernel will kill a process when nothing is left: ps aux --sort=-rss | head shows who uses it. "
    "Fewer DataLoader workers, less prefetching, a smaller cache in /dev/shm; where a cgroup sets the limit, ask for "
    "more (--mem, resources.limits.memory).",
    names.DISK_LOW: "The next checkpoint may fail: df -h and df -i show the file system, du -xsh * | sort -h what "
    "fills it. Delete old checkpoints (lastbeat checkpoints DIR lists the complete ones), or save elsewhere.",
    names.NETWORK_ERRORS: "A bad cable, port or switch slows every collective: ip -s link, ibstat, perfquery, "
    f"nvidia-smi nvlink -e and nstat TcpRetransSegs show which counter grows. {_DRAIN}.",
}
"""Condition → what to do about it."""


@dataclass(frozen=True, slots=True)
class HealthCondition:
    """Something about a node that is worth a warning. ``text`` is hostile where a document said it."""

    name: str
    """One of :data:`HEALTH_CONDITIONS`."""
    text: str
    since: datetime | None = None
