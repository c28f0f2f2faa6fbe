"""The health of a cluster and of a training run on it, as functions for scripts."""

from collections.abc import Sequence
from typing import Final

from lastbeat.jobs.health import clusters
from lastbeat.jobs.health.checkpoints import surveyed
from lastbeat.jobs.health.lines import lines
from lastbeat.launch.errors import NotSetUpError
from lastbeat.launch.reaching import reach, translated
from lastbeat.model.training_health import EfaUtilization, GpuUtilization, RayResources, TrainingHealth

_DEFAULT_NAMESPACE: Final = "default"


def find_latest_checkpoint(checkpoint_dir: str, head_pod: str = "", namespace: str = _DEFAULT_NAMESPACE) -> str | None:
    """Path or address of the newest complete checkpoint in ``checkpoint_dir``, which a restart would use. None: there
    is none, so a job would start from the beginning.

    A folder is one of this machine, unless ``head_pod`` names the pod in which it is. Raises :class:`NotReachedError`
    if the folder cannot be listed, because that does not mean that it has no checkpoint.
    """
    with translated():
        cluster = reach(head_pod, namespace) if head_pod else None
        chosen = surveyed(checkpoint_dir, cluster, stop_at_first=True).chosen
    return None if chosen is None else chosen.url


def check_gpu_utilization(
    head_pod: str, all_pods: Sequence[str] | str | None = None, namespace: str = _DEFAULT_NAMESPACE
) -> GpuUtilization:
    """How busy the GPUs are now: by ``nvidia-smi`` in ``all_pods`` or else in the head pod, or by the dashboard for all
    nodes if an address is given. Averages are over all GPUs. The namespace may also be the second argument:
    ``check_gpu_utilization("ray-head", "ml")``.

    Raises :class:`NotSetUpError` if no try can succeed, and :class:`NotReachedError` if no place could be asked. If
    only some could not be asked, ``faults`` says why.
    """
    pods = _pods(all_pods)
    if isinstance(all_pods, str) and namespace == _DEFAULT_NAMESPACE:
        pods, namespace = (), all_pods
    with translated():
        return clusters.gpus_of(reach(head_pod, namespace, pods))


def _pods(named: Sequence[str] | str | None) -> Sequence[str]:
    """The names of pods; a text is one name."""
    return (named,) if isinstance(named, str) else named or ()


def verify_ray_resources(head_pod: str, namespace: str = "default") -> RayResources:
    """The cluster's GPUs and CPUs, and how many Ray has given out. Raises :class:`NotSetUpError` and
    :class:`NotReachedError`."""
    with translated():
        return clusters.resources_of(reach(head_pod, namespace))


def check_efa_utilization(head_pod: str, namespace: str = "default") -> EfaUtilization:
    """Whether NCCL uses EFA, by NCCL's lines (with NCCL_DEBUG=INFO) in the logs of Ray's workers and drivers. That an
    EFA device exists does not count. Raises :class:`NotSetUpError` and :class:`NotReachedError`."""
    with translated():
        return clusters.efa_of(reach(head_pod, namespace))


def get_training_health(
    head_pod: str,
    checkpoint_dir: str | None = None,
    all_pods: Sequence[str] | str | None = None,
    namespace: str = _DEFAULT_NAMESPACE,
) -> TrainingHealth:
    """The health of GPUs, network, Ray's resources and checkpoints, and each problem with its remedy. A part that could
    not be asked is an issue; ``gpu`` and ``checkpoints`` keep their keys then, and say why.

    Raises :class:`NotSetUpError` if no try can succeed as things are: no kubectl, no such pod, an invalid address.
    """
    with translated():
        return clusters.health_of(reach(head_pod, namespace, _pods(all_pods)), checkpoint_dir)


def print_training_health(
    head_pod: str | TrainingHealth,
    checkpoint_dir: str | None = None,
    all_pods: Sequence[str] | str | None = None,
    namespace: str = _DEFAULT_NAMESPACE,
) -> TrainingHealth:
    """Print the report of :func:`get_training_health`, and return it. Raises the same. The first argument may be a
    report instead."""
    if not isinstance(head_pod, str | TrainingHealth):
        what = f"print_training_health cannot print a {type(head_pod).__name__}"
        raise NotSetUpError(what, "hand it what get_training_health returned, or the arguments of that")
    report = head_pod if isinstance(head_pod, TrainingHealth) else None
    found = report or get_training_health(str(head_pod), checkpoint_dir, all_pods, namespace)
    print("\n".join(lines(found)))  # noqa: T201 - that is what it is for
    return found
