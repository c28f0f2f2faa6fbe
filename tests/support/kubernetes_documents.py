"""What ``kubectl get -o json`` shows, shaped as the documents of these versions have it: batch/v1 of Kubernetes 1.27 to
1.31, JobSet 0.5, the training operator 1.8, KubeRay 1.2. They are written after the APIs' documentation and its public
examples: no API server is to be had where these tests run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]
AT = "2026-03-01T12:00:{:02d}Z"
"""Second → time."""


def condition(kind: str, reason: str, message: str = "", second: int = 50, status: str = "True") -> Object:
    """One of an object's or a pod's conditions."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": AT.format(second),
        "lastTransitionTime": AT.format(second),
    }


def job(*conditions: Object, spec: Mapping[str, Any] = {}, **status: Any) -> Object:
    """A Job, by default one that runs."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "llama-r0-1", "namespace": "ml", "uid": "a1", "creationTimestamp": AT.format(0)},
        "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 0, "suspend": False, **spec},
        "status": {"startTime": AT.format(0), **status, **({"conditions": list(conditions)} if conditions else {})},
    }


COMPLETE = (condition("SuccessCriteriaMet", "CompletionsReached"), condition("Complete", "CompletionsReached"))
"""As 1.31 has them; before that Complete is alone, and has no reason."""
BACKOFF = "Job has reached the specified backoff limit"
FAILED = (
    condition("FailureTarget", "BackoffLimitExceeded", BACKOFF),
    condition("Failed", "BackoffLimitExceeded", BACKOFF),
)


def jobset(*conditions: Object, suspend: bool = False, **status: Any) -> Object:
    """A JobSet."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "llama-r0-1", "namespace": "ml", "creationTimestamp": AT.format(0)},
        "spec": {"suspend": suspend, "replicatedJobs": [{"name": "workers", "replicas": 1}]},
        "status": {"restarts": 0, "conditions": list(conditions), **status},
    }


def pytorchjob(*conditions: Object, **status: Any) -> Object:
    """A PyTorchJob."""
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "llama-r0-1", "namespace": "ml", "creationTimestamp": AT.format(0)},
        "spec": {"runPolicy": {"suspend": False}},
        "status": {"conditions": [condition("Created", "PyTorchJobCreated", second=0), *conditions], **status},
    }


def rayjob(job_status: str, deployment: str, **status: Any) -> Object:
    """A RayJob."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "llama-r0-1", "namespace": "ml", "creationTimestamp": AT.format(0)},
        "spec": {"suspend": False, "shutdownAfterJobFinishes": True},
        "status": {
            "jobId": "llama-r0-1-x7k2p",
            "jobStatus": job_status,
            "jobDeploymentStatus": deployment,
            "rayClusterName": "llama-r0-1-raycluster-q9wz2",
            "startTime": AT.format(0),
            **status,
        },
    }


def waiting(reason: str, message: str = "", **more: Any) -> Object:
    """A container that does not run."""
    return {"ready": False, "restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}, **more}


def running(second: int = 5, **more: Any) -> Object:
    """A container that runs."""
    return {"ready": True, "restartCount": 0, "state": {"running": {"startedAt": AT.format(second)}}, **more}


def terminated(code: int, reason: str = "Error", second: int = 40, **more: Any) -> Object:
    """A container that has ended."""
    state = {"exitCode": code, "reason": reason, "startedAt": AT.format(5), "finishedAt": AT.format(second), **more}
    return {"ready": False, "restartCount": 0, "state": {"terminated": state}}


def pod(
    name: str = "p0",
    phase: str = "Running",
    containers: Sequence[Object] = (),
    conditions: Sequence[Object] = (),
    *,
    node: str = "n1",
    labels: Mapping[str, str] = {},
    created: int = 1,
    deleting: bool = False,
    **status: Any,
) -> Object:
    """A pod, by default one that runs."""
    found = list(containers) or [running() if phase == "Running" else {}]
    statuses = [{"name": f"c{number}" if number else "train", **each} for number, each in enumerate(found) if each]
    ending = {"deletionTimestamp": AT.format(45), "deletionGracePeriodSeconds": 30} if deleting else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels), "creationTimestamp": AT.format(created), **ending},
        "spec": {"containers": [{"name": each["name"]} for each in statuses], **({"nodeName": node} if node else {})},
        "status": {
            "phase": phase,
            "conditions": list(conditions),
            **({"containerStatuses": statuses} if statuses else {}),
            **status,
        },
    }


def failed(*containers: Object, name: str = "p0", **more: Any) -> Object:
    """A pod that failed."""
    return pod(name, "Failed", containers, **more)


def disrupted(why: str, words: str = "", second: int = 39, **more: Any) -> Object:
    """A pod that somebody takes away, or has taken away."""
    more.setdefault("phase", "Failed")
    return pod(conditions=[condition("DisruptionTarget", why, words, second)], **more)


def unschedulable(message: str) -> Object:
    """A pod that no node takes."""
    return pod(
        "p0", "Pending", conditions=[condition("PodScheduled", "Unschedulable", message, status="False")], node=""
    )
