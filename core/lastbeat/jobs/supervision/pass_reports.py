"""The launcher's reports on all jobs of an agent's pass, from one query."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from lastbeat.jobs.launchers.port import Launcher
from lastbeat.model.job import JobReport


class PassReports:
    """Reports on jobs, each of which counts once: a second check within a pass asks the launcher again."""

    def __init__(self, launcher: Launcher, clock: Callable[[], datetime]) -> None:
        self.launcher: Final = launcher
        self._clock = clock
        self._asked_at: datetime | None = None
        self._reports: dict[str, JobReport] = {}

    @contextmanager
    def asked(self, jobs: Collection[str]) -> Iterator[None]:
        """Ask about ``jobs``. What the launcher answers holds until the end of the block."""
        self._asked_at = self._clock()
        self._reports = dict(self.launcher.states(jobs)) if jobs else {}
        try:
            yield
        finally:
            self._reports = {}

    def take(self, job: str, written_at: datetime | None) -> JobReport | None:
        """The report on ``job``, or None if the job has to be asked about by itself. ``written_at``: when its run's
        record was written. A decision never rests on evidence older than the record that it changes."""
        report = self._reports.pop(job, None)
        is_older = self._asked_at is not None and written_at is not None and written_at > self._asked_at
        return None if is_older else report
