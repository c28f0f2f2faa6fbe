"""The cluster of a ``head_pod`` as people write it, and launchers' errors as errors of ``lastbeat.launch.ray``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lastbeat.explain.launchers.traits import RayHead
from lastbeat.jobs.launchers.kubectl import AbsentError
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError
from lastbeat.jobs.launchers.ray_exec import cluster
from lastbeat.jobs.launchers.ray_exec.cluster import RayCluster
from lastbeat.launch.errors import LaunchError, NotReachedError, NotSetUpError
from lastbeat.stores.port import StoreError


def reach(head_pod: str, namespace: str, all_pods: Sequence[str] = ()) -> RayCluster:
    """The cluster of ``head_pod``, which is a dashboard's address (``http://HOST:8265``) or a pod's name. Asks nothing
    yet. Raises :class:`NotSetUpError` for what is neither."""
    named = RayHead(head_pod, namespace=namespace) if "://" in head_pod else RayHead("", head_pod, namespace)
    with translated():
        return cluster.reach(named, all_pods)


@contextmanager
def translated() -> Iterator[None]:
    """Raises what launchers and stores of checkpoints raise as a :class:`LaunchError`."""
    try:
        yield
    except (LauncherError, StoreError) as error:
        fault = launch_error(error)
    else:
        return
    # Raised here, so that nothing secret in a request is chained to it.
    raise fault


def launch_error(error: LauncherError | StoreError) -> LaunchError:
    """``error`` as one of ``lastbeat.launch.ray``."""
    never = isinstance(error, JobRefusedError | AbsentError)
    return (NotSetUpError if never else NotReachedError)(str(error), error.advice)
