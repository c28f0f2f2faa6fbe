"""What can go wrong when a cluster is asked, and what to do about it."""

from typing import Final

FIND_JOBS: Final = "`ray job list` on the head shows those that there are"


class LaunchError(Exception):
    """Something could not be done on the cluster. ``str()`` is one line without secrets; ``advice``, which says what to
    do, is at its end."""

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(f"{what}; {advice}" if advice else what)
        self.advice = advice


class NotReachedError(LaunchError):
    """The cluster did not answer, or not in time: nothing follows from it, and a later try may succeed."""


class NotSetUpError(LaunchError):
    """No try will succeed as things are: no kubectl, no such pod, no permission, an address that is none."""


class JobNotFoundError(LaunchError):
    """The cluster answers, and knows no such job: its id is another, or Ray's head was started anew since."""

    def __init__(self, job: str) -> None:
        super().__init__(f"there is no job {job!r:.200}", FIND_JOBS)


class NotSubmittedError(LaunchError):
    """The cluster did not take the job: it certainly does not run."""


class UncertainError(LaunchError):
    """Nobody knows whether the job was submitted: it was asked for, and no clear answer came."""

    def __init__(self, job: str, why: str) -> None:
        again = f"submit it again with config['submission_id'] = {job!r:.200}: Ray takes an id once"
        super().__init__(f"whether job {job:.200} was submitted is not known: {why}", again)
        self.submission_id = job
        """Under this one it runs, if it does."""
