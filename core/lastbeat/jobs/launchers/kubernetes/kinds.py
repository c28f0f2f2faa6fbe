"""The kinds of Kubernetes objects that run training: what each is called, where its pod templates are, and how its pods
are found. Pure.

An object is JSON as the API server has it. A field that does not match the API's documentation counts as absent.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lastbeat.model.text import one_line

Object = dict[str, Any]
TEXT_LIMIT: Final = 500
"""Most characters kept of a message from the cluster. Some messages hold whole logs."""


def mapping(value: object, *path: str) -> Object:
    """The object in ``value`` under ``path``, or an empty one."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def listed(value: object, *path: str) -> list[Object]:
    """The objects of the list in ``value`` under ``path``."""
    found = mapping(value, *path[:-1]).get(path[-1]) if path else value
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(value: object, *path: str) -> str:
    """The text in ``value`` under ``path``, on one line and bounded, or an empty one."""
    found = mapping(value, *path[:-1]).get(path[-1]) if path else value
    return one_line(found[: 4 * TEXT_LIMIT])[:TEXT_LIMIT] if isinstance(found, str) else ""


def number(value: object, *path: str) -> int:
    """The whole number in ``value`` under ``path``, or 0."""
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
    """Name for kubectl, with the API group, so that it cannot match another group's kind of the same name."""
    selectors: Callable[[Object, str], list[str]]
    """Object and its name → label selectors of its pods."""
    templates: Callable[[Object], Iterator[Object]]
    """Pod templates in which training runs."""
    suspend: tuple[str, ...]
    """Path of the field that suspends the object, which ends its pods."""


def _at(*path: str) -> Callable[[Object], Iterator[Object]]:
    def templates(value: Object) -> Iterator[Object]:
        template = mapping(value, *path)
        if template:
            yield template

    return templates


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
    # The submitter's pod, and the pods of the cluster.
    return [f"job-name={name}", *([f"ray.io/cluster={cluster}"] if cluster else [])]


JOB: Final = Kind(
    "job",
    "batch/v1",
    "Job",
    "jobs.batch",
    # The newer label, batch.kubernetes.io/job-name, needs Kubernetes 1.27. Every version still sets this one.
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
"""Kinds by name, the commonest first."""


def kind_of(value: Object) -> Kind | None:
    """The kind of the object, or None if it does not run training."""
    return next(
        (each for each in KINDS.values() if (each.api, each.word) == (value.get("apiVersion"), value.get("kind"))), None
    )
