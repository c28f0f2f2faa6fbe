"""Begins a supervision: writes into the run's record how its jobs are started, and asks for the first one."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from lastbeat.jobs.launchers.port import Launcher, LauncherError
from lastbeat.jobs.supervision.lease import SupervisorLease
from lastbeat.jobs.supervision.restart_decisions import present_job
from lastbeat.jobs.supervision.restarting import CLOCKS, NUMBER, OLD_JOB, job_name
from lastbeat.model.action import Action
from lastbeat.model.job import AdoptedJob, JobMemory, JobState
from lastbeat.model.reaction import COMMAND_KIND, STOP_KIND, ReactionMemory
from lastbeat.model.record import Record
from lastbeat.model.restart import BEGUN, RESTART_KIND, RESUME_FROM, RESUME_STEP, FoundCheckpoint, Supervision
from lastbeat.model.times import format_time
from lastbeat.stores.port import ConflictError
from lastbeat.watch.effects import actions
from lastbeat.watch.record.repository import RecordRepository

_MOST_TAKEN: Final = 100


class NotBegunError(Exception):
    """The supervision cannot begin; ``str()`` says why, and what to do."""


def begin(  # noqa: PLR0913 - what, by whom, where, when, and from where on
    repository: RecordRepository,
    run_id: str,
    supervision: Supervision,
    launcher: Launcher,
    now: datetime,
    resume: tuple[str, int | None] | None,
    *,
    lease: SupervisorLease | None = None,
    adopted: AdoptedJob | None = None,
) -> None:
    """Record ``supervision``, and that its first job is wanted. ``resume`` is the checkpoint that it begins from. With
    ``lease``, the run is taken over from the watcher of the last job. ``adopted`` is a running job that becomes the
    first one, so that nothing is started.

    Its name is one that the launcher does not know: a job that has it is another run's of this id, whose record is
    gone.

    Raises :class:`NotBegunError` while an earlier job may live, and :class:`StoreError`.
    """
    try:
        supervision = replace(supervision, place=launcher.place())
    except LauncherError as error:
        raise NotBegunError(f"where its jobs will run cannot be found out: {error.told}") from None

    def change(before: Record | None) -> Record:
        record = before or Record(run_id=run_id, first_looked_at=now)
        job = _last_job(record, launcher)
        number = _free_number(launcher, run_id, 0 if job is None else job.number + 1, now)
        details = {NUMBER: str(number), OLD_JOB: job.id if job is not None else ""}
        if supervision.begun_at is not None:
            details[BEGUN] = supervision.begun_at.isoformat()
        if resume is not None:
            details |= {RESUME_FROM: resume[0], RESUME_STEP: "" if resume[1] is None else str(resume[1])}
        known = {name: text for name, text in details.items() if text}
        first = Action(job_name(run_id, number), RESTART_KIND, now, supervision.by, "begun by a person", details=known)
        if adopted is not None:
            # It may be younger than the store's clock, which is none of the launcher's.
            began_at = min(now, adopted.began_at or now)
            first = replace(first, why="adopted", done_at=now, result=f"{adopted.id} {format_time(began_at)}")
        # What was refused never happened, and its name is free again. What the last supervision reacted to is over.
        kept = (each for each in record.actions if each.kind not in {COMMAND_KIND, STOP_KIND})
        others = tuple(each for each in kept if each.name != first.name or each.failed is None)
        fresh = ReactionMemory(transitions=record.transitions)
        found = None if resume is None else FoundCheckpoint(resume[0], resume[1], found_at=now)
        begun = replace(
            record,
            supervision=supervision,
            restarts=(),
            ruling=None,
            actions=others,
            checkpoint=found,
            reactions=fresh,
        )
        return actions.request(begun if lease is None else lease.with_lease(begun, now), first)

    try:
        repository.update(change, now)
    except ConflictError:
        what = f"{run_id}: its record changed at every try: too many watchers at once; try again"
        raise NotBegunError(what) from None


def _last_job(record: Record, launcher: Launcher) -> JobMemory | None:
    """The run's last job, which has ended."""
    if any(each.kind == RESTART_KIND and not each.settled for each in record.actions):
        what = f"{record.run_id} is supervised, and its next job is about to start"
        raise NotBegunError(f"{what}; go on with: lastbeat restart {record.run_id}")
    if record.supervision is None:
        return None
    job = present_job(record, record.supervision.launcher)
    if job is None:
        return None
    if job.launcher != launcher.kind:
        if not job.state.ended:
            raise NotBegunError(
                f"{record.run_id} has job {job.id} of {job.launcher}; "
                f"end it first, or go on with it by lastbeat restart {record.run_id}"
            )
        return job
    report = launcher.state(job.id)
    if report.state is JobState.UNKNOWN:
        raise NotBegunError(
            f"{record.run_id} has a job already, {job.id}, and whether it has ended is unknown ({report.reason}); "
            f"go on with it by lastbeat restart {record.run_id}, or take another run id"
        )
    if not report.state.ended:
        raise NotBegunError(
            f"{record.run_id} has a job already, {job.id} ({report.state}); "
            f"go on with it by lastbeat restart {record.run_id}"
        )
    return job


def _free_number(launcher: Launcher, run_id: str, first: int, now: datetime) -> int:
    for number in range(first, first + _MOST_TAKEN):
        name = job_name(run_id, number)
        try:
            job = launcher.find(name, now - CLOCKS)
        except LauncherError as error:
            raise NotBegunError(f"whether there is a job {name} already cannot be found out: {error.told}") from None
        if job is None:
            return number
        if not launcher.state(job).state.ended:
            raise NotBegunError(f"{name} runs already, as job {job}, without a record here: end it, or take another id")
    raise NotBegunError(
        f"{_MOST_TAKEN} jobs of {run_id} were started within the last minutes; wait, or take another id"
    )
