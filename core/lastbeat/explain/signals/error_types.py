"""The table of error types: what each means, whether a restart may help, and what to do."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lastbeat.model.error_type import ErrorTraits, ErrorType
from lastbeat.model.status import LOSS_NAN, STALLED

UNKNOWN: Final = "unknown"
CANCELLED: Final = "cancelled"
HANG: Final = "hang"
DEADLOCK: Final = "deadlock"
NOT_FINITE: Final = "numerical_instability"
TIMEOUT: Final = "timeout"
"""A launcher knows nothing of the job. No signal has this type."""

# ``restartable``: an unchanged restart from the last checkpoint is likely to get past this.
_TABLE: Final = (
    ErrorType(
        "oom",
        restartable=False,
        meaning="A GPU, the host or /dev/shm ran out of memory.",
        hint="Find out which memory: 'CUDA out of memory' in the log is the GPU (nvidia-smi: does another process sit "
        "on it?): smaller micro-batch or sequence, activation checkpointing, more sharding. Exit 137 or a line "
        "in dmesg -T | grep -i oom is the host: fewer DataLoader workers, or sbatch --mem with more. A bus error "
        "is /dev/shm (df -h /dev/shm): docker run --shm-size=16g.",
        traits=ErrorTraits(printed_late=True, explains_vague=True, may_be_a_kill=True),
    ),
    ErrorType(
        HANG,
        restartable=True,
        meaning="The process lives but does nothing any more. What it waits for is unknown.",
        hint="Before you kill it, on each node: pgrep -f train | xargs -n1 py-spy dump --pid. The rank whose stack "
        "differs from the others' has the cause. nvidia-smi: 0% waits for the host or for data, 100% for a "
        "collective. ps -eo pid,stat,wchan:30,cmd | grep ' D' shows who waits for a disk. Then restart from the "
        "last checkpoint.",
        traits=ErrorTraits(condition=STALLED, is_fatal=False, when_circular=DEADLOCK, only_waited=True),
    ),
    ErrorType(
        DEADLOCK,
        restartable=True,
        meaning="Threads or ranks wait for each other: locks or collectives were taken in different orders.",
        hint="Compare the stacks of all ranks (py-spy dump --pid PID --locals): two that wait in different "
        "collectives, or two threads that hold a lock each, are the cause. Look for a collective behind an 'if "
        "rank == 0', unequal numbers of batches, or a fork after threads were started. A restart helps for a "
        "while only.",
        traits=ErrorTraits(condition=STALLED, is_fatal=False, only_waited=True),
    ),
    ErrorType(
        "nccl",
        restartable=True,
        meaning="NCCL failed on its own: its network, its transport, its versions, or a GPU under it.",
        hint="The first NCCL WARN of the first rank that failed says why; if there is none, restart with "
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET. Check on its node: ibstat (State: Active), dmesg -T | grep "
        "-iE 'xid|mlx5', nvidia-smi topo -m, and that NCCL_SOCKET_IFNAME and NCCL_IB_HCA name links that all "
        "nodes have.",
        traits=ErrorTraits(is_vague=True, explains_vague=True, between_peers=True),
    ),
    ErrorType(
        "nccl_timeout",
        restartable=True,
        meaning="A collective did not end in time: some rank never came to it, or the network between them is stuck.",
        hint="Seldom the rank that reports it. Find the one that is missing: whose last line is oldest, or whose "
        "SeqNum is behind (grep -h 'SeqNum=' LOGS | sort | uniq -c). On its node: py-spy dump --pid PID, "
        "nvidia-smi, dmesg -T | grep -iE 'xid|oom'. If it was only slow (checkpoint, data), raise the process "
        "group's timeout.",
        traits=ErrorTraits(is_vague=True, only_waited=True, of_collective=True),
    ),
    ErrorType(
        "distributed_timeout",
        restartable=True,
        meaning="Ranks did not meet in time: rendezvous, store, barrier, or a gloo operation.",
        hint="Did every node start (squeue -j ID -o '%N %T', kubectl get pods)? From a late one: nc -vz $MASTER_ADDR "
        "$MASTER_PORT; getent hosts $MASTER_ADDR. Same world size, port and rdzv id everywhere? A rank that only "
        "loads long needs init_process_group(timeout=...). Restart once all nodes answer.",
        traits=ErrorTraits(is_vague=True, only_waited=True),
    ),
    ErrorType(
        "communication",
        restartable=True,
        meaning="A connection between ranks, or to a service that training needs, was refused, reset or not found.",
        hint="Who was on the other side of the address in this line, and does it still live? Its log has the cause if "
        "it died first. If it lives: nc -vz HOST PORT, getent hosts HOST, ss -s (ports used up), ip -s link "
        "(errors), firewall or security group between the nodes. Else restart from the last checkpoint.",
        traits=ErrorTraits(is_vague=True, explains_vague=True, between_peers=True),
    ),
    ErrorType(
        "watchdog_timeout",
        restartable=True,
        meaning="A watchdog of the framework ended the run because nothing moved for its limit.",
        hint="The watchdog is the messenger. Look at what the ranks did before: the stacks it dumped, or the last "
        "line of each rank (tail -n1 logs/*). A slow checkpoint, evaluation or first compilation is no hang: "
        "raise the watchdog's limit (TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC and the like). Else treat it as a hang of "
        "the oldest rank.",
        traits=ErrorTraits(is_vague=True, only_waited=True),
    ),
    ErrorType(
        CANCELLED,
        restartable=True,
        meaning="A person, the scheduler (preemption) or the cloud stopped it from outside.",
        hint="Who stopped it: sacct -j ID --format=JobID,State,ExitCode,End,NodeList; 'CANCELLED by UID' is a person "
        "(getent passwd UID), PREEMPTED is the scheduler. In a cloud look for a spot reclaim, in Kubernetes: "
        "kubectl get events. If it was unintended, restart from the last checkpoint.",
        traits=ErrorTraits(is_imposed=True, ends_process=True, announced_calmly=True),
    ),
    ErrorType(
        "slurm_failure",
        restartable=True,
        meaning="Slurm itself failed: a node failure, a job that it refused, a step that did not start.",
        hint="sacct -j ID --format=JobID,State,ExitCode,Reason,NodeList and scontrol show node NODE (Reason=) tell "
        "which node and why; sinfo -R lists what is drained. Restart with sbatch --exclude=NODE, and tell the "
        "cluster's people about the node. --requeue and an early checkpoint on --signal=B:USR1@300 make the next "
        "one harmless.",
        traits=ErrorTraits(printed_late=True, spoils_values=True),
    ),
    ErrorType(
        "time_limit",
        restartable=True,
        meaning="The scheduler's time for the job was over.",
        hint="Nothing is broken: submit again and resume from the last checkpoint. sacct -j ID "
        "--format=Elapsed,Timelimit tells what it had. For next time: sbatch --time=..., --signal=B:USR1@600 "
        "with a checkpoint when it arrives (Megatron: --exit-duration-in-mins, --exit-signal-handler), or a "
        "chain of jobs (--dependency=singleton).",
        traits=ErrorTraits(announced_calmly=True, is_time_over=True),
    ),
    ErrorType(
        TIMEOUT,
        restartable=True,
        meaning="The job is gone: its launcher was asked, knows none of that id, and nothing says how it ended.",
        hint="sacct -j ID --duplicates --format=JobID,State,ExitCode,End,NodeList, if the cluster keeps accounts, and "
        "the end of the job's log. A job that Slurm forgets within minutes: scontrol show config | grep MinJobAge. A "
        "local job: last -x reboot, and journalctl -k | grep -i oom. If it was unintended, restart from the "
        "last checkpoint.",
        traits=ErrorTraits(is_time_over=True),
    ),
    ErrorType(
        NOT_FINITE,
        restartable=False,
        meaning="The loss or the gradients became NaN or infinite, or training diverged.",
        hint="The same checkpoint and data blow up again. Go back a checkpoint or two to before the loss rose, and "
        "skip the batches around this step; lower the learning rate or warm up longer, clip gradients (1.0), "
        "bf16 in place of fp16. NaN on one rank alone, or not again on other nodes, is bad hardware: dcgmi diag "
        "-r 3.",
        traits=ErrorTraits(condition=LOSS_NAN, about_values=True),
    ),
    ErrorType(
        "exception",
        restartable=False,
        meaning="The program raised an error of its own, in its code or configuration.",
        hint="Read the traceback from its last line upwards to the first file that is yours; it happens again on "
        "restart unless code, configuration or input changes. The first rank that raised counts, the others "
        "follow (grep -n Traceback logs/* | head). What changed since the last good run: git log, pip freeze, "
        "the command.",
        traits=ErrorTraits(ends_process=True),
    ),
    ErrorType(
        "torch",
        restartable=False,
        meaning="PyTorch or CUDA refused an operation: shapes, devices, dtypes, a kernel's assertion, a compiler.",
        hint="Read the traceback's last line. A CUDA error is reported late: run again with CUDA_LAUNCH_BLOCKING=1 "
        "(and TORCH_USE_CUDA_DSA=1 for a device-side assert) to see the line that failed; an index out of range, "
        "say a token id >= vocabulary, is the usual one. For torch.compile try TORCH_COMPILE_DISABLE=1.",
    ),
    ErrorType(
        "hardware",
        restartable=True,
        meaning="A GPU, a link, memory or a node failed.",
        hint="Take the node out before you restart: scontrol update NodeName=NODE State=DRAIN Reason='GPU' (or "
        "kubectl cordon NODE). Evidence for the ticket: dmesg -T | grep -iE 'xid|nvlink|mce|ecc', nvidia-smi -q "
        "-d ECC,ROW_REMAPPER, dcgmi diag -r 3. Then resume from the last checkpoint on other nodes.",
        traits=ErrorTraits(
            printed_late=True,
            explains_vague=True,
            shows_as=frozenset({"torch", "nccl", "communication"}),
            spoils_values=True,
            blames_node=True,
        ),
    ),
    ErrorType(
        "storage",
        restartable=True,
        meaning="A disk, file system or object store was full, failing or not reachable.",
        hint="df -h and df -i on the path in this line; quota -s (lfs quota -u $USER on Lustre); dmesg -T | tail for "
        "I/O errors; ls on it in another shell: does it hang? Delete old checkpoints or write elsewhere. The "
        "last checkpoint may be half written: check its size and go back one if it is.",
        traits=ErrorTraits(printed_late=True, explains_vague=True),
    ),
    ErrorType(
        "data",
        restartable=False,
        meaning="The training data is missing, damaged, or not what the code expects.",
        hint="The traceback names the file or sample: ls -l and a checksum of it, against its source or another copy; "
        "fetch it again or take it out of the list. Delete an index that does not fit its data, and build it "
        "again. A restart reads the same sample again.",
    ),
    ErrorType(
        "environment",
        restartable=False,
        meaning="Packages, drivers, paths, permissions or credentials are not what the code expects.",
        hint="Compare with a run that worked: pip freeze, nvidia-smi (driver and CUDA version), python -c 'import "
        "torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())', env | grep -iE "
        "'cuda|ld_lib|hf_|aws', id and ls -l on the path. If one node alone fails, exclude it.",
        traits=ErrorTraits(explains_vague=True, raised_where_needed=True),
    ),
    ErrorType(
        UNKNOWN,
        restartable=True,
        meaning="Nothing in the evidence says why.",
        hint="Look where the log cannot: sacct -j ID --format=JobID,State,ExitCode,MaxRSS, dmesg -T | tail -50 on its "
        "node (oom-kill, Xid), df -h, nvidia-smi. kubectl describe pod POD if it was one. A process that dies "
        "without a word was most often killed. If nothing is to be found, restart from the last checkpoint and "
        "watch the same step.",
        traits=ErrorTraits(is_vague=True, says_nothing=True),
    ),
)

TYPES: Final[Mapping[str, ErrorType]] = MappingProxyType({each.name: each for each in _TABLE})
"""Name → error type. A user's catalogue may add its own."""


def traits_of(name: str) -> ErrorTraits:
    """The traits of the error type ``name``. A catalogue may change a built-in type's texts, but not its traits."""
    known = TYPES.get(name)
    return known.traits if known is not None else _PLAIN


_PLAIN: Final = ErrorTraits()
