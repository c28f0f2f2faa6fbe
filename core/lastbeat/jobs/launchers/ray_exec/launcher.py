"""Runs jobs on Ray through Ray's own commands in its head pod, for scripts that reach their cluster by kubectl.

``lastbeat.launch.ray`` begins such runs. Their records name this launcher and the pod, so another process reaches their
jobs in the same way.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from lastbeat.explain.launchers.ray_exec import TRAITS
from lastbeat.jobs.launchers.kubectl import Kubectl
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError
from lastbeat.jobs.launchers.ray.launcher import RayLauncher
from lastbeat.jobs.launchers.ray_exec.jobs import CALL_S, PodJobs
from lastbeat.jobs.launchers.ray_pod.pod_files import PodFiles
from lastbeat.jobs.launchers.ray_pod.pod_python import PodPython
from lastbeat.model.job import AdoptedJob, JobSpec
from lastbeat.stores.port import Store


def launcher(state: Path, options: Sequence[str] = (), place: str = "") -> "RayExecLauncher":
    """The launcher of the head pod in ``place``."""
    head = TRAITS.ray_head(options, place)
    if head is None or not head.pod:
        raise JobRefusedError("ray-exec needs the place of its jobs", "lastbeat.launch.ray.auto_restart records it")
    return RayExecLauncher(PodJobs(Kubectl(head.namespace, call_s=CALL_S), head.pod), place)


def adoption(job: str, options: Sequence[str] = ()) -> AdoptedJob:
    """Refused: only a script knows the pod."""
    raise JobRefusedError("ray-exec adopts no jobs by itself", "lastbeat.launch.ray.auto_restart does, with the pod")


class RayExecLauncher(RayLauncher):
    """Submits jobs and queries them in one pod."""

    kind = "ray-exec"

    def __init__(
        self, jobs: PodJobs, place: str = "", *, completed: Callable[[JobSpec], JobSpec] = lambda spec: spec
    ) -> None:
        super().__init__(jobs, completed=completed)
        self._pod = jobs
        self._first_place = place

    @property
    def reached_by(self) -> tuple[str, ...]:
        return ()

    def place(self) -> str:
        """Raises :class:`LauncherError` where kubectl talks to another cluster than at first: nothing follows from what
        that one knows, and nothing is to be started there."""
        here = self._pod.place()
        self._first_place = self._first_place or here
        if here != self._first_place:
            raise LauncherError(f"its jobs are in {self._first_place}, and this is {here}", "switch kubectl back")
        return here

    def _check_place(self) -> None:
        self.place()

    def files(self, path: str) -> Store | None:
        return pod_files(self._pod, path)


def pod_files(jobs: PodJobs, path: str) -> Store | None:
    """A read-only store of a folder in the head pod, or None for an address."""
    return None if "://" in path else PodFiles(PodPython(jobs.kubectl, jobs.pod, jobs.container), path)
