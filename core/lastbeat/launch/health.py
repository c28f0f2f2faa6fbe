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
    """The newest complete checkpoint in ``checkpoint_dir``, as a path or an address: that which a restart would take.
    None: there is none, so that training begins anew.

    A folder is one of this machine, unless ``head_pod`` names the pod in which it is. Raises :class:`NotReachedError`
    where it cannot be looked at, for that does not say that there is none.
    """
    with translated():
        cluster = reach(head_pod, namespace) if head_pod else None
        chosen = surveyed(checkpoint_dir, cluster, stop_at_first=True).chosen
    return None if chosen is None else chosen.url


def check_gpu_utilization(
    head_pod: str, all_pods: Sequence[str] | str | None = None, namespace: str = _DEFAULT_NAMESPACE
) -> GpuUtilization:
    """How busy the GPUs are now: those of ``all_pods``, else of the head pod, by ``nvidia-smi`` in them; of an address
    those of all nodes, as the dashboard tells. Averages are over all GPUs of all places. The namespace may be the
    second argument, too: ``check_gpu_utilization("ray-head", "ml")``.

    Raises :class:`NotSetUpError` where no try can succeed, and :class:`NotReachedError` where no place could be asked;
    why only some could not be is among the ``faults``.
    """
    pods = _pods(all_pods)
    if isinstance(all_pods, str) and namespace == _DEFAULT_NAMESPACE:
        pods, namespace = (), all_pods
    with translated():
        return clusters.gpus_of(reach(head_pod, namespace, pods))


def _pods(named: Sequence[str] | str | None) -> Sequence[str]:
    """The names of pods; text is one name."""
    return (named,) if isinstance(named, str) else named or ()


def verify_ray_resources(head_pod: str, namespace: str = "default") -> RayResources:
    """What the cluster has, and what of it is given out. Raises :class:`NotSetUpError` and :class:`NotReachedError`."""
    with translated():
        return clusters.resources_of(reach(head_pod, namespace))


def check_efa_utilization(head_pod: str, namespace: str = "default") -> EfaUtilization:
    """Whether NCCL's traffic goes over EFA, by what NCCL says (with NCCL_DEBUG=INFO) in the logs of Ray's workers and
    drivers. That an EFA device is there says nothing. Raises :class:`NotSetUpError` and :class:`NotReachedError`."""
    with translated():
        return clusters.efa_of(reach(head_pod, namespace))


def get_training_health(
    head_pod: str,
    checkpoint_dir: str | None = None,
    all_pods: Sequence[str] | str | None = None,
    namespace: str = _DEFAULT_NAMESPACE,
) -> TrainingHealth:
    """All of it, and what is wrong, with what to do. What could not be asked is an issue; ``gpu`` and ``checkpoints``
    have their usual keys then, and say why.

    Raises :class:`NotSetUpError` where nothing can ever be asked as things are: no kubectl, no such pod, an address
    that is none.
    """
    with translated():
        return clusters.health_of(reach(head_pod, namespace, _pods(all_pods)), checkpoint_dir)


def print_training_health(
    head_pod: str | TrainingHealth,
    checkpoint_dir: str | None = None,
    all_pods: Sequence[str] | str | None = None,
    namespace: str = _DEFAULT_NAMESPACE,
) -> TrainingHealth:
    """Print what :func:`get_training_health` returns, and return it. Raises the same. The first argument may be such a
    report itself."""
    if not isinstance(head_pod, str | TrainingHealth):
        what = f"print_training_health cannot print a {type(head_pod).__name__}"
        raise NotSetUpError(what, "hand it what get_training_health returned, or the arguments of that")
    report = head_pod if isinstance(head_pod, TrainingHealth) else None
    found = report or get_training_health(str(head_pod), checkpoint_dir, all_pods, namespace)
    print("\n".join(lines(found)))  # noqa: T201 - that is what it is for
    return found
