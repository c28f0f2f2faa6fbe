"""Traits of Kubernetes, and its reasons for a pod that waits or has ended."""

from collections.abc import Mapping
from typing import Final

from lastbeat.explain.launchers.traits import EndCause, LauncherTraits, WaitReason

_PODS: Final = {
    "jobset": "jobset.sigs.k8s.io/jobset-name",
    "pytorchjob": "training.kubeflow.org/job-name",
    "rayjob": "job-name",
}
"""Kind of object → the label that selects its pods. kubectl finds the pods of a Job by itself."""

_IMAGE: Final = (
    "check the image's name and tag, and that its registry may be read from the nodes (imagePullSecrets): docker pull "
    "with the same name; then cancel it (lastbeat stop) and begin again with a manifest that is right"
)
REASONS: Final[Mapping[str, WaitReason]] = {
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
        "a volume of it is attached to another node", "a ReadWriteOnce volume is for one node: end the pod that has it"
    ),
    "FailedCreatePodSandBox": WaitReason("its node cannot set up its network", "kubectl describe node; exclude it"),
    "FailedScheduling": WaitReason("no node has what it asks for", "kubectl describe nodes shows what is free"),
    "ContainerCreating": WaitReason("its image is being pulled, or its volumes mounted"),
    "PodInitializing": WaitReason("its init containers run"),
}
"""Kubernetes' reason for waiting → its meaning. A report's reason begins with it."""

_CONTAINER_MEMORY: Final = (
    "The container needed more memory than it may have: kubectl describe pod shows its limit and its node. Raise "
    "resources.limits.memory (and requests), or use fewer DataLoader workers and less prefetching; /dev/shm as an "
    "emptyDir of medium Memory counts, too. A restart alone ends there again."
)
_CONTAINER_DISK: Final = (
    "The pod wrote more to its node's disk than there was, or than it may: write checkpoints, caches and logs to a "
    "volume, or raise resources.limits.ephemeral-storage and the emptyDir's sizeLimit; kubectl describe pod shows how"
    " much it used."
)
_POD_TAKEN: Final = (
    "Kubernetes took the pod away: its node was drained, shut down (spot reclaim) or short of something. kubectl get "
    "events and kubectl describe node tell why. Restart from the last checkpoint."
)
_POD_PREEMPTED: Final = (
    "A pod of higher priority took its place: kubectl get priorityclass, and priorityClassName in the manifest, say "
    "who goes first. Restart from the last checkpoint; it waits until there is room again."
)
_POD_NODE_LOST: Final = (
    "Its node is gone or did not answer: kubectl describe node says since when; dmesg and the cloud's console why. "
    "Restart from the last checkpoint; kubectl cordon keeps others off that node."
)
_POD_DEVICES: Final = (
    "Its node could not give it the devices that it had promised: kubectl describe node shows how many GPUs it has to"
    " give, the log of its device plugin why not. kubectl cordon it, and restart from the last checkpoint."
)
_POD_DEADLINE: Final = (
    "Nothing is broken: its activeDeadlineSeconds were over. Resume from the last checkpoint; for next time raise "
    "them in the manifest, or save a checkpoint more often."
)
_CONTAINER_NOT_STARTED: Final = (
    "The container did not start: kubectl describe pod says why: a command that is not in the image, a path that is "
    "no program, a device or driver that is not there. Without a change it will not start next time."
)
_RAY_NOT_SUBMITTED: Final = (
    "KubeRay did not submit the job: kubectl describe rayjob and the log of its submitter pod say why: the "
    "entrypoint, the runtime_env, a head that never was ready, a field that its version does not know."
)
ENDS: Final[Mapping[str, EndCause]] = {
    "OOMKilled": EndCause("oom", _CONTAINER_MEMORY),
    "Evicted (memory)": EndCause("oom", _CONTAINER_MEMORY),
    "Evicted (limit)": EndCause("storage", _CONTAINER_DISK),
    "Evicted (ephemeral-storage)": EndCause("storage", _CONTAINER_DISK),
    "Evicted": EndCause("cancelled", _POD_TAKEN),
    "PreemptionByScheduler": EndCause("cancelled", _POD_PREEMPTED),
    "Preempting": EndCause("cancelled", _POD_PREEMPTED),
    "EvictionByEvictionAPI": EndCause("cancelled", _POD_TAKEN),
    "NodeShutdown": EndCause("cancelled", _POD_TAKEN),
    "Shutdown": EndCause("cancelled", _POD_TAKEN),
    "Terminated": EndCause("cancelled", _POD_TAKEN),
    "DeletionByTaintManager": EndCause("hardware", _POD_NODE_LOST),
    "DeletionByPodGC": EndCause("hardware", _POD_NODE_LOST),
    "NodeLost": EndCause("hardware", _POD_NODE_LOST),
    "UnexpectedAdmissionError": EndCause("hardware", _POD_DEVICES),
    "DeadlineExceeded": EndCause("time_limit", _POD_DEADLINE),
    "StartError": EndCause("environment", _CONTAINER_NOT_STARTED),
    "ContainerCannotRun": EndCause("environment", _CONTAINER_NOT_STARTED),
    "SubmissionFailed": EndCause("environment", _RAY_NOT_SUBMITTED),
    "ValidationFailed": EndCause("environment", _RAY_NOT_SUBMITTED),
}
"""Kubernetes' word for how a pod or job ended → its cause."""


def wait_reason(reason: str) -> WaitReason:
    """The meaning of Kubernetes' ``reason``, as far as it is known."""
    return REASONS.get(reason.partition(":")[0].strip(), WaitReason())


def _log(job: str) -> str:
    kind, _, name = job.partition("/")
    return f"kubectl logs -l {_PODS[kind]}={name}" if kind in _PODS else f"kubectl logs {job}"


TRAITS: Final = LauncherTraits(
    remote=True,
    # kubectl outlives its caller, and the API server may already have its request.
    submit_is_atomic=False,
    takes_manifest=True,
    ends=ENDS,
    wait_reason=wait_reason,
    pending_remedy="kubectl describe ID, and its pods, show the rest",
    log_remedy=_log,
    reach={key: f"--{key}" for key in ("namespace", "context")},
)
