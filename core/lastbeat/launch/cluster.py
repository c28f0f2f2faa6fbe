"""The port to a Ray cluster, as the functions of ``lastbeat.launch.ray`` ask it: by its dashboard or its head pod."""

from collections.abc import Sequence
from typing import Protocol

from lastbeat.launch.ray_words import Gpus
from lastbeat.launch.results import JobStatus, RayResources
from lastbeat.launchers.ray.jobs import JobsApi
from lastbeat.stores.port import Store


class RayCluster(Protocol):
    """One cluster. Every call is bounded in time and in what it reads, and raises :class:`LauncherError` where it gets
    no answer; :class:`JobRefusedError` where it never will as things are."""

    @property
    def jobs(self) -> JobsApi:
        """Its jobs."""
        ...

    def status(self, job: str) -> JobStatus | None:
        """The job's state. None: the cluster answered that it knows no such job."""
        ...

    def resources(self) -> RayResources | None:
        """What it has, and has given out. None: it does not tell."""
        ...

    def gpus(self) -> tuple[Sequence[Gpus], Sequence[str]]:
        """The GPUs of each place that could be asked, and why others could not."""
        ...

    def files(self, path: str) -> Store | None:
        """A folder that the cluster alone sees, as a store that is only read. None: it is looked for from here."""
        ...

    def network_lines(self) -> str:
        """Lines of NCCL in the logs of Ray's workers and drivers, the newest log last. Empty: there are none."""
        ...
