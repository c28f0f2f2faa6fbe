"""All launchers. A new one is a module and a line here."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, cast

from lastbeat.launchers.port import Launcher
from lastbeat.model.job import AdoptedJob

LAUNCHERS: Final[dict[str, str]] = {
    "kubernetes": "lastbeat.launchers.kubernetes.launcher",
    "local": "lastbeat.launchers.local.launcher",
    "ray": "lastbeat.launchers.ray.launcher",
    "ray-pod": "lastbeat.launchers.ray_pod.launcher",
    "slurm": "lastbeat.launchers.slurm.launcher",
}
"""Kind → module, imported on demand."""


class LauncherModule(Protocol):
    """What a launcher's module provides."""

    @property
    def NEEDS_STATE(self) -> bool:  # noqa: N802 - a module's constant
        """Whether it can start nothing where it cannot write into its folder."""
        ...

    @property
    def DIES_WITH_CALLER(self) -> bool:  # noqa: N802 - a module's constant
        """Whether a submission of which the caller died has happened or never will, as :meth:`Launcher.find` tells, or
        that it cannot: nothing of it is on its way."""
        ...

    @property
    def REMOTE(self) -> bool:  # noqa: N802 - as above
        """Whether its jobs run where this machine's folders and environment are not: paths of theirs are their own,
        they inherit nothing from whoever starts them, and what they write is asked for (:meth:`Launcher.output`)."""
        ...

    def launcher(self, state: Path, options: Sequence[str] = (), place: str = "") -> Launcher:
        """The launcher. ``state`` is a folder of this user and machine in which it may remember jobs; ``options`` are
        those of the jobs, which may say where these are. Of jobs in another ``place`` than this nothing is told. Raises
        :class:`JobRefusedError` for options of which nothing can come."""
        ...

    def adoption(self, job: str, options: Sequence[str] = ()) -> AdoptedJob:
        """What is known of a job that somebody else started, by the name or number that people know it by; ``options``
        may say where it is. Raises
        :class:`JobRefusedError` for what cannot be supervised, :class:`LauncherError` where it could not be asked."""
        ...


def module(kind: str) -> LauncherModule:
    """The module of the launcher ``kind``. Raises ``KeyError`` for one that is not in LAUNCHERS."""
    return cast("LauncherModule", importlib.import_module(LAUNCHERS[kind]))
