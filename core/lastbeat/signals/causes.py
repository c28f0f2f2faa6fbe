"""The first causes: what the text of a failure says, and what people can do about it."""

import re
from dataclasses import dataclass
from typing import Final

from lastbeat.model import status as names

SCAN_LIMIT_CHARS = 64 * 1024
_LINE_LIMIT = 2000

STALE: Final = (
    "SSH to the instance and check whether the process lives: training.log, nvidia-smi, dmesg (OOM killer) "
    "and disk space (df -h). If the instance is gone (spot reclaim), restart from the last checkpoint."
)
NEVER_STARTED: Final = (
    "The run never started, or writes elsewhere: check the setup logs (cloud-init, job output), the run id, the "
    "place, and that training may write there. LASTBEAT_START_MINUTES gives a run time to its first heartbeat."
)
STALLED: Final = (
    "The process lives but makes no progress: SSH to the instance, look at nvidia-smi (0% is a hang, 100% may be "
    "a stuck collective) and dump the stacks with py-spy dump --pid PID on every rank."
)
UNEXPLAINED_FAILURE: Final = (
    "Read the stack trace in _error and the end of the training log; fix the cause before restarting."
)

CONDITION_HINTS: Final = {
    names.LOSS_NAN: "Stop and go back to the last good checkpoint; lower the learning rate, clip gradients, check the "
    "data around this step and the loss scale.",
    names.STALLED: STALLED,
    names.METADATA_STALE: "Progress is still written, so training lives: check the process that writes metadata.json.",
    names.PROGRESS_STALE: "The process beats but reports no step: a long evaluation or checkpoint, or a hang. Look at "
    "the training log and nvidia-smi.",
    names.HEARTBEAT_UNREADABLE: "Fix the script that writes this document; write to a temporary file and rename it.",
    names.CLOCK_SKEW: "Check time synchronisation on the instance (chronyc tracking or timedatectl); lastbeat goes by "
    "the store's clock meanwhile.",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """An error type, and what to do about it."""

    error_type: str
    hint: str


@dataclass(frozen=True, slots=True)
class _Known:
    error_type: str
    pattern: str
    hint: str


# From the specific to the general: a CUDA out-of-memory error is an exception, too. No pattern has a repeat
# inside a repeat, and lines are cut before they are matched, so hostile text costs no more than long text.
_TABLE: Final = (
    _Known(
        "unknown",
        r"killed by sigkill\b.{0,20}: often",
        "Somebody killed it and left no word: dmesg -T | grep -i oom tells whether the kernel did, the scheduler's log "
        "(sacct, kubectl describe pod) whether it did; else a person or a spot reclaim.",
    ),
    _Known(
        "oom",
        r"cuda(?: error)?:? out of memory|outofmemoryerror|cublas_status_alloc_failed|hip out of memory",
        "CUDA out of memory: reduce batch size or sequence length, or use gradient accumulation, activation "
        "checkpointing or more sharding. Look for other processes on the GPU with nvidia-smi.",
    ),
    _Known(
        "oom",
        r"cannot allocate memory|\bmemoryerror\b|oom[-_ ]?kill|out of memory: killed process|"
        r"killed by signal(?: 9|: killed)|exit ?(?:code|status)? ?:? ?(?:137|-9)\b|died with <signals\.sigkill|"
        r"signal 9 \(sigkill\)",
        "The host ran out of memory: reduce DataLoader workers, prefetching or batch size, or take an instance with "
        "more memory; dmesg -T | grep -i oom shows whom the kernel killed.",
    ),
    _Known(
        "oom",
        r"out of shared memory|insufficient shared memory|bus error",
        "Shared memory ran out (DataLoader workers pass batches through it): give the container more (docker run "
        "--shm-size=8g, or an emptyDir of medium Memory on /dev/shm), or use fewer workers.",
    ),
    _Known(
        "storage",
        r"no space left on device|disk quota exceeded|read-only file system|"
        r"input/output error|stale file handle|errno 28\b",
        "The disk is full or failing: free disk space (df -h, old checkpoints), or write checkpoints elsewhere, then "
        "restart from the last complete checkpoint.",
    ),
    _Known(
        "hardware",
        r"\bxid\b.{0,40}\d|uncorrectable ecc|gpu has fallen off the bus|nvlink.{0,40}error|"
        r"cuda error: (?:unknown error|device-side assert)?uncorrectable|unable to determine the device handle",
        "A GPU failed: take the node out of service (nvidia-smi -q -d ECC, dmesg | grep -i xid) and restart from the "
        "last checkpoint on another one.",
    ),
    _Known(
        "time_limit",
        r"due to time limit|walltime exceeded|wall time limit",
        "The scheduler's time limit ended the run: resume from the last checkpoint, ask for more time or save sooner.",
    ),
    _Known(
        "numerical_instability",
        r"floatingpointerror|(?:loss|gradients?|grad[ _]norm)\b.{0,40}\b(?:nan|inf)\b|found nan|non-?finite|"
        r"overflow encountered|loss scale.{0,40}(?:minimum|too small)",
        "The numbers blew up: go back to the last good checkpoint, lower the learning rate, clip gradients, check the "
        "data of this step, prefer bf16 to fp16.",
    ),
    _Known(
        "nccl_timeout",
        r"watchdog caught collective operation timeout|collective operation timeout|nccl.{0,60}time(?:d )?-?out",
        "A collective timed out: one rank is slow, dead or out of step. Find the rank that failed first in the other "
        "ranks' logs; then check the network (NCCL_DEBUG=INFO) and that all ranks run the same code path.",
    ),
    _Known(
        "nccl",
        r"\bnccl\b.{0,60}error|ncclsystemerror|ncclinternalerror|ncclunhandledcudaerror|ncclremoteerror",
        "NCCL failed: look for the first rank that failed, check the network interfaces (NCCL_SOCKET_IFNAME, "
        "NCCL_DEBUG=INFO), driver and NCCL versions on all nodes.",
    ),
    _Known(
        "distributed_timeout",
        r"(?:tcpstore|rendezvous|barrier|init_process_group).{0,80}time(?:d )?-?out|diststoreerror",
        "Not all ranks met in time: check that every node started, reaches the master address and port, and uses the "
        "same world size.",
    ),
    _Known(
        "communication",
        r"connection (?:reset|refused|closed) by|connection refused|broken pipe|network is unreachable|"
        r"name or service not known|temporary failure in name resolution",
        "A connection broke: check that the other side (another rank, the data server, the proxy) lives and that "
        "its address resolves; the side that failed first has the cause.",
    ),
    _Known(
        "cancelled",
        r"^cancelled:|keyboardinterrupt|\bsigterm\b|\bscancel\b|cancelled at|received signal 15|signalexception|"
        r"exit ?(?:code|status)? ?:? ?143\b",
        "The run was stopped from outside: by a person, the scheduler or a spot reclaim. Restart it if nobody meant "
        "to stop it.",
    ),
    _Known(
        "environment",
        r"modulenotfounderror|importerror|cannot open shared object|undefined symbol|no cuda gpus are available|"
        r"cuda driver version is insufficient|command not found|permissionerror|permission denied|accessdenied|"
        r"expiredtoken|unable to locate credentials",
        "The environment is not what the code expects: compare image, packages, drivers, paths and credentials with a "
        "run that worked.",
    ),
    _Known(
        "data",
        r"unicodedecodeerror|jsondecodeerror|filenotfounderror|no such file or directory|badzipfile|"
        r"unpicklingerror|error(?: was)? (?:raised|caught|occurred).{0,40}dataloader|arrowinvalid|"
        r"truncated (?:file|image)",
        "The input is missing or damaged: check the path, the download and the sample that the trace names.",
    ),
    _Known(
        "torch",
        r"cuda error|cudnn_status|cublas_status|device-side assert|mat1 and mat2 shapes|"
        r"expected all tensors to be on the same device|size mismatch for|missing key\(s\) in state_dict",
        "PyTorch refused an operation: read the trace; for a CUDA error run again with CUDA_LAUNCH_BLOCKING=1 to see "
        "the line that really failed.",
    ),
    _Known(
        "exception",
        r"^\s*traceback \(most recent call last\)|^\s*(?:[a-z_][\w.]*\.)?[a-z_]\w*(?:error|exception)\b",
        "An exception ended training: read the stack trace in _error; it will happen again on restart unless the code "
        "or the input changes.",
    ),
)


def of_failure(text: str) -> Cause | None:
    """The most specific known cause that a failure's text shows; ``None`` when nothing is known from it."""
    lines = [line[:_LINE_LIMIT] for line in text[:SCAN_LIMIT_CHARS].splitlines()]
    for known in _TABLE:
        # Compiled here: a pass over a healthy run never needs them, and together they take longer than it does.
        pattern = re.compile(known.pattern, re.IGNORECASE)
        if any(pattern.search(line) for line in lines):
            return Cause(known.error_type, known.hint)
    return None
