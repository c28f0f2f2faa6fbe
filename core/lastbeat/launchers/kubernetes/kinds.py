"""The kinds of Kubernetes objects that run training: what each is called, where its pod templates are, and how its pods
are found. Pure.

An object is JSON as the API server has it. What is not as the API documents it counts as not there.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lastbeat.model.text import one_line

Object = dict[str, Any]
TEXT_LIMIT: Final = 500
"""Characters of a message of the cluster's. Some hold whole logs."""


def mapping(value: object, *path: str) -> Object:
    """What stands in ``value`` under ``path``, if that is an object; else an empty one."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def listed(value: object, *path: str) -> list[Object]:
    """The objects of the list in ``value`` under ``path``."""
    found = mapping(value, *path[:-1]).get(path[-1]) if path else value
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(value: object, *path: str) -> str:
    """The text in ``value`` under ``path``, on one line and bounded; else an empty one."""
    found = mapping(value, *path[:-1]).get(path[-1]) if path else value
    return one_line(found[: 4 * TEXT_LIMIT])[:TEXT_LIMIT] if isinstance(found, str) else ""


def number(value: object, *path: str) -> int:
    """The whole number in ``value`` under ``path``; else 0."""
    found = mapping(value, *path[:-1]).get(path[-1]) if path else value
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object."""

    name: str
    """In a job's id: ``job/llama-r0-3f2a``."""
    api: str
    word: str
    """Its ``apiVersion`` and ``kind`` in a manifest."""
    resource: str
    """As kubectl is asked for it: with its group, so that no other one of that name is meant."""
    selectors: Callable[[Object, str], list[str]]
    """Object and its name → label selectors of its pods."""
    templates: Callable[[Object], Iterator[Object]]
    """Pod templates in which training runs."""
    suspend: tuple[str, ...]
    """Where it is told to hold still without pods."""


def _at(*path: str) -> Callable[[Object], Iterator[Object]]:
    def found(value: Object) -> Iterator[Object]:
        template = mapping(value, *path)
        if template:
            yield template

    return found


def _of_jobset(value: Object) -> Iterator[Object]:
    for each in listed(value, "spec", "replicatedJobs"):
        yield from _at("template", "spec", "template")(each)


def _of_pytorch(value: Object) -> Iterator[Object]:
    for each in mapping(value, "spec", "pytorchReplicaSpecs").values():
        yield from _at("template")(each if isinstance(each, dict) else {})


def _of_ray(value: Object) -> Iterator[Object]:
    cluster = mapping(value, "spec", "rayClusterSpec")
    yield from _at("headGroupSpec", "template")(cluster)
    for group in listed(cluster, "workerGroupSpecs"):
        yield from _at("template")(group)
    yield from _at("spec", "submitterPodTemplate")(value)


def _ray_pods(value: Object, name: str) -> list[str]:
    cluster = text(value, "status", "rayClusterName")
    # The pod that submits, and those of the cluster.
    return [f"job-name={name}", *([f"ray.io/cluster={cluster}"] if cluster else [])]


JOB: Final = Kind(
    "job",
    "batch/v1",
    "Job",
    "jobs.batch",
    # Its newer name, batch.kubernetes.io/job-name, is not there before 1.27; this one still is.
    lambda _value, name: [f"job-name={name}"],
    _at("spec", "template"),
    ("spec", "suspend"),
)
JOBSET: Final = Kind(
    "jobset",
    "jobset.x-k8s.io/v1alpha2",
    "JobSet",
    "jobsets.jobset.x-k8s.io",
    lambda _value, name: [f"jobset.sigs.k8s.io/jobset-name={name}"],
    _of_jobset,
    ("spec", "suspend"),
)
PYTORCHJOB: Final = Kind(
    "pytorchjob",
    "kubeflow.org/v1",
    "PyTorchJob",
    "pytorchjobs.kubeflow.org",
    lambda _value, name: [f"training.kubeflow.org/job-name={name}"],
    _of_pytorch,
    ("spec", "runPolicy", "suspend"),
)
RAYJOB: Final = Kind(
    "rayjob",
    "ray.io/v1",
    "RayJob",
    "rayjobs.ray.io",
    _ray_pods,
    _of_ray,
    ("spec", "suspend"),
)
KINDS: Final[Mapping[str, Kind]] = {each.name: each for each in (JOB, JOBSET, PYTORCHJOB, RAYJOB)}
"""By name, the commonest first."""


def kind_of(value: Object) -> Kind | None:
    """The kind of that object; None: none that runs training."""
    return next(
        (each for each in KINDS.values() if (each.api, each.word) == (value.get("apiVersion"), value.get("kind"))), None
    )
