"""Starts and ends jobs: the executors of restarts and of stops. The first start of a run's job is a restart, too.

A job is ended because its policy's ``on:`` says so, a person does, or it failed for good.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.jobs.launchers.filling import fill, filled
from lastbeat.jobs.launchers.port import JobRefusedError, Launcher, LauncherError, NotLaunchedError
from lastbeat.model.action import Action
from lastbeat.model.job import JobSpec, JobState
from lastbeat.model.reaction import STOP_KIND
from lastbeat.model.restart import BEGUN, RESTART_KIND, RESUME_FROM, RESUME_STEP, Supervision
from lastbeat.model.runid import RECORD
from lastbeat.model.times import format_time
from lastbeat.stores.clock import AGREES_S
from lastbeat.stores.port import Store, StoreError
from lastbeat.watch.effects.actions import ExecutorError, NotDoneError, RefusedError

OLD_JOB: Final = "old_job"
"""In an action's details: the id of the job that must be dead before the new one starts."""
NUMBER: Final = "number"
EXCLUDED_NODES: Final = "excluded_nodes"
CLOCKS: Final = timedelta(minutes=10)
"""How far the launcher's clock may be behind the store's. A job of the same name that is older belongs to a run whose
record is gone."""
_MOST_PAGES: Final = 20
"""Most pages of a listing of the run's folder, each of a thousand files."""
_AGAIN_S: Final = 2.0
"""How soon it is looked again whether the old job has ended."""
FAILED: Final = "failed"
"""In an action's details: the job failed for good, so its end is asked for until it is dead."""
TOLD: Final = "told"
"""Beside it: an alert has told that the job is being ended."""
_END_AGAIN_S: Final = 10.0
"""Seconds between two checks of a job whose state is unknown."""


def job_name(run_id: str, number: int) -> str:
    """The name under which a run's job is submitted: each is used once, so the launcher can be asked for it."""
    return f"{run_id}-r{number}"


def spec_of(supervision: Supervision, action: Action, run_id: str, root: str) -> JobSpec:
    """What the job of ``action`` runs: templates in its arguments filled in, and what training wants to know in its
    environment.

    Raises :class:`NotDoneError` if ``supervision`` is not the one of the action: a person has begun the run again, with
    another command."""
    begun = action.details.get(BEGUN)
    if begun is not None and supervision.begun_at is not None and begun != supervision.begun_at.isoformat():
        raise NotDoneError(f"{run_id} has begun again meanwhile: another supervisor starts it", retry_after_s=_AGAIN_S)
    number, details = action.details.get(NUMBER, "0"), action.details
    values = {"run_id": run_id, "attempt": str(int(number) + 1), "job_name": action.name}
    resume = {name: details[name] for name in (RESUME_FROM, RESUME_STEP) if details.get(name)}
    spec = supervision.spec
    environment = {
        **spec.environment,
        "LASTBEAT_RUN_ID": run_id,
        "LASTBEAT_ATTEMPT": values["attempt"],
        "LASTBEAT_RESTART_COUNT": number,
        "MONITORING_ROOT": root,
        **{f"LASTBEAT_{name.upper()}": value for name, value in resume.items()},
    }
    more = tuple(node for node in details.get(EXCLUDED_NODES, "").split(",") if node)
    return replace(
        spec,
        command=filled(spec.command, {**values, **resume}),
        environment=environment,
        output=fill(spec.output, values),
        excluded_nodes=tuple(dict.fromkeys((*spec.excluded_nodes, *more))),
    )


def last_written(store: Store, run_id: str) -> datetime | None:
    """When anything but the watchdog's own record was last written into the run's folder, by the store's stamps. Raises
    :class:`StoreError`."""
    last, after = None, ""
    for _ in range(_MOST_PAGES):
        page = store.list(f"{run_id}/", after)
        times = (each.modified for each in page.entries if each.fault is None and each.key != f"{run_id}/{RECORD}")
        last = max([*times, *([last] if last is not None else [])], default=None)
        if not page.more:
            break
        after = page.entries[-1].key
    return last


class RestartExecutor:
    """Ends the old job, waits until it is dead, and submits the new one, once."""

    kind = RESTART_KIND

    def __init__(
        self,
        launcher: Launcher,
        spec: Callable[[Action], JobSpec],
        clock: Callable[[], datetime],
        last_written: Callable[[], datetime | None],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``clock`` and ``last_written`` are the store's: its time, and when anything of the run was last written."""
        self._launcher = launcher
        self._spec = spec
        self._clock = clock
        self._last_written = last_written
        self._sleep = sleep

    @property
    def limit_s(self) -> float:
        return 2 * self._launcher.limit_s

    def find(self, action: Action) -> str | None:
        try:
            return self._launcher.find(action.name, action.asked_at - CLOCKS)
        except LauncherError as error:
            raise ExecutorError(error.told) from None

    def perform(self, action: Action) -> str:
        old = action.details.get(OLD_JOB)
        if old:
            confirm_dead(self._launcher, old)
        at = self._cut()
        job = submit(self._launcher, self._spec(action), action.name, action)
        return f"{job} {format_time(at)}"

    def _cut(self) -> datetime:
        """The time that parts what is there from what the next job will write.

        Where stamps have whole seconds, the last one of the old job may be the first of the new one, and the clock that
        is asked may be behind the one that stamps. So the cut is the old job's own last stamp, and the new job begins a
        second later.
        """
        try:
            last = self._last_written()
        except StoreError as error:
            raise NotDoneError(f"what the last job wrote cannot be looked at: {error}") from None
        if last is None:
            return self._clock()
        if last.microsecond:
            return max(self._clock(), last + timedelta(microseconds=1))
        after = last + timedelta(seconds=1)
        if self._clock() < after + timedelta(seconds=AGREES_S):
            self._sleep(1.0)
        return max(self._clock(), after)


def submit(launcher: Launcher, spec: JobSpec, name: str, action: Action) -> str:
    """The id of the job that was started for ``action``. Raises the errors of executors."""
    try:
        return launcher.submit(spec, name, action.asked_at - CLOCKS)
    except JobRefusedError as error:
        raise RefusedError(error.told) from None
    except NotLaunchedError as error:
        raise NotDoneError(error.told) from None
    except LauncherError as error:
        raise ExecutorError(error.told) from None


def confirm_dead(launcher: Launcher, old: str) -> None:
    """End the job ``old``. Raises :class:`NotDoneError` until it is dead: two writers on one checkpoint are worse than
    an hour lost."""
    report = launcher.state(old)
    if report.state is JobState.UNKNOWN:
        raise NotDoneError(f"whether job {old} has ended is unknown: {report.reason}")
    if report.state.ended:
        return
    try:
        launcher.cancel(old)
    except LauncherError as error:
        # It may have been heard all the same.
        raise NotDoneError(f"job {old} could not be ended: {error.told}", begun=True) from None
    raise NotDoneError(f"job {old} is being ended", retry_after_s=_AGAIN_S, begun=True)


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
            raise NotDoneError(f"whether it has ended is unknown: {report.reason}", retry_after_s=_END_AGAIN_S)
        return f"it has ended: {report.state}" if report.state.ended else None

    def perform(self, action: Action) -> str:
        if FAILED in action.details:
            confirm_dead(self._launcher, action.details[OLD_JOB])
            return "it has ended"
        try:
            self._launcher.cancel(action.details[OLD_JOB])
        except LauncherError as error:
            # Requesting the end twice does no harm.
            raise NotDoneError(error.told) from None
        return "its end was asked for"
