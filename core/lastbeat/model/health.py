"""A node's report on its own health, beside a run's heartbeats."""

from datetime import datetime
from typing import Final

from lastbeat.model import status as names
from lastbeat.model.data import dataclass
from lastbeat.model.document_field import (
    AMOUNT,
    COUNT,
    FLAG,
    SPAN,
    TEXT,
    TIME,
    DocumentField,
    FieldType,
    Reading,
    array_of,
    map_of,
    nullable,
    object_of,
    objects,
    unread,
)

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
_MOST_CONDITIONS: Final = 16
_TEXT_CHARS: Final = 300
_RAW_CHARS: Final = 4096
"""How much of a text is masked before it is cut."""

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


def read_conditions(value: object, reading: Reading) -> tuple[HealthCondition, ...]:
    """The conditions that a document lists: those that are known by name, each once."""
    found: dict[str, HealthCondition] = {}
    for each in objects(value, _MOST_CONDITIONS):
        name, text = each.get("name"), each.get("text")
        if isinstance(name, str) and name in HEALTH_CONDITIONS and name not in found:
            shown = reading.mask(text[:_RAW_CHARS])[:_TEXT_CHARS] if isinstance(text, str) else ""
            found[name] = HealthCondition(name, shown, reading.time(each.get("since")))
    return tuple(found.values())


def _read_health(value: object, reading: Reading) -> tuple[HealthCondition, ...] | None:
    conditions = value.get("conditions") if isinstance(value, dict) else None
    return read_conditions(conditions, reading) if isinstance(conditions, list) else None


_CONDITION: Final = object_of(
    (
        DocumentField("name", TEXT, required=True),
        DocumentField("text", TEXT, required=True),
        DocumentField("since", TIME),
    ),
)
_DISK: Final = object_of(
    (
        DocumentField("path", TEXT, required=True),
        DocumentField("free_bytes", COUNT, required=True),
        DocumentField("total_bytes", COUNT, required=True),
        DocumentField("free_inodes", COUNT),
        DocumentField("total_inodes", COUNT),
        DocumentField("read_only", FLAG),
    ),
)
_HISTORY: Final = object_of(
    (
        DocumentField("from", AMOUNT, "Unix time of the first value.", required=True),
        DocumentField("each_s", SPAN, required=True),
        DocumentField(
            "series",
            unread(map_of(array_of(nullable({"type": "number"})))),
            "Shares from 0 to 1, °C and W; all of one length.",
            required=True,
        ),
    ),
)
NODE_HEALTH: Final = FieldType(
    _read_health,
    object_of(
        (
            DocumentField("sampled_at", TIME),
            DocumentField(
                "conditions",
                FieldType(read_conditions, array_of(_CONDITION)),
                "What is worth a warning.",
                required=True,
            ),
            DocumentField("swap_used_bytes", COUNT),
            DocumentField("swap_total_bytes", COUNT),
            DocumentField("cpu_limit", AMOUNT, "What its cgroup may use, in cores."),
            DocumentField(
                "cpu_throttled_s", AMOUNT, "How long that cgroup has had to wait because it had used that up."
            ),
            DocumentField("disks", unread(array_of(_DISK)), "The file systems of the run's paths."),
            DocumentField(
                "network_errors",
                unread(map_of({"type": "integer"})),
                "Interface or InfiniBand port → errors since boot.",
            ),
            DocumentField("tcp_sent", COUNT, "Segments since boot."),
            DocumentField("tcp_retransmitted", COUNT),
            DocumentField("history", unread(nullable(_HISTORY)), "The last hours of the node."),
        ),
    ),
)
