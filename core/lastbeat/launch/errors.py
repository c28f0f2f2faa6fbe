"""The errors of ``lastbeat.launch.ray``, each with advice."""

from typing import Final

FIND_JOBS: Final = "`ray job list` on the head shows those that there are"


class LaunchError(Exception):
    """A request to the cluster failed. ``str()`` is one line without secrets, and ends with ``advice``: what to do."""

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(f"{what}; {advice}" if advice else what)
        self.advice = advice


class NotReachedError(LaunchError):
    """The cluster did not answer, or not in time. That says nothing about the job, and a later try may succeed."""


class NotSetUpError(LaunchError):
    """No try will succeed as things are: no kubectl, no such pod, no permission, an invalid address."""


class JobNotFoundError(LaunchError):
    """The cluster answers that it knows no such job: the id is wrong, or Ray's head has restarted since."""

    def __init__(self, job: str) -> None:
        super().__init__(f"there is no job {job!r:.200}", FIND_JOBS)


class NotSubmittedError(LaunchError):
    """The cluster did not accept the job, so it certainly does not run."""


class UncertainError(LaunchError):
    """It is unknown whether the job was submitted, because no clear answer came."""

    def __init__(self, job: str, why: str) -> None:
        again = f"submit it again with config['submission_id'] = {job!r:.200}: Ray takes an id once"
        super().__init__(f"whether job {job:.200} was submitted is not known: {why}", again)
        self.submission_id = job
        """The id of the job, if it runs."""
