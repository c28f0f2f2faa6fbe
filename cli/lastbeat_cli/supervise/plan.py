"""``supervise --dry-run``: shows what would be run."""

import shlex
from datetime import datetime, timezone
from typing import Final

from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.jobs.checkpoints.survey import survey
from lastbeat.jobs.launchers import registry
from lastbeat.jobs.launchers.port import JobPreview, JobRefusedError
from lastbeat.jobs.supervision.restarting import NUMBER, job_name, spec_of
from lastbeat.jobs.supervision.supervisor import Supervisor
from lastbeat.model.action import Action
from lastbeat.model.as_json import picked
from lastbeat.model.checkpoint import Checkpoint
from lastbeat.model.job import JobSpec
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND, RESUME_FROM, RESUME_STEP, Budget, Supervision
from lastbeat.settings import Settings, SettingsError, opening, table
from lastbeat.watch.decide.restart import budgets_used
from lastbeat_cli import exits, places
from lastbeat_cli.policy.command import document as policy_document
from lastbeat_cli.supervise import config
from lastbeat_cli.supervise.config import WantedSupervision

_NEVER: Final = datetime.fromtimestamp(0, tz=timezone.utc)


def show(
    settings: Settings,
    supervisor: Supervisor,
    supervision: Supervision,
    record: Record | None = None,
    *,
    as_json: bool,
) -> int:
    """Print the first job, or the next one of a run with a ``record``. Returns the exit status."""

    opened = supervisor.checkpoints
    with places.named_by("correct --checkpoint-dir"):
        chosen = survey(opened(), stop_at_first=True).chosen if opened is not None else None
    policy = supervisor.policy
    number = record.job.number + 1 if record is not None and record.job is not None else 0
    name = job_name(supervisor.run_id, number)
    spec = _next(settings, supervisor.run_id, supervision, chosen, number)
    budgets: tuple[Budget, ...] = ()
    if policy is not None:
        past = record.restarts if record is not None else ()
        budgets = budgets_used(policy, past, chosen.step if chosen is not None else None, supervisor.store.clock())
    preview = _preview(supervision.launcher, spec, name, supervisor.store.clock())
    if as_json:
        said = config.document(wanted_from(settings, supervisor.run_id, supervision))
        said["plan"] = {
            "job_name": name,
            "runs": list(spec.command),
            "environment": dict(spec.environment),
            "output": spec.output,
            "resume_from": chosen.url if chosen is not None else None,
            "resume_step": chosen.step if chosen is not None else None,
            "policy": None if policy is None else policy_document(policy),
            "budgets": [picked(each, "name used limit") for each in budgets],
        }
        said["plan"] |= preview.fields
        print(config.dump(said))
        return exits.OK
    root, remote = opening.root_url(settings), launcher_traits(supervision.launcher).remote
    lines = [
        f"Run {supervisor.run_id} in {root}, by the launcher {supervision.launcher}: nothing was started",
        f"Command: {shlex.join((*spec.options, *spec.command))}",
        f"Folder: {spec.cwd or 'as the launcher has it'}",
        f"Output: {spec.output or ('brought to logs/ of the run' if remote else 'as the launcher has it')}",
        f"Checkpoint: {chosen.url if chosen is not None else 'none: training begins from the start'}",
        f"Policy: {supervision.policy_name or 'none: nothing is restarted'}",
        *([f"Budgets: {', '.join(map(str, budgets))}"] if budgets else []),
        *preview.lines,
    ]
    print("\n".join(lines))
    return exits.OK


def wanted_from(settings: Settings, run_id: str, supervision: Supervision) -> WantedSupervision:
    """The request that yields this supervision again, independent of the environment."""
    spec, policy = supervision.spec, settings.policy
    limits = {
        table.STALE_MINUTES.name: policy.stale_s,
        table.STALL_MINUTES.name: policy.stall_s,
        table.START_MINUTES.name: policy.start_grace_s,
    }
    said = {name: f"{seconds / 60:g}" for name, seconds in limits.items() if seconds is not None}
    said |= {
        table.MONITORING_ROOT.name: opening.root_url(settings),
        table.SIGNALS.name: settings[table.SIGNALS],
        table.RESTART_DELAY_SECONDS.name: f"{settings[table.RESTART_DELAY_SECONDS]:g}",
    }
    on_permanent = settings[table.ON_PERMANENT]
    said |= {table.ON_PERMANENT.name: on_permanent} if on_permanent is not None else {}
    return WantedSupervision(
        run_id,
        supervision.launcher,
        spec.command,
        spec.options,
        spec.cwd,
        spec.environment,
        spec.output,
        supervision.logs,
        supervision.policy,
        supervision.policy_name,
        supervision.checkpoints,
        said,
        None if policy.inactivity_s is None else policy.inactivity_s / 60,
        supervision.interval_s,
        spec.manifest,
    )


def _next(settings: Settings, run_id: str, supervision: Supervision, chosen: Checkpoint | None, number: int) -> JobSpec:
    """The spec of the job with that number."""
    details = {NUMBER: str(number)}
    if chosen is not None:
        details |= {RESUME_FROM: chosen.url, RESUME_STEP: "" if chosen.step is None else str(chosen.step)}
    action = Action(job_name(run_id, number), RESTART_KIND, supervision.begun_at or _NEVER, "", "", details=details)
    return spec_of(supervision, action, run_id, opening.root_url(settings))


def _preview(launcher: str, spec: JobSpec, name: str, now: datetime) -> JobPreview:
    """What the launcher would submit. Raises :class:`SettingsError` if that would be refused."""
    try:
        return registry.preview(launcher, spec, name, now)
    except JobRefusedError as error:
        raise SettingsError([error.told]) from None
