"""Traits of Slurm, and its words: why a job waits, and how one ended."""

from collections.abc import Mapping
from typing import Final

from lastbeat.explain.launchers.traits import LauncherTraits, WaitReason
from lastbeat.model.job import JobState

_NO_OUTPUT: Final = 53
"""What Slurm gives as the signal of a batch job whose output file it could not open."""
_NO_OUTPUT_FILE: Final = (
    "Slurm could not open the file for the job's output, so it never began: ls -ld its folder on the node. Slurm makes "
    "no folders; mkdir -p the one that --output names, where nodes see it, and see that you may write there."
)
_LIMITS: Final = (
    "sacctmgr show assoc user=$USER format=account,qos,maxjobs,grptres shows the limits; ask for less, end another "
    "job, or submit with --account or --qos of another"
)
_REQUEST: Final = (
    "sinfo -o '%P %l %D %c %m %G' shows what the partitions have: cancel it (lastbeat stop) and ask for less"
)
_HELD: Final = "scontrol release ID lets it go on"

REASONS: Final[Mapping[str, WaitReason]] = {
    "Priority": WaitReason("others are before it"),
    "Resources": WaitReason("its nodes are in use"),
    "Dependency": WaitReason("a job that it depends on has not ended"),
    "DependencyNeverSatisfied": WaitReason(
        "a job that it depends on ended otherwise", "cancel it, and submit it without that dependency", hopeless=True
    ),
    "BeginTime": WaitReason("it is not to begin before a certain time"),
    "Reservation": WaitReason("its reservation has not begun"),
    "Licenses": WaitReason("its licences are in use", "scontrol show lic"),
    "JobHeldUser": WaitReason("its owner holds it back", _HELD, hopeless=True),
    "JobHeldAdmin": WaitReason("an administrator holds it back", "ask the cluster's administrators", hopeless=True),
    "launch_failed_requeued_held": WaitReason(
        "it could not be launched on its node, and is held back", f"look at that node, then {_HELD}", hopeless=True
    ),
    "PartitionDown": WaitReason("the partition is down", "sinfo; submit to another (--option=--partition=…)"),
    "PartitionInactive": WaitReason("the partition starts no jobs", "sinfo; submit to another"),
    "PartitionTimeLimit": WaitReason("it asks for more time than the partition gives", _REQUEST, hopeless=True),
    "PartitionNodeLimit": WaitReason("it asks for more nodes than the partition gives", _REQUEST, hopeless=True),
    "PartitionConfig": WaitReason("the partition does not allow what it asks for", _REQUEST, hopeless=True),
    "BadConstraints": WaitReason("no node is as it asks for", _REQUEST, hopeless=True),
    "ReqNodeNotAvail": WaitReason("a node that it asks for is down, drained or reserved", "sinfo -R says why"),
    "NodeDown": WaitReason("a node that it asks for is down", "sinfo -R says why"),
    "InvalidAccount": WaitReason("its account does not exist", _LIMITS, hopeless=True),
    "InvalidQOS": WaitReason("its QOS does not exist", _LIMITS, hopeless=True),
    "AccountNotAllowed": WaitReason("its account may not use this partition", _LIMITS, hopeless=True),
    "QOSNotAllowed": WaitReason("its QOS may not use this partition", _LIMITS, hopeless=True),
}
"""Slurm's own reasons, as scontrol shows them: a space becomes an underscore."""
_WHOSE: Final = (("QOS", "the QOS"), ("Assoc", "the account or its user"), ("MaxJobs", "the user"))
_WHAT: Final = (
    ("Cpu", "CPUs"), ("GRES", "GPUs"), ("TRES", "resources"), ("Mem", "memory"), ("Node", "nodes"),
    ("Submit", "jobs submitted at once"), ("Jobs", "jobs at once"), ("Wall", "time"), ("Minutes", "time"),
)  # fmt: skip


def wait_reason(reason: str) -> WaitReason:
    """What Slurm's ``reason`` means, as far as it is known."""
    word = reason.partition(",")[0].strip()
    known = REASONS.get(word) or next((REASONS[each] for each in REASONS if word.startswith(f"{each}(")), None)
    if known is not None:
        return known
    whose = next((text for prefix, text in _WHOSE if word.startswith(prefix)), None)
    if whose is None:
        return WaitReason()
    what = next((text for part, text in _WHAT if part in word), "what it may use")
    # A job that asks for more than one job ever gets waits for good.
    alone = "PerJob" in word
    means = (
        f"it asks for more {what} than {whose} gives one job" if alone else f"the limit of {whose} on {what} is reached"
    )
    return WaitReason(means, _LIMITS, hopeless=alone)


def _where_it_writes(job: str) -> str:
    return f"scontrol show job {job} | grep -E 'StdOut|WorkDir' shows where it writes"


TRAITS: Final = LauncherTraits(
    # An sbatch goes on without the process that called it, and the controller may have heard it already.
    submit_is_atomic=False,
    # Its nodes share folders with the machine that submits, and sbatch hands the environment on.
    remote=False,
    subsystem="slurm",
    causes={JobState.FAILED: "slurm_failure", JobState.NODE_LOST: "slurm_failure"},
    signal_remedies={_NO_OUTPUT: _NO_OUTPUT_FILE},
    wait_reason=wait_reason,
    pending_remedy=(
        "squeue --start -j ID says when it may begin, sinfo which nodes are free, scontrol show job ID its account, "
        "its QOS and what it asks for"
    ),
    log_remedy=_where_it_writes,
)
