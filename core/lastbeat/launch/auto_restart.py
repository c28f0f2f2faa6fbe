"""Restarts a Ray job as long as that helps: ``lastbeat supervise --adopt`` for a script of three lines.

The arguments become a restart policy, and the job is adopted. Its state is in a record, so a script that died and runs
again continues with the job that it had started, and never starts a second one while the first may live.
"""

import hashlib
import json
import logging
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lastbeat import settings as configuration
from lastbeat.jobs.health.checkpoints import surveyed
from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.launchers.ray_exec.cluster import RayCluster
from lastbeat.jobs.restarts import loading
from lastbeat.jobs.supervision import loop
from lastbeat.jobs.supervision.beginning import NotBegunError, begin
from lastbeat.jobs.supervision.configured import supervise, supervised_watch
from lastbeat.jobs.supervision.lease import SupervisorLease
from lastbeat.jobs.supervision.restart_decisions import KEPT_RESTARTS, present_job
from lastbeat.launch.errors import JobNotFoundError, NotSetUpError
from lastbeat.launch.jobs import progress_in
from lastbeat.launch.reaching import reach, translated
from lastbeat.launch.results import RestartResult
from lastbeat.model.job import AdoptedJob, JobSpec
from lastbeat.model.outcome import Outcome
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND, LeaseHolder, RestartPolicy, Supervision
from lastbeat.model.runid import InvalidRunIdError, check_run_id
from lastbeat.model.secrets import is_secret, mask_tokens
from lastbeat.model.status import Status
from lastbeat.model.text import one_line
from lastbeat.settings import Settings, SettingsError, opening, table
from lastbeat.settings.channels import configured_channels
from lastbeat.stores.clock import steady_clock
from lastbeat.stores.port import StoreError
from lastbeat.watch.record.repository import RecordRepository
from lastbeat.watch.watchdog import Watch

log = logging.getLogger(__name__)

_POLICY: Final = "auto_restart"
_BY: Final = "lastbeat.launch.ray.auto_restart"
_MOST_RETRIES: Final = KEPT_RESTARTS - 1
"""Retries are counted from the restarts that a record keeps."""
_NEVER: Final = 1000
"""Failures at one step that end the restarts: more than there are restarts."""
_WINDOW_HOURS: Final = 10_000
_MOST_LOG_BYTES: Final = 1 << 20
_RACES: Final = 5
"""How often a supervision may fail to begin. Another process may have begun it, so the loop takes the lease and reads
the record again. :func:`begin` has the races for the write itself."""


def auto_restart(  # noqa: PLR0913, PLR0917 - the arguments that people's scripts have
    head_pod: str,
    job_name: str,
    checkpoint_dir: str,
    max_retries: int = 10,
    retry_delay: float = 60,
    stagnation_threshold: float = 300,
    check_interval: float = 30,
    namespace: str = "default",
) -> RestartResult:
    """Watch the job until it has ended well. Stop it if it makes no step for ``stagnation_threshold`` seconds. Start it
    again ``retry_delay`` seconds after it failed or was stopped, at most ``max_retries`` times. The delay doubles with
    each restart in a row, to at most half an hour; a newer checkpoint begins a new row.

    ``job_name`` is its submission id. The next job gets the entrypoint and the runtime environment that Ray reports, an
    id of its own, and the newest complete checkpoint of ``checkpoint_dir`` in LASTBEAT_RESUME_FROM (its step in
    LASTBEAT_RESUME_STEP). A folder is one of the head pod, or of this machine if an address is given. A cluster that
    does not answer is no failure: no job starts while the last one may live. Alerts go where the settings say.

    Returns when the job has ended for good. Raises :class:`JobNotFoundError` if there is no such job,
    :class:`NotReachedError` if cluster or checkpoints cannot be asked at the beginning, and :class:`NotSetUpError` if
    no try can succeed as things are.
    """
    terms = Terms(max_retries, retry_delay, stagnation_threshold, check_interval)
    cluster = reach(head_pod, namespace)
    try:
        return _Restarts(cluster, job_name, checkpoint_dir, terms).to_the_end()
    except SettingsError as error:
        fault = NotSetUpError("; ".join(error.faults))
    except StoreError as error:
        fault = NotSetUpError(f"the record of {_run_id(job_name)} cannot be kept: {error}", error.advice)
    except NotBegunError as error:
        fault = NotSetUpError(str(error))
    raise fault


@dataclass(frozen=True, slots=True)
class Terms:
    """The arguments of :func:`auto_restart`, checked; times are in s."""

    max_retries: int
    retry_delay_s: float
    stagnation_s: float
    interval_s: float

    def __post_init__(self) -> None:
        if not 0 <= self.max_retries <= _MOST_RETRIES:
            raise NotSetUpError(f"max_retries={self.max_retries} is not between 0 and {_MOST_RETRIES}")
        if self.retry_delay_s < 0 or self.stagnation_s <= 0 or self.interval_s <= 0:
            what = "retry_delay, stagnation_threshold and check_interval are seconds, the last two more than 0"
            raise NotSetUpError(what, "use for example 60")

    @property
    def policy_text(self) -> str:
        """The restart policy, as the text of a policy file."""
        restarts = {"class_name": "AlwaysRestartPolicy", "max_retries": self.max_retries}
        policies = [{"mode": mode, "implementation": restarts} for mode in ("crash", "stall", "timeout")]
        return json.dumps(
            {
                "description": "Restarts whatever ends, but not a success.",
                "policies": [*policies, {"mode": "success", "implementation": {"class_name": "NoRestartPolicy"}}],
                # Also where checkpoints advance: max_retries counts all restarts.
                "budgets": {"window": {"restarts": self.max_retries, "hours": _WINDOW_HOURS}},
                "same_step_times": _NEVER,
                "least_confidence": 0,
            }
        )

    @property
    def policy(self) -> RestartPolicy:
        """The policy of :attr:`policy_text`."""
        return loading.load_text(self.policy_text, f"{_POLICY}.yaml", _POLICY)

    @property
    def settings(self) -> dict[str, str]:
        """Settings of the run. A stall is a fault after twice this limit."""
        return {table.STALL_MINUTES.name: f"{self.stagnation_s / 120:.9f}"}


class _Restarts:
    """A job and its successors."""

    def __init__(self, cluster: RayCluster, job_name: str, checkpoint_dir: str, terms: "Terms") -> None:
        """Raises :class:`SettingsError`."""
        self._terms = terms
        self._settings, self._own = _settings(terms)
        self._cluster = cluster
        self._launcher = cluster.launcher(self._completed)
        self._job_name = job_name
        self._run_id = _run_id(job_name)
        here = "://" not in checkpoint_dir and cluster.files(checkpoint_dir) is None
        self._checkpoints = str(Path(checkpoint_dir).absolute()) if here else checkpoint_dir
        self._like = AdoptedJob("", None)
        """A job of the run as Ray reports it. The next one is made from it. It may hold secrets."""

    def to_the_end(self) -> RestartResult:
        """Supervise them until the run is over. Raises SettingsError, StoreError, NotBegunError and LaunchError."""
        with translated():
            # If checkpoints cannot be read now, no job could resume from them later.
            surveyed(self._checkpoints, self._cluster, stop_at_first=True)
        repository = RecordRepository.of_run(opening.store(self._settings), self._run_id)
        # If the record cannot be read now, that is an error. Later the loop waits for it.
        repository.reload()
        lease = SupervisorLease(_BY, os.urandom(6).hex())
        interval_s, races = self._terms.interval_s, 0
        try:
            while True:
                with suppress(LookupError):
                    loop.take_lease(lease, repository, _slept, interval_s, _waits_for)
                try:
                    supervision = self._supervision(repository, lease)
                except NotBegunError:
                    # Another process may have begun it in this moment: then that goes on.
                    races += 1
                    if races > _RACES:
                        raise
                    continue
                for each in loop.passes(self._watch(supervision, lease), lease, interval_s, _slept):
                    if each.is_last and each.outcome.record is not None:
                        return self._result(each.outcome, each.outcome.record)
        finally:
            loop.leave_lease(lease, repository)

    def _supervision(self, repository: RecordRepository, lease: SupervisorLease) -> Supervision:
        """The recorded supervision if it goes on, else a new one that adopts the job."""
        record = repository.reload()
        with translated():
            where = self._launcher.place()
        recorded = record.supervision if record is not None else None
        if record is not None and recorded is not None and recorded.place == where:
            job = present_job(record, self._launcher.kind)
            if job is not None and not _is_done(record, job.number):
                with translated():
                    like = self._launcher.adopted(job.id) or self._launcher.adopted(self._job_name)
                self._like = like or self._like
                return recorded
        with translated():
            # A job of this run may be alive though its record is lost.
            found = self._launcher.adopted(self._launcher.alive(self._run_id) or self._job_name)
        if found is None:
            raise JobNotFoundError(self._job_name)
        if record is not None and recorded is not None and _ended_well(record, found, where):
            return recorded
        self._like = found
        now = repository.store.clock()
        begun = replace(self._new_supervision(found), begun_at=now)
        begin(repository, self._run_id, begun, self._launcher, now, None, lease=lease, adopted=found)
        return begun

    def _new_supervision(self, like: AdoptedJob) -> Supervision:
        if not like.command:
            raise NotSetUpError(f"Ray does not tell what job {self._job_name} runs", "submit it by `ray job submit`")
        # Others may read the record, so it holds no secrets.
        told = {name: text for name, text in like.environment.items() if not is_secret(name, text)}
        options = [each for each in (*self._launcher.reached_by, *like.options) if mask_tokens(each) == each]
        command = tuple(map(mask_tokens, like.command))
        return Supervision(
            self._launcher.kind,
            JobSpec(command, "", told, options=tuple(options)),
            policy_name=_POLICY,
            policy=self._terms.policy_text,
            checkpoints=self._checkpoints,
            by=_BY,
            compiled=self._terms.policy,
            settings={} if self._own else self._terms.settings,
            interval_s=self._terms.interval_s,
        )

    def _watch(self, supervision: Supervision, lease: SupervisorLease) -> Watch:
        """The watch that supervises the run."""
        settings = self._settings
        supervisor = supervise(settings, self._run_id, supervision, self._terms.policy, lease, launcher=self._launcher)
        supervisor.delay_s = self._terms.retry_delay_s
        # Exactly the requested delay, without jitter.
        supervisor.chance = lambda: 1.0
        return supervised_watch(settings, supervisor, configured_channels(settings), clock=steady_clock())

    def _completed(self, spec: JobSpec) -> JobSpec:
        """``spec`` with the secrets of the first job, and without a fleet root that no job could reach."""
        environment = {**self._like.environment, **spec.environment}
        if self._own:
            for name in (table.MONITORING_ROOT.name, "LASTBEAT_RUN_ID"):
                environment.pop(name, None)
        like = self._like
        return replace(
            spec,
            command=like.command or spec.command,
            options=(*self._launcher.reached_by, *like.options) if like.command else spec.options,
            environment=environment,
        )

    def _result(self, outcome: Outcome, record: Record) -> RestartResult:
        retries, ruling = len(record.restarts), record.ruling
        reason = one_line(outcome.reason)
        if outcome.status is not Status.SUCCEEDED:
            refused = next((each.failed for each in reversed(record.actions) if each.failed), None)
            why = refused or (ruling.reason if ruling is not None else "")
            if refused is None and retries >= self._terms.max_retries:
                why = f"max_retries={self._terms.max_retries} is used up"
            reason = f"{reason}; not started again: {one_line(why)}" if why else reason
        return RestartResult(outcome.status is Status.SUCCEEDED, self._final_step(record), retries, reason)

    def _final_step(self, record: Record) -> int | None:
        if record.job is not None:
            try:
                text = self._launcher.output(record.job.id, _MOST_LOG_BYTES) or b""
            except LauncherError as error:
                log.warning("the log of job %s could not be read: %s", record.job.id, error.told)
                text = b""
            step = progress_in(text.decode("utf-8", "replace")).step
            if step is not None:
                return step
        try:
            chosen = surveyed(self._checkpoints, self._cluster, stop_at_first=True).chosen
        except StoreError as error:
            log.warning("%s; %s", error, error.advice)
            return None
        return None if chosen is None else chosen.step


def _is_done(record: Record, number: int) -> bool:
    """Whether no restart follows the job of that number, which was the last one."""
    ruling, starts = record.ruling, [each for each in record.actions if each.kind == RESTART_KIND]
    if starts and starts[-1].failed is not None:
        return True
    if any(not each.settled for each in starts):
        return False
    return ruling is not None and not ruling.restart and ruling.number >= number


def _ended_well(record: Record, found: AdoptedJob, where: str) -> bool:
    """Whether the run of ``record`` succeeded in the cluster's session in which ``found`` is. Then ``found`` is one of
    its jobs, and nothing is left to do."""
    if record.status is not Status.SUCCEEDED or record.job is None or record.supervision is None:
        return False
    session = found.id.partition("@")[2]
    return record.supervision.place == where and session != "" and session == record.job.id.partition("@")[2]


def _slept(seconds: float) -> bool:
    """Sleep. Returns False, because a script does not leave its loop early."""
    time.sleep(max(0.0, seconds))
    return False


def _waits_for(_record: Record, holder: LeaseHolder) -> None:
    log.warning("%s looks after this job already: this script takes over when it is gone", holder.by)


def _settings(terms: Terms) -> tuple[Settings, bool]:
    """The settings, and whether only this machine sees the record, because the settings name no fleet root. Raises
    SettingsError."""
    settings = configuration.load(terms.settings, watching=True)
    names = (table.MONITORING_ROOT.name, table.MONITORING_BUCKET.name)
    own = not any(settings.environ.get(name, "").strip() for name in names)
    if own:
        folder = opening.state_dir(settings, writes=True) / "restarts"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError([f"{folder} cannot be made: {error.strerror}; set LASTBEAT_STATE_DIR"]) from None
        settings = configuration.load({**terms.settings, table.MONITORING_ROOT.name: str(folder)}, watching=True)
    if terms.stagnation_s > settings.policy.stale_s:
        # A job that may make no step for this long may also print nothing for this long.
        settings = replace(settings, policy=replace(settings.policy, stale_s=terms.stagnation_s))
    return settings, own


def _run_id(job_name: str) -> str:
    """The run's id: the job's own if it can be one, else an id made from it."""
    try:
        return check_run_id(job_name)
    except InvalidRunIdError:
        readable = re.sub(r"[^A-Za-z0-9.-]", "-", job_name).strip("-.")[:80] or "job"
        return f"{readable}-{hashlib.sha256(job_name.encode('utf-8', 'surrogateescape')).hexdigest()[:10]}"
