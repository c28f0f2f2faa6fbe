"""The port to a Ray cluster: its jobs, GPUs, files and network, asked by its dashboard or in its head pod."""

from collections.abc import Callable, Sequence
from typing import Protocol

from lastbeat.jobs.launchers.ray.gpus import Gpus
from lastbeat.jobs.launchers.ray.jobs import JobsApi
from lastbeat.jobs.launchers.ray.launcher import RayLauncher
from lastbeat.model.job import JobSpec
from lastbeat.stores.port import Store


class RayCluster(Protocol):
    """One cluster. Every call is bounded in time and in what it reads. Raises :class:`LauncherError` if the cluster
    does not answer, :class:`JobRefusedError` if it never will as things are."""

    @property
    def jobs(self) -> JobsApi:
        """Its jobs, and its resources."""
        ...

    def launcher(self, completed: Callable[[JobSpec], JobSpec]) -> RayLauncher:
        """The launcher of its jobs, as :class:`RayLauncher` has it."""
        ...

    def gpus(self) -> tuple[Sequence[Gpus], Sequence[str]]:
        """The GPUs of each place that could be asked, and why others could not."""
        ...

    def files(self, path: str) -> Store | None:
        """A read-only store of a folder that only the cluster sees. None: the path is read from this machine."""
        ...

    def network_lines(self) -> str:
        """NCCL's lines in the logs of Ray's workers and drivers, the newest log last. Empty: there are none."""
        ...
