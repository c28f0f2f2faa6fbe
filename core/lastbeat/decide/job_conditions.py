"""What launchers' words on a job that has not ended mean, and what to do about its conditions. Pure."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from lastbeat.model import status as names
from lastbeat.model.job import JobMemory, JobReport, JobState

HOPELESS_S: Final = 300.0
"""A job that cannot start as it is, is told of after this: waiting longer mends nothing."""
IDLE_S: Final = 600.0
"""GPUs that nobody uses are told of after this: loading data and a model may take minutes."""


class WaitReason(NamedTuple):
    """What a scheduler's reason for waiting means, and what to do about it."""

    means: str
    remedy: str = ""
    hopeless: bool = False
    """It does not pass by itself."""


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
    "launch failed requeued held": WaitReason(
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
"""Slurm's own reasons, as squeue shows them."""
_WHOSE: Final = (("QOS", "the QOS"), ("Assoc", "the account or its user"), ("MaxJobs", "the user"))
_WHAT: Final = (
    ("Cpu", "CPUs"), ("GRES", "GPUs"), ("TRES", "resources"), ("Mem", "memory"), ("Node", "nodes"),
    ("Submit", "jobs submitted at once"), ("Jobs", "jobs at once"), ("Wall", "time"), ("Minutes", "time"),
)  # fmt: skip


_IDLE: Final = (
    "GPUs are reserved and nobody uses them: the job's log says what it does so long (a download, a data set that is "
    "prepared, a worker that it waits for); does it ask for GPUs at all, and does torch.cuda.is_available() say True "
    "in it? If not, end it (lastbeat stop) and start it with them."
)
_IDLE_ON_RAY: Final = (
    "Ray has given out none of its GPUs, and no step is seen. "
    "ray job submit starts an entrypoint without GPUs unless it asks for them (--entrypoint-num-gpus), or the training "
    "never asked Ray for any (ScalingConfig(use_gpu=True), @ray.remote(num_gpus=1)): ray status shows who has what. "
    "Where ray job submit leaves GPUs unused, start the training inside the head pod: lastbeat supervise --launcher "
    "ray-pod --head-pod P."
)
_ON_RAY: Final = ("ray", "ray-pod", "ray-exec")
_WAITS_ON_RAY: Final = (
    "ray status shows what is free and what waits; ask for less, add nodes to the cluster, or end it (lastbeat stop)."
)
_BROUGHT: Final = (*_ON_RAY, "kubernetes")
"""Launchers that bring a job's log by themselves: nobody can name another place for it."""
_PODS: Final = {
    "jobset": "jobset.sigs.k8s.io/jobset-name",
    "pytorchjob": "training.kubeflow.org/job-name",
    "rayjob": "job-name",
}
"""Kind of object → the label by which kubectl finds its pods; it finds those of a Job by itself."""
_NO_LOG: Final = "Without its log nobody can say why it fails."

_IMAGE: Final = (
    "check the image's name and tag, and that its registry may be read from the nodes (imagePullSecrets): docker pull "
    "with the same name; then cancel it (lastbeat stop) and begin again with a manifest that is right"
)
OF_KUBERNETES: Final[Mapping[str, WaitReason]] = {
    "NoPods": WaitReason("its controller has made no pod", "kubectl describe ID (Events) says why"),
    "Suspended": WaitReason(
        "it is suspended: a queue has not admitted it, or a person holds it back",
        "with Kueue: kubectl get workloads, and kubectl describe the workload of ID; without a queue: take "
        "suspend: true out of the manifest",
    ),
    "SchedulingGated": WaitReason("a queue has not admitted its pods", "with Kueue: kubectl get workloads"),
    "Unschedulable": WaitReason(
        "no node has what it asks for, or all that have it are in use",
        "kubectl describe nodes | grep -A8 'Allocated resources' shows what is free; ask for less, end another job, or "
        "check nodeSelector, tolerations and the names of its volumes",
    ),
    "ErrImagePull": WaitReason("its image cannot be pulled", _IMAGE, hopeless=True),
    "ImagePullBackOff": WaitReason("its image cannot be pulled", _IMAGE, hopeless=True),
    "InvalidImageName": WaitReason("its image's name is none", _IMAGE, hopeless=True),
    "ErrImageNeverPull": WaitReason(
        "its image is not on the node, and imagePullPolicy: Never keeps it from being pulled", _IMAGE, hopeless=True
    ),
    "CreateContainerConfigError": WaitReason(
        "a Secret, a ConfigMap or a key of one that it names is not there",
        "create what the message names, in the same namespace: it then begins by itself",
        hopeless=True,
    ),
    "CreateContainerError": WaitReason(
        "its container cannot be made", "the message says why; a mount, a device or a name", hopeless=True
    ),
    "RunContainerError": WaitReason(
        "its container cannot be started", "a command that is not in the image, or a device", hopeless=True
    ),
    "CrashLoopBackOff": WaitReason(
        "it fails again and again, and Kubernetes waits longer each time",
        "kubectl logs --previous shows why; restartPolicy: Never and backoffLimit: 0 leave restarts to lastbeat",
        hopeless=True,
    ),
    "FailedCreate": WaitReason(
        "its pods are refused: a quota, a policy or an admission webhook",
        "kubectl describe resourcequota shows what is used; else change what the message names",
        hopeless=True,
    ),
    "FailedMount": WaitReason(
        "a volume of it cannot be mounted",
        "kubectl get pvc: is it Bound, and on a node that may mount it?",
        hopeless=True,
    ),
    "FailedAttachVolume": WaitReason(
        "a volume of it is attached to another node", "a ReadWriteOnce volume is for one node: end whoever has it"
    ),
    "FailedCreatePodSandBox": WaitReason("its node cannot set up its network", "kubectl describe node; exclude it"),
    "FailedScheduling": WaitReason("no node has what it asks for", "kubectl describe nodes shows what is free"),
    "ContainerCreating": WaitReason("its image is being pulled, or its volumes mounted"),
    "PodInitializing": WaitReason("its init containers run"),
}
"""Kubernetes' words, with which its reasons begin."""


def explained(reason: str, launcher: str = "slurm") -> WaitReason:
    """What the launcher's ``reason`` means, as far as it is known."""
    if launcher == "kubernetes":
        return OF_KUBERNETES.get(reason.partition(":")[0].strip(), WaitReason(""))
    if launcher != "slurm":
        return WaitReason("")
    word = reason.partition(",")[0].strip()
    known = REASONS.get(word) or next((REASONS[each] for each in REASONS if word.startswith(f"{each}(")), None)
    if known is not None:
        return known
    whose = next((text for prefix, text in _WHOSE if word.startswith(prefix)), None)
    if whose is None:
        return WaitReason("")
    what = next((text for part, text in _WHAT if part in word), "what it may use")
    # A job that asks for more than one job ever gets waits for good.
    alone = "PerJob" in word
    means = (
        f"it asks for more {what} than {whose} gives one job" if alone else f"the limit of {whose} on {what} is reached"
    )
    return WaitReason(means, _LIMITS, hopeless=alone)


def idle_since(known: datetime | None, report: JobReport, now: datetime) -> datetime | None:
    """Since when the job has run without using any of its GPUs. ``known``: what the last look made of that, where the
    job was in the same state. While nobody can tell, that stands: unknown is neither use nor idleness."""
    if report.state is not JobState.RUNNING:
        return None
    if report.gpus is None:
        return known
    return (known or now) if report.gpus.idle else None


def remedy(raised: Collection[str], job: JobMemory | None) -> str | None:
    """What to do about a condition of the job."""
    if job is None:
        return None
    if names.JOB_PENDING in raised:
        why = explained(job.reason, job.launcher)
        if job.launcher == "kubernetes":
            looks = f"kubectl describe {job.id}, and its pods, show the rest"
            return "; ".join(part for part in (why.remedy.replace("ID", job.id), looks) if part)
        if job.launcher in _ON_RAY:
            return _WAITS_ON_RAY
        if job.launcher != "slurm":
            return "Ask its launcher why it does not begin."
        looks = (
            f"squeue --start -j {job.id} says when it may begin, sinfo which nodes are free, scontrol show job "
            f"{job.id} its account, its QOS and what it asks for"
        )
        return "; ".join(part for part in (why.remedy.replace("ID", job.id), looks) if part)
    if names.JOB_LOG_MISSING in raised:
        if job.launcher in _BROUGHT:
            return f"{_log_by_hand(job)} by hand says the same. {_NO_LOG}"
        look = "look at its --output"
        if job.launcher == "slurm":
            look = f"scontrol show job {job.id} | grep -E 'StdOut|WorkDir' shows where it writes"
        return (
            f"{look}; make that folder, writable for the job on its nodes, or give --output (and --log) a path that "
            f"this machine sees, too. {_NO_LOG}"
        )
    if names.GPU_IDLE in raised:
        return _IDLE_ON_RAY if job.launcher in {"ray", "ray-exec"} else _IDLE
    return None


def _log_by_hand(job: JobMemory) -> str:
    """How a person asks for the log of a job elsewhere."""
    if job.launcher == "kubernetes":
        kind, _, name = job.id.partition("/")
        return f"kubectl logs -l {_PODS[kind]}={name}" if kind in _PODS else f"kubectl logs {job.id}"
    if job.launcher == "ray-pod":
        return "'kubectl exec' into the head pod, whose TMPDIR, or /tmp, has its log,"
    return f"ray job logs {job.id.partition('@')[0]}"
