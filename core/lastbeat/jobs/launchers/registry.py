"""Kind of a launcher → the module that starts, finds and ends its jobs.

The kinds are those of :mod:`lastbeat.explain.launchers.traits`, where each has its facts and words.
"""

import importlib
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol, cast

from lastbeat.explain.launchers.traits import RECORDED
from lastbeat.jobs.launchers.port import JobPreview, Launcher
from lastbeat.model.job import AdoptedJob, JobSpec


class LauncherModule(Protocol):
    """What a package's module ``launcher`` provides."""

    def launcher(self, state: Path, options: Sequence[str] = (), place: str = "") -> Launcher:
        """The launcher. ``state`` is a folder of this user and machine in which it may remember jobs; ``options`` are
        those of the jobs, which may say where these are. Jobs in another ``place`` than this are unknown to it. Raises
        :class:`JobRefusedError` for options that it cannot go by."""
        ...

    def adoption(self, job: str, options: Sequence[str] = ()) -> AdoptedJob:
        """What is known of a job that lastbeat did not start, by the name or number that people know it by; ``options``
        may say where it is. Raises :class:`JobRefusedError` for a job that cannot be supervised,
        :class:`LauncherError` where it could not be asked."""
        ...


def module(kind: str) -> LauncherModule:
    """The module of the launcher ``kind``. Raises ``KeyError`` for one that is not in RECORDED."""
    if kind not in RECORDED:
        raise KeyError(kind)
    package = f"lastbeat.jobs.launchers.{kind.replace('-', '_')}"
    return cast("LauncherModule", importlib.import_module(f"{package}.launcher"))


def preview(kind: str, spec: JobSpec, name: str, now: datetime) -> JobPreview:
    """The script or request that would start ``spec`` under ``name`` at ``now``; empty if the command and the options
    say it all. Starts nothing. Raises :class:`JobRefusedError` if the launcher would refuse it."""
    made: Callable[..., JobPreview] | None = getattr(module(kind), "preview", None)
    return JobPreview() if made is None else made(spec, name, now)
