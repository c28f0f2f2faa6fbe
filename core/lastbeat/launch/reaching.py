"""``head_pod`` as people write it → the cluster; and what launchers raise → what the library's face raises."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lastbeat.launch.by_dashboard import DashboardCluster
from lastbeat.launch.by_kubectl import CALL_S, PodCluster, PodJobs
from lastbeat.launch.cluster import RayCluster
from lastbeat.launch.errors import LaunchError, NotReachedError, NotSetUpError
from lastbeat.launch.ray_words import Gpus
from lastbeat.launchers.kubectl import AbsentError, Kubectl
from lastbeat.launchers.port import JobRefusedError, LauncherError
from lastbeat.launchers.ray import jobs as ray_jobs
from lastbeat.launchers.ray.jobs import RayJobs


def reach(
    head_pod: str,
    namespace: str = "",
    all_pods: Sequence[str] = (),
    *,
    container: str = "",
    context: str = "",
) -> RayCluster:
    """The cluster of ``head_pod``: of a dashboard's address (``http://HOST:8265``), or of a pod by its name. Asks
    nothing yet. Raises :class:`NotSetUpError` for what is neither."""
    with translated():
        if "://" in head_pod:
            cluster = DashboardCluster(RayJobs(ray_jobs.address(head_pod, "head_pod")))
            return cluster if not all_pods else _WithPods(cluster, PodCluster(_pod(all_pods[0], namespace), all_pods))
        return PodCluster(_pod(head_pod, namespace, container, context), all_pods)


def _pod(name: str, namespace: str, container: str = "", context: str = "") -> PodJobs:
    return PodJobs(Kubectl(namespace, context, CALL_S), name, container)


class _WithPods(DashboardCluster):
    """A cluster by its dashboard, whose GPUs are asked about in its pods: that is the nearer answer."""

    def __init__(self, cluster: DashboardCluster, pods: PodCluster) -> None:
        super().__init__(cluster.jobs)
        self._pods = pods

    def gpus(self) -> tuple[Sequence[Gpus], Sequence[str]]:
        return self._pods.gpus()


@contextmanager
def translated() -> Iterator[None]:
    """Raises what launchers raise as a :class:`LaunchError`."""
    try:
        yield
    except LauncherError as error:
        fault = told(error)
    else:
        return
    # Raised here, so that nothing secret in a request is chained to it.
    raise fault


def told(error: LauncherError) -> LaunchError:
    """``error`` in the words of the library's face."""
    never = isinstance(error, JobRefusedError | AbsentError)
    return (NotSetUpError if never else NotReachedError)(str(error), error.advice)
