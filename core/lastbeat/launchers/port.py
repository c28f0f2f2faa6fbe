"""The launcher port."""

from collections.abc import Collection, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple, Protocol

from lastbeat.model.job import JobReport, JobSpec
from lastbeat.stores.port import Store


class LauncherError(Exception):
    """Nobody knows whether it happened: there was no answer, or an unclear one. ``str()`` is one line without secrets,
    ``advice`` what to do."""

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(what)
        self.advice = advice

    @property
    def told(self) -> str:
        """What was wrong and what to do, on one line."""
        return f"{self}; {self.advice}" if self.advice else str(self)


class NotLaunchedError(LauncherError):
    """It certainly did not happen, and may be tried again."""


class JobRefusedError(LauncherError):
    """It certainly did not happen, and never will as it is: an unknown partition, a script that is not there."""


class JobPreview(NamedTuple):
    """What a launcher would hand over to its cluster. Empty: no more than the job's own command and options."""

    fields: Mapping[str, object] = MappingProxyType({})
    """For programs; each can be written as JSON."""
    lines: tuple[str, ...] = ()
    """For people."""


class Launcher(Protocol):
    """One kind of place where jobs run. Every call is bounded in time and in what it reads."""

    @property
    def kind(self) -> str:
        """Its name in the registry: ``local``, ``slurm``, ``ray``."""
        ...

    @property
    def limit_s(self) -> float:
        """The longest that one call takes, in s."""
        ...

    def place(self) -> str:
        """A name of the cluster or machine that it serves, and of the user: jobs of another one are not its business,
        nor can it find them. Raises :class:`LauncherError` where that cannot be told."""
        ...

    def submit(self, spec: JobSpec, name: str, since: datetime) -> str:
        """Start a job under ``name``, unless :meth:`find` finds one. Returns its id.

        Raises :class:`LauncherError`; after the plain one, :meth:`find` tells whether it runs.
        """
        ...

    def find(self, name: str, since: datetime) -> str | None:
        """The id of the job that was submitted under ``name``, at ``since`` or later; None: there certainly is none.
        An older one is another run's of the same id, whose record is gone. Raises :class:`LauncherError` where that
        cannot be told."""
        ...

    def state(self, job: str) -> JobReport:
        """What is known of the job. Never raises: a launcher that does not answer is ``UNKNOWN``."""
        ...

    def states(self, jobs: Collection[str]) -> Mapping[str, JobReport]:
        """What one query tells of many jobs: the same as :meth:`state`, which has to be asked about each job that the
        query leaves out. Never raises: while the launcher does not answer, all of them are ``UNKNOWN``."""
        ...

    def output(self, job: str, most: int) -> bytes | None:
        """The end of what the job has written: whole lines, ``most`` bytes at most. None: it lies in the files that its
        report names. Raises :class:`LauncherError` where it could not be had."""
        ...

    def files(self, path: str) -> Store | None:
        """Where a path of its jobs is read, as a store below that path. None: on this machine, as anybody reads it."""
        ...

    def cancel(self, job: str) -> None:
        """Ask for the job's end; :meth:`state` tells when it has come. Of a job that has ended, nothing. Raises
        :class:`LauncherError` if it could not be asked."""
        ...
