"""Ends a job that is not to run on: its policy's ``on:`` says so, a person does, or it failed for good."""

from typing import Final

from lastbeat.jobs.launchers.port import Launcher, LauncherError
from lastbeat.jobs.supervision.restarting import OLD_JOB, confirm_dead
from lastbeat.model.action import Action
from lastbeat.model.job import JobState
from lastbeat.model.reaction import STOP_KIND
from lastbeat.watch.effects.actions import NotDoneError

FAILED: Final = "failed"
"""In an action's details: the job failed for good, so its end is asked for until it is dead."""
TOLD: Final = "told"
"""Beside it: an alert has told that the job is being ended."""
_AGAIN_S: Final = 10.0


class StopExecutor:
    """Asks for the job's end: once, so that it may save a checkpoint; of one that failed, until it is dead. How it
    ended is seen by later looks."""

    kind = STOP_KIND

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    @property
    def limit_s(self) -> float:
        return 2 * self._launcher.limit_s

    def find(self, action: Action) -> str | None:
        report = self._launcher.state(action.details.get(OLD_JOB, ""))
        if report.state is JobState.UNKNOWN:
            raise NotDoneError(f"whether it has ended is unknown: {report.reason}", retry_after_s=_AGAIN_S)
        return f"it has ended: {report.state}" if report.state.ended else None

    def perform(self, action: Action) -> str:
        if FAILED in action.details:
            confirm_dead(self._launcher, action.details[OLD_JOB])
            return "it has ended"
        try:
            self._launcher.cancel(action.details[OLD_JOB])
        except LauncherError as error:
            # Whoever asks twice for an end does no harm.
            raise NotDoneError(error.told) from None
        return "its end was asked for"
