"""All launchers. A new one is a package, and a line here."""

import importlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from lastbeat.launchers.traits import LauncherTraits
from lastbeat.model.job import AdoptedJob, JobSpec

if TYPE_CHECKING:
    from lastbeat.launchers.port import JobPreview, Launcher

LAUNCHERS: Final[dict[str, str]] = {
    "kubernetes": "lastbeat.launchers.kubernetes",
    "local": "lastbeat.launchers.local",
    "ray": "lastbeat.launchers.ray",
    "ray-pod": "lastbeat.launchers.ray_pod",
    "slurm": "lastbeat.launchers.slurm",
}
"""Kind → package, whose modules ``launcher`` and ``traits`` are imported on demand."""
RECORDED: Final = {**LAUNCHERS, "ray-exec": "lastbeat.launchers.ray_exec"}
"""Kinds that stand in records. ``lastbeat.launch.ray`` alone begins runs of ``ray-exec``."""
_UNKNOWN: Final = LauncherTraits()


class LauncherModule(Protocol):
    """What a package's module ``launcher`` provides."""

    def launcher(self, state: Path, options: Sequence[str] = (), place: str = "") -> "Launcher":
        """The launcher. ``state`` is a folder of this user and machine in which it may remember jobs; ``options`` are
        those of the jobs, which may say where these are. Jobs in another ``place`` than this are unknown to it. Raises
        :class:`JobRefusedError` for options that it cannot go by."""
        ...

    def adoption(self, job: str, options: Sequence[str] = ()) -> AdoptedJob:
        """What is known of a job that lastbeat did not start, by the name or number that people know it by; ``options``
        may say where it is. Raises :class:`JobRefusedError` for a job that cannot be supervised,
        :class:`LauncherError` where it could not be asked."""
        ...

    def preview(self, spec: JobSpec, name: str, now: datetime) -> "JobPreview":
        """The script or request that would start ``spec`` under ``name`` at ``now``. Starts nothing. Raises
        :class:`JobRefusedError` if the launcher would refuse it."""
        ...


def module(kind: str) -> LauncherModule:
    """The module of the launcher ``kind``. Raises ``KeyError`` for one that is not in RECORDED."""
    return cast("LauncherModule", importlib.import_module(f"{RECORDED[kind]}.launcher"))


def traits(kind: str) -> LauncherTraits:
    """The traits of the launcher ``kind``, as a record names it. One that lastbeat does not know has the defaults."""
    if kind not in RECORDED:
        return _UNKNOWN
    found: LauncherTraits = importlib.import_module(f"{RECORDED[kind]}.traits").TRAITS
    return found


def subsystems() -> frozenset[str]:
    """The subsystems of failures that only a launcher explains."""
    return frozenset(filter(None, (traits(kind).subsystem for kind in LAUNCHERS)))
