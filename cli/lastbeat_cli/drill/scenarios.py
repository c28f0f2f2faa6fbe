"""The scenarios of a drill: the fault, and the expected result."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lastbeat.explain.signals.error_types import CANCELLED, HANG
from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.supervision.restarting import EXCLUDED_NODES, job_name
from lastbeat.model.job import JobState
from lastbeat.model.record import Record
from lastbeat.model.restart import RESTART_KIND, Mode, RestartPolicy, RestartRuling
from lastbeat.model.text import counted
from lastbeat_cli.drill.faults import NotInjectedError, lose
from lastbeat_cli.drill.rehearsal import RUNS, Rehearsal, UnexpectedError

MOST_POLLS: Final = 2
"""Most polls of a supervisor from the end of a job to the start of the next."""
LONGEST_S: Final = 120.0
"""Longest time, in seconds, from the fault to the new job's id."""
_CLAIM_S: Final = 300.0
"""If a supervisor dies while it starts a job, its claim blocks other supervisors for this many seconds."""
_NODE_S: Final = 900.0
"""Longest time, in seconds, until a scheduler notices a lost node."""
_MOST_CANCELS: Final = 10


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the drill."""

    name: str
    what: str
    """The fault and the expected result, for people."""
    local_s: int | None
    """Approximate time on this machine, in seconds; None if the scenario is meaningless there."""
    slurm_s: int
    """Approximate time on an idle Slurm cluster, in seconds."""
    play: Callable[[Rehearsal, RestartPolicy], None]
    fault: str = "none"
    """The fault that the job causes itself."""
    stands_still: bool = False
    causes: frozenset[str] = frozenset()
    """Accepted causes; empty accepts any."""


def _cancelled(rehearsal: Rehearsal, number: int) -> str:
    """Wait until the job runs, and cancel it. Returns its id."""
    job = rehearsal.running(number)
    rehearsal.tell(f"job {job} runs; it is cancelled now")
    rehearsal.strike()
    _cancel(rehearsal, job)
    return job


def _cancel(rehearsal: Rehearsal, job: str) -> None:
    try:
        rehearsal.ground.launcher.cancel(job)
    except LauncherError as error:
        raise NotInjectedError(error.told) from None


def _limit_s(rehearsal: Rehearsal) -> float:
    """Longest time, in seconds, for any step without a queue."""
    return max(LONGEST_S, 10 * rehearsal.ground.interval_s)


def _scancel(rehearsal: Rehearsal, _: RestartPolicy) -> None:
    rehearsal.supervise()
    old = _cancelled(rehearsal, 0)
    rehearsal.dead(old, _limit_s(rehearsal))
    dead_s = rehearsal.stages[-1].after_s
    _is_restarted(rehearsal, 0)
    _new_job(rehearsal, 1, old)
    submitted = next(stage.after_s for stage in rehearsal.stages if stage.what == "new job")
    if submitted > LONGEST_S:
        raise UnexpectedError(f"the new job came after {submitted:.0f} s; {LONGEST_S:g} s are the most")
    polls = rehearsal.passes_between(dead_s, 1)
    rehearsal.notes.append(f"{polls} poll{'s' if polls > 1 else ''} of the supervisor")
    if polls > MOST_POLLS:
        raise UnexpectedError(f"the new job took {polls} polls since the old one was dead; {MOST_POLLS} are the most")
    rehearsal.check_jobs(1)


def _stands_still(rehearsal: Rehearsal, _: RestartPolicy) -> None:
    rehearsal.supervise()
    old = rehearsal.running(0)
    rehearsal.fault_line(0)
    _is_restarted(rehearsal, 0)
    rehearsal.dead(old, _limit_s(rehearsal))
    _new_job(rehearsal, 1, old)
    rehearsal.check_jobs(1)


def _oom(rehearsal: Rehearsal, _: RestartPolicy) -> None:
    rehearsal.supervise()
    old = rehearsal.running(0)
    rehearsal.fault_line(0)
    rehearsal.dead(old, _limit_s(rehearsal))
    ruling = rehearsal.noticed(0, _limit_s(rehearsal), leaves=True)
    record = rehearsal.record()
    cause = record.cause if record is not None else None
    if cause not in rehearsal.causes:
        raise UnexpectedError(f"the job ran out of memory, and the cause was taken for {cause}")
    if ruling.restart:
        raise UnexpectedError(f"it was restarted: {ruling.reason}")
    rehearsal.notes.append(ruling.reason)
    limits = rehearsal.last_line(0, "memory")
    if limits is not None:
        instead = "in the words of a framework" if "told" in limits[1] else "under a limit of the drill's own"
        rehearsal.notes.append(f"nothing here limits a job's memory, so it ran out of it {instead}")
    _leaves(rehearsal)
    rehearsal.check_jobs(0)


def _max_retries(rehearsal: Rehearsal, policy: RestartPolicy) -> None:
    rule = policy.rules.get(Mode.CRASH)
    limit = rule.max_retries if rule is not None else 0
    if limit is None or not 0 < limit < _MOST_CANCELS:
        allowed = "any number of restarts" if limit is None else counted(limit, "restart")
        raise NotInjectedError(f"the policy allows {allowed} after a crash; 1 to {_MOST_CANCELS - 1} are drilled")
    rehearsal.supervise()
    for number in range(limit):
        old = _cancelled(rehearsal, number)
        _is_restarted(rehearsal, number)
        _new_job(rehearsal, number + 1, old)
    old = _cancelled(rehearsal, limit)
    rehearsal.dead(old, _limit_s(rehearsal))
    ruling = rehearsal.noticed(limit, _limit_s(rehearsal), leaves=True)
    wanted = f"retry budget exhausted (attempt {limit + 1}/{limit})"
    if ruling.restart or ruling.reason != wanted:
        raise UnexpectedError(f"after {limit + 1} cancelled jobs it says {ruling.reason!r} in place of {wanted!r}")
    rehearsal.notes.append(ruling.reason)
    _leaves(rehearsal)
    rehearsal.check_jobs(limit)


def _node_lost(rehearsal: Rehearsal, _: RestartPolicy) -> None:
    ground = rehearsal.ground
    why_not = ground.saboteur.why_no_node_is_lost(ground.node_loss)
    if why_not is not None or ground.node_loss is None:
        raise NotInjectedError(why_not or "no command takes a node away")
    rehearsal.supervise()
    old = rehearsal.running(0)
    node = ground.launcher.state(old).nodes[0]
    rehearsal.tell(f"job {old} runs on {node}, which is taken away now")
    rehearsal.strike()
    lose(node, ground.node_loss)
    rehearsal.dead(old, _NODE_S)
    _is_restarted(rehearsal, 0)
    new = _new_job(rehearsal, 1, old)
    record = rehearsal.record()
    actions = record.actions if record is not None else ()
    left_out = [
        each.details.get(EXCLUDED_NODES, "").split(",")
        for each in actions
        if each.kind == RESTART_KIND and each.name == job_name(rehearsal.run_id, 1)
    ]
    if not any(node in each for each in left_out):
        raise UnexpectedError(f"the new job was not told to leave {node} out")
    nodes = ground.launcher.state(new).nodes
    if node in nodes:
        raise UnexpectedError(f"the new job runs on {node}, too")
    rehearsal.notes.append(f"{node} is left out, {', '.join(nodes)} taken")
    rehearsal.check_jobs(1)


def _preempt(rehearsal: Rehearsal, _: RestartPolicy) -> None:
    ground = rehearsal.ground
    rehearsal.supervise()
    old = rehearsal.running(0)
    pid = rehearsal.lives()[0].pid
    rehearsal.tell(f"job {old} runs; it is preempted now")
    rehearsal.strike()
    ground.saboteur.preempt(old, pid, rehearsal.script)
    if not ground.saboteur.requeues:
        rehearsal.dead(old, _limit_s(rehearsal))
        _is_restarted(rehearsal, 0)
        _new_job(rehearsal, 1, old)
        rehearsal.check_jobs(1)
        return

    def adopted(record: Record | None) -> bool | None:
        return True if record is not None and record.job is not None and record.job.restarts > 0 else None

    def runs_again() -> bool | None:
        ruling = rehearsal.ruling(0)
        if ruling is not None and ruling.restart:
            raise UnexpectedError(f"the scheduler started the job again, and lastbeat wants to, too: {ruling.reason}")
        report = ground.launcher.state(old)
        return True if report.state is JobState.RUNNING and len(rehearsal.lives()) > 1 else None

    rehearsal.wait("the scheduler's restart is noticed", lambda: adopted(rehearsal.record()), ground.patience_s)
    rehearsal.reached("noticed")
    rehearsal.wait(f"job {old} runs again", runs_again, ground.patience_s)
    rehearsal.reached(RUNS, old)
    rehearsal.wait("it is seen to live", lambda: _is_second_attempt(rehearsal.record()), _limit_s(rehearsal))
    rehearsal.notes.append("started again by the scheduler under the same id, and not a second time by lastbeat")
    rehearsal.check_jobs(0)


def _is_second_attempt(record: Record | None) -> bool | None:
    return True if record is not None and record.attempt.number > 1 and record.job is not None else None


def _supervisor_killed(rehearsal: Rehearsal, policy: RestartPolicy) -> None:
    rule = policy.rules.get(Mode.CRASH)
    limit = rule.max_retries if rule is not None else 0
    moments = 3 if limit is None else min(limit, 3)
    if moments == 0:
        raise NotInjectedError("the policy allows no restart after a crash")
    long_s = rehearsal.ground.patience_s + _CLAIM_S
    rehearsal.supervise()
    rehearsal.wait("the first job is submitted", lambda: rehearsal.job_id(0), long_s)
    _killed(rehearsal, "as soon as the first job was submitted")
    rehearsal.running(0)
    _killed(rehearsal, "while its job ran")
    for moment in range(moments):
        old = rehearsal.running(moment)
        rehearsal.strike()
        if moment == 0:
            _cancel(rehearsal, old)
            _killed(rehearsal, "as soon as its job was cancelled")
        elif moment == 1:
            _cancel(rehearsal, old)
            rehearsal.wait("the new job is submitted", lambda number=moment + 1: rehearsal.job_id(number), long_s)  # type: ignore[misc]
            _killed(rehearsal, "as soon as the new job was submitted")
        else:
            rehearsal.kill()
            _cancel(rehearsal, old)
            rehearsal.dead(old, _limit_s(rehearsal))
            rehearsal.tell("the job ended while it was not supervised; resumed")
            rehearsal.resume()
        rehearsal.restarted(moment + 1, long_s)
    # A surplus job would appear with the next passes.
    enough = rehearsal.passes + MOST_POLLS
    rehearsal.wait("two more passes", lambda: True if rehearsal.passes >= enough else None, _limit_s(rehearsal))
    rehearsal.notes.append(f"killed at {moments + 2} moments, {counted(moments + 1, 'job')} in all")
    rehearsal.check_jobs(moments)


def _killed(rehearsal: Rehearsal, when: str) -> None:
    rehearsal.kill()
    rehearsal.tell(f"the supervisor was killed {when}; another goes on")
    rehearsal.resume()


def _is_restarted(rehearsal: Rehearsal, number: int) -> RestartRuling:
    ruling = rehearsal.noticed(number, _limit_s(rehearsal))
    if not ruling.restart:
        raise UnexpectedError(f"not restarted: {ruling.reason}")
    record = rehearsal.record()
    told = record.restarts[-1].error_type if record is not None and record.restarts else None
    if rehearsal.causes and told not in rehearsal.causes:
        raise UnexpectedError(f"restarted, but the cause was taken for {told}")
    rehearsal.notes[:] = [ruling.reason]
    return ruling


def _new_job(rehearsal: Rehearsal, number: int, old: str) -> str:
    new = rehearsal.restarted(number, rehearsal.ground.patience_s)
    if new == old:
        raise UnexpectedError(f"the new job has the id of the old one, {old}")
    return new


def _leaves(rehearsal: Rehearsal) -> None:
    """Wait until the supervisor exits. Raises :class:`UnexpectedError` unless its status says that the run failed."""
    status = rehearsal.wait("the supervisor ends", lambda: rehearsal.has_left, _limit_s(rehearsal), leaves=True)
    if status != 2:
        raise UnexpectedError(f"the run was given up, and the supervisor ended with {status} in place of 2")


_CANCELLED: Final = frozenset({CANCELLED})
SCENARIOS: Final = {
    each.name: each
    for each in (
        Scenario("scancel", "It is cancelled: a new job within two polls.", 5, 15, _scancel, causes=_CANCELLED),
        Scenario(
            "hang",
            "It prints a hang and stands still: ended, and restarted.",
            15,
            60,
            _stands_still,
            "hang",
            stands_still=True,
            causes=frozenset({HANG}),
        ),
        Scenario(
            "nccl",
            "An NCCL error in its log, and no step after it: the same.",
            15,
            60,
            _stands_still,
            "nccl",
            stands_still=True,
            causes=frozenset({"nccl", "nccl_timeout"}),
        ),
        Scenario("oom", "It runs out of memory: not restarted.", 5, 15, _oom, "oom", causes=frozenset({"oom"})),
        Scenario(
            "max_retries", "Cancelled until the budget ends: no further job.", 15, 60, _max_retries, causes=_CANCELLED
        ),
        Scenario("node_lost", "Its node is lost: restarted without that node.", None, 120, _node_lost),
        Scenario("preempt", "It is preempted: one job runs again, and only one.", 5, 150, _preempt, causes=_CANCELLED),
        Scenario(
            "supervisor_killed",
            "The supervisor dies at five moments: no job is lost, none started twice.",
            20,
            60,
            _supervisor_killed,
        ),
    )
}
