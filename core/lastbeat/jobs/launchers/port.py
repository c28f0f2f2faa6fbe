"""What a launcher must offer; its module offers what ``registry.LauncherModule`` lists."""

from collections.abc import Collection, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple, Protocol

from lastbeat.model.job import JobReport, JobSpec
from lastbeat.stores.port import Store


class LauncherError(Exception):
    """It is unknown whether the call took effect: there was no answer, or an unclear one. ``str()`` is one line without
    secrets; ``advice`` says what to do."""

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(what)
        self.advice = advice

    @property
    def told(self) -> str:
        """What was wrong and what to do, on one line."""
        return f"{self}; {self.advice}" if self.advice else str(self)


class TooLongError(LauncherError):
    """The answer is longer than the limit for reading."""


class NotLaunchedError(LauncherError):
    """The call certainly had no effect, and may be repeated."""


class JobRefusedError(LauncherError):
    """The call certainly had no effect, and never will without a change: an unknown partition, a missing script."""


class JobPreview(NamedTuple):
    """What a launcher would submit to its cluster. Empty if that is only the job's command and options."""

    fields: Mapping[str, object] = MappingProxyType({})
    """Fields for programs. Each can be written as JSON."""
    lines: tuple[str, ...] = ()
    """Lines for people."""


class Launcher(Protocol):
    """One kind of place where jobs run. Every call is bounded in time and in what it reads. The defaults are those of
    jobs that are asked about one by one, and whose files lie here."""

    @property
    def kind(self) -> str:
        """Its name in the registry: ``local``, ``slurm``, ``ray``."""
        ...

    @property
    def limit_s(self) -> float:
        """The longest that one call takes, in s."""
        ...

    def place(self) -> str:
        """A name of the cluster or machine, and of the user. The launcher cannot find jobs of another place. Raises
        :class:`LauncherError` if the place is unknown."""
        ...

    def submit(self, spec: JobSpec, name: str, since: datetime) -> str:
        """Start a job under ``name``, unless :meth:`find` finds one. Returns its id.

        Raises :class:`LauncherError`. After a plain one, :meth:`find` says whether the job was submitted.
        """
        ...

    def find(self, name: str, since: datetime) -> str | None:
        """The id of the job submitted under ``name`` at ``since`` or later, or None if there certainly is none. An
        older job belongs to a run of the same id whose record is gone. Raises :class:`LauncherError` if that is
        unknown."""
        ...

    def state(self, job: str) -> JobReport:
        """The job's report. Never raises: its state is ``UNKNOWN`` if the launcher does not answer."""
        ...

    def states(self, jobs: Collection[str]) -> Mapping[str, JobReport]:  # noqa: ARG002 - a default
        """Job → report, for many jobs by one query, equal to that of :meth:`state`. The query may leave out jobs; query
        those with :meth:`state`. Never raises: all are ``UNKNOWN`` while the launcher does not answer."""
        return {}

    def output(self, job: str, most: int) -> bytes | None:  # noqa: ARG002 - a default
        """The last whole lines of the job's output, ``most`` bytes at most. None if the output is in the files that its
        report names. Raises :class:`LauncherError` if it could not be read."""
        return None

    def files(self, path: str) -> Store | None:  # noqa: ARG002 - a default
        """A store that reads files of its jobs below ``path``, or None if this machine reads the path directly."""
        return None

    def cancel(self, job: str) -> None:
        """Request the job's end; :meth:`state` says when it has ended. Does nothing to a job that has ended. Raises
        :class:`LauncherError` if the request failed."""
        ...
