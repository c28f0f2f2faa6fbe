"""A Ray cluster as a whole, asked in its head pod, or by its dashboard and in its pods with GPUs."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from lastbeat.explain.launchers.traits import RayHead
from lastbeat.jobs.launchers.asking import Answer
from lastbeat.jobs.launchers.kubectl import Kubectl, check_name
from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.launchers.ray import jobs as ray_jobs
from lastbeat.jobs.launchers.ray.dashboard import DashboardCluster
from lastbeat.jobs.launchers.ray.gpus import GPU_QUERY, PROCESS_QUERY, Gpus, gpus_in, processes_in
from lastbeat.jobs.launchers.ray.jobs import RayJobs
from lastbeat.jobs.launchers.ray.launcher import RayLauncher
from lastbeat.jobs.launchers.ray_exec.jobs import CALL_S, NOT_FOUND, PodJobs
from lastbeat.jobs.launchers.ray_exec.launcher import RayExecLauncher, pod_files
from lastbeat.model.job import JobSpec
from lastbeat.model.text import one_line
from lastbeat.stores.port import Store

_MOST_NETWORK_BYTES: Final = 1 << 18
# Each rank says it when it begins, so the first lines of each log tell; the newest log comes last.
_NETWORK: Final = (
    'cd "${RAY_TMPDIR:-/tmp}/ray/session_latest/logs" 2>/dev/null || exit 0; '
    "ls -tr worker*.out job-driver-*.log 2>/dev/null | tail -n 64 | while IFS= read -r log; do "
    'grep -aE "NET/|Using network|FI_PROVIDER|FI_EFA_|NET plugin|uverbs|/efa" "./$log" | head -n 50 | cut -c 1-400; '
    'done | tail -c "$1"'
)


class PodCluster:
    """The cluster of a head pod, as :class:`DashboardCluster` is that of a dashboard."""

    def __init__(self, jobs: PodJobs, gpu_pods: Sequence[str] = ()) -> None:
        """``gpu_pods`` are the pods with GPUs; the default is the head pod. Raises :class:`JobRefusedError` for a name
        that cannot be a pod's."""
        self.jobs = jobs
        self._gpu_pods = tuple(check_name("pod", each) for each in gpu_pods) or (jobs.pod,)

    def launcher(self, completed: Callable[[JobSpec], JobSpec]) -> RayLauncher:
        return RayExecLauncher(self.jobs, completed=completed)

    def gpus(self) -> tuple[Sequence[Gpus], Sequence[str]]:
        answers = [self._gpus_or_fault(pod) for pod in self._gpu_pods]
        return [each for each in answers if isinstance(each, Gpus)], [each for each in answers if isinstance(each, str)]

    def _gpus_or_fault(self, pod: str) -> Gpus | str:
        try:
            return self._gpus_of(pod)
        except LauncherError as error:
            return f"pod {pod}: {error.told}"

    def _gpus_of(self, pod: str) -> Gpus:
        form = "--format=csv,noheader,nounits"
        answer = self._exec(pod, ["nvidia-smi", GPU_QUERY, form])
        if answer.code in NOT_FOUND:
            raise LauncherError("there is no nvidia-smi in it", "name the pods that have GPUs")
        if answer.code != 0:
            # Where the driver cannot be reached it says so on its output.
            last = [line for line in (answer.err + answer.out).splitlines() if line.strip()]
            said = one_line(last[-1])[:300] if last else f"exit status {answer.code}"
            raise LauncherError(f"nvidia-smi: {said}", "look at the node's driver")
        try:
            gpus = gpus_in(answer.out)
        except ValueError as error:
            raise LauncherError(f"nvidia-smi printed no list of GPUs: {error}") from None
        apps = self._exec(pod, ["nvidia-smi", PROCESS_QUERY, form])
        return gpus._replace(processes=processes_in(apps.out, pod) if apps.code == 0 else ())

    def _exec(self, pod: str, command: Sequence[str]) -> Answer:
        container = self.jobs.container if pod == self.jobs.pod else ""
        return self.jobs.kubectl.exec(pod, command, container=container)

    def files(self, path: str) -> Store | None:
        return pod_files(self.jobs, path)

    def network_lines(self) -> str:
        answer = self.jobs.exec(["sh", "-c", _NETWORK, "sh", f"{_MOST_NETWORK_BYTES}"])
        if answer.code != 0:
            raise self.jobs.fault(answer)
        return answer.out


class _WithPods(DashboardCluster):
    """A dashboard's cluster whose GPUs are asked about in its pods, because that is the nearer answer."""

    def __init__(self, jobs: RayJobs, pods: PodCluster) -> None:
        super().__init__(jobs)
        self._pods = pods

    def gpus(self) -> tuple[Sequence[Gpus], Sequence[str]]:
        return self._pods.gpus()


RayCluster: TypeAlias = DashboardCluster | PodCluster
"""One cluster: its jobs, GPUs, files and network. Every call is bounded in time and in what it reads. Raises
:class:`LauncherError` if the cluster does not answer, :class:`JobRefusedError` if it never will as things are."""


def reach(head: RayHead, gpu_pods: Sequence[str] = ()) -> RayCluster:
    """The cluster of ``head``; ``gpu_pods`` are its pods with GPUs. Raises :class:`JobRefusedError` for an invalid name
    or address, :class:`LauncherError` where kubectl asks another cluster than that of the head."""
    if head.pod is None:
        jobs = RayJobs(ray_jobs.address(head.address, "head_pod"))
        if not gpu_pods:
            return DashboardCluster(jobs)
        return _WithPods(jobs, PodCluster(PodJobs(Kubectl(head.namespace, call_s=CALL_S), gpu_pods[0]), gpu_pods))
    kubectl = Kubectl(head.namespace, head.context, CALL_S)
    cluster = PodCluster(PodJobs(kubectl, head.pod, head.container), gpu_pods)
    if head.place and (here := cluster.jobs.place()) != head.place:
        raise LauncherError(f"its head is {head.place}, and kubectl asks {here}", "choose its context")
    return cluster
