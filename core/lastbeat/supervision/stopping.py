"""Ends a job because its policy's ``on:`` says so: the executor of such stops."""

from typing import Final

from lastbeat.effects.executor import NotDoneError
from lastbeat.launchers.port import Launcher, LauncherError
from lastbeat.model.action import Action
from lastbeat.model.job import JobState
from lastbeat.model.reaction import STOP_KIND
from lastbeat.supervision.restarting import OLD_JOB

_AGAIN_S: Final = 10.0


class StopExecutor:
    """Asks for the job's end, once. How it ended is seen by later looks."""

    kind = STOP_KIND

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    @property
    def limit_s(self) -> float:
        return 2 * self._launcher.limit_s

    def find(self, action: Action) -> str | None:
        report = self._launcher.state(action.details.get(OLD_JOB, ""))
        if report.state is JobState.UNKNOWN:
            raise NotDoneError(f"nobody can tell whether it has ended: {report.reason}", retry_after_s=_AGAIN_S)
        return f"it has ended: {report.state}" if report.state.ended else None

    def perform(self, action: Action) -> str:
        try:
            self._launcher.cancel(action.details[OLD_JOB])
        except LauncherError as error:
            # Whoever asks twice for an end does no harm.
            raise NotDoneError(error.told) from None
        return "its end was asked for"
