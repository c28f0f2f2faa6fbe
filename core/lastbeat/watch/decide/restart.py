"""Whether a job is started again: policy, how it ended and the restarts so far → decision. Pure.

Budgets count the restarts that the record keeps. Those of a mode, of an error type and of a cause count restarts *in a
row*: a complete checkpoint that is newer than the last one resets them, because a run that makes progress is worth
another try. A step in a log or in progress.json does not, for it is lost with the process. If it is unknown whether the
checkpoint advanced, nothing is reset. The window counts all of its restarts, whatever came of them: a run that fails
every hour keeps people awake even if it makes progress.

A preemption is no failure. It is counted separately, and uses up no budget of failures. Its own limit only stops a job
that is preempted as soon as it begins.

The delay is exponential back-off with full jitter: uniform between zero and the current limit, which doubles with
each restart in a row (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.explain.signals.error_types import UNKNOWN, traits_of
from lastbeat.model.rerun import EXIT_CODE_FAILED_ON_RESULT_VALIDATION, EXIT_CODE_RESUME_TO_DISAMBIGUATE
from lastbeat.model.restart import Budget, JobEnd, Mode, RestartDecision, RestartEntry, RestartPolicy, RestartRule
from lastbeat.model.times import backoff_s

RESUME_ELSEWHERE: Final = EXIT_CODE_RESUME_TO_DISAMBIGUATE
"""Exit status by which training asks for other hardware: Megatron-LM's re-runs and ``lastbeat.rerun`` use it."""
VALIDATION_FAILED: Final = EXIT_CODE_FAILED_ON_RESULT_VALIDATION
"""Exit status by which they report that a result was checked, and was wrong."""
DO_NOT_REQUEUE: Final = 93
"""Exit status by which a job says that it must not be started again."""
_NODE_FAILURES: Final = 2
"""A node that was first to fail in this many attempts is excluded."""
_MOST_SLOW: Final = 8
"""At most this many nodes are excluded for slow ranks."""
MOST_PREEMPTIONS: Final = 48
"""Restarts after preemptions in a day."""
_DAY_S: Final = 86400.0


def decide_restart(
    policy: RestartPolicy | None,
    end: JobEnd,
    history: Sequence[RestartEntry],
    now: datetime,
    *,
    delay_s: float,
    chance: float,
) -> RestartDecision:
    """What ``policy`` (None: nothing is restarted) says about ``end``, after the restarts in ``history``, oldest first.

    ``delay_s`` is the limit of the first delay, ``chance`` is uniform in [0, 1).

    1. A person's request, and exit statuses that leave no choice, come before any policy.
    2. A cause that is too uncertain becomes ``unknown``.
    3. The mode's rule: excluded types, then what it names, then its default. A type that the evidence leaves possible
       is excluded, too: doubt does not restart what the author excluded. A signal that the policy adds (``also``)
       outranks the exclusion of its own type.
    4. The budgets; the first that is exhausted is the reason.
    5. The same cause at the same step again and again.
    6. How long to wait, and which nodes to avoid.
    """
    if policy is None:
        return RestartDecision(restart=False, reason="no restart policy is named: nothing is restarted")
    if end.asked_by is not None:
        return RestartDecision(restart=False, reason=f"stopped by {end.asked_by}: what a person ended is not restarted")
    if end.mode is not Mode.SUCCESS and end.exit_code == VALIDATION_FAILED:
        why = f"exit status {VALIDATION_FAILED}: the job's own check found a wrong result"
        return RestartDecision(restart=False, reason=f"Permanent failure detected ({why})")
    if end.exit_code == DO_NOT_REQUEUE:
        return RestartDecision(restart=False, reason=f"exit status {DO_NOT_REQUEUE}: the job asks not to be restarted")
    told = end
    if not end.by_scheduler and end.confidence < policy.least_confidence:
        # The line that ended the run is the same, whatever it means, so its key stays.
        told = replace(end, error_type=UNKNOWN, subsystem=None, signal=None)
    rule = policy.rule(told.mode)
    also = rule.kind == "selective" and any(told.signal in meant for meant in policy.also.values())
    if also:
        # A signal that the author adds to a rule by name outranks the rule's excluded types.
        rule = replace(rule, signals={**rule.signals, **policy.also}, excluded=rule.excluded - {told.error_type})
    ever = history
    history = [each for each in history if (each.mode is Mode.PREEMPTED) is (told.mode is Mode.PREEMPTED)]
    excluded = next(
        (each for each in (end.error_type, end.second_type, told.error_type) if each in rule.excluded), None
    )
    wanted, reason = _by_rule(rule, told, excluded)
    if end.error_type != told.error_type and excluded in {None, told.error_type}:
        reason += f"; {end.error_type} is too uncertain ({end.confidence:.2f}, below {policy.least_confidence:g})"
    # Other hardware is to show what caused the bad value. That the maths caused it is not known yet.
    asks = end.exit_code == RESUME_ELSEWHERE and rule.kind != "never"
    if asks and (excluded is None or traits_of(excluded).about_values):
        than = f" than that of {', '.join(end.suspect_nodes)}" if end.suspect_nodes else ""
        wanted, reason = True, f"exit status {RESUME_ELSEWHERE}: the job asks to be resumed on other hardware{than}"
    if not wanted:
        return RestartDecision(restart=False, reason=reason)
    in_a_row = _in_a_row(history, told)
    budgets = _budgets(policy, rule, told, history, in_a_row, now)
    for budget in budgets:
        if budget.exhausted:
            what = "" if budget is budgets[0] else f" for {budget.name}"
            stopped = f"retry budget exhausted{what} (attempt {budget.used}/{budget.limit})"
            return RestartDecision(restart=False, reason=stopped, budgets=budgets)
    stuck = _stuck(policy, told, history)
    if stuck:
        return RestartDecision(restart=False, reason=stuck, budgets=budgets)
    longest_s = backoff_s(len(in_a_row) + 1, delay_s, max(policy.longest_delay_s, delay_s))
    return RestartDecision(
        restart=True,
        reason=reason,
        budgets=budgets,
        delay_s=round(chance * longest_s, 1),
        excluded_nodes=tuple(sorted({*_bad_nodes(history, told), *_slow_nodes(policy, ever, told)})),
        # If the suspect node is known, the others may be used again.
        other_hardware=(asks and not end.suspect_nodes) or traits_of(told.error_type).blames_node,
    )


def budgets_used(
    policy: RestartPolicy, history: Sequence[RestartEntry], checkpoint_step: int | None, now: datetime
) -> tuple[Budget, ...]:
    """How much of each budget is used now, after the restarts in ``history``: one for each mode with restarts, one for
    each error type with a budget, and the window. ``checkpoint_step`` is as in :class:`JobEnd`."""
    told: list[Budget] = []
    gone = [each for each in history if each.mode is Mode.PREEMPTED]
    history = [each for each in history if each.mode is not Mode.PREEMPTED]
    if gone:
        end = JobEnd(Mode.PREEMPTED, checkpoint_step=checkpoint_step)
        told += _before(_budgets(policy, policy.rule(end.mode), end, gone, _in_a_row(gone, end), now))
    for mode, rule in policy.rules.items():
        if rule.kind == "never" or mode is Mode.PREEMPTED:
            continue
        end = JobEnd(mode, checkpoint_step=checkpoint_step)
        told += _before(_budgets(policy, rule, end, history, _in_a_row(history, end), now)[:1])
    for error_type in policy.type_budgets:
        end = JobEnd(Mode.CRASH, error_type, checkpoint_step=checkpoint_step)
        told += _before(_budgets(policy, RestartRule(), end, history, _in_a_row(history, end), now)[1:2])
    if policy.window_restarts is not None:
        end = JobEnd(Mode.CRASH, checkpoint_step=checkpoint_step)
        told += _before(_budgets(policy, RestartRule(), end, history, (), now)[-1:])
    return tuple(told)


def _before(budgets: Sequence[Budget]) -> list[Budget]:
    """``budgets`` without the restart that is being decided."""
    return [replace(each, used=each.used - 1) for each in budgets]


def cause_key(error_type: str, line: str) -> str:
    """A key that is the same for the same failure, whatever numbers it contains. ``line`` is the line that shows it."""
    told = re.sub(r"\d+|0x[0-9a-f]+", "#", line)
    return f"{error_type} {hashlib.sha256(told.encode()).hexdigest()[:12]}"


def entry(end: JobEnd, now: datetime) -> RestartEntry:
    """What the record keeps of a decided restart."""
    return RestartEntry(
        now,
        end.mode,
        end.error_type,
        end.cause_key,
        end.step,
        end.checkpoint_step,
        end.node,
        end.resumed_from,
        end.first_step,
        end.slow_nodes,
    )


def _by_rule(rule: RestartRule, end: JobEnd, excluded: str | None) -> tuple[bool, str]:
    """Whether the rule wants a restart, and the reason in the words that people search for. ``excluded``: the excluded
    type that ``end`` has, or may have; or None."""
    if rule.kind == "never":
        return False, f"NoRestartPolicy on {end.mode.value}"
    if excluded is not None:
        doubt = "" if excluded == end.error_type else ", which it may be"
        return False, f"Permanent failure detected (excluded error_type: {excluded}{doubt})"
    if rule.kind == "always":
        return True, f"AlwaysRestartPolicy on {end.mode.value} (error_type={end.error_type})"
    named = [
        *(f"signal={name}" for name, stands_for in rule.signals.items() if end.signal in stands_for),
        *([f"error_type={end.error_type}"] if end.error_type in rule.error_types else []),
        *(f"subsystem={name}" for name, stands_for in rule.subsystems.items() if end.subsystem in stands_for),
    ]
    if named:
        return True, f"Transient failure detected ({', '.join(named)})"
    if rule.otherwise == "restart":
        return True, f"default_action is restart (error_type={end.error_type})"
    return False, f"Permanent failure detected (error_type={end.error_type} is not one that this policy restarts)"


def _in_a_row(history: Sequence[RestartEntry], end: JobEnd) -> list[RestartEntry]:
    """The restarts since a checkpoint last advanced."""
    steps = [*(each.checkpoint_step for each in history[1:]), end.checkpoint_step]
    first = 0
    for index, (restart, then) in enumerate(zip(history, steps, strict=False)):
        if restart.checkpoint_step is not None and then is not None and then > restart.checkpoint_step:
            first = index + 1
    return list(history[first:])


def _budgets(
    policy: RestartPolicy,
    rule: RestartRule,
    end: JobEnd,
    history: Sequence[RestartEntry],
    in_a_row: Sequence[RestartEntry],
    now: datetime,
) -> tuple[Budget, ...]:
    of_mode = sum(each.mode is end.mode for each in in_a_row)
    found = [Budget(end.mode.value, of_mode + 1, rule.max_retries)]
    if end.mode is Mode.PREEMPTED:
        lately = sum(each.at > now - timedelta(seconds=_DAY_S) for each in history)
        return (*found, Budget("preemptions in 24 h", lately + 1, MOST_PREEMPTIONS))
    if end.error_type in policy.type_budgets:
        of_type = sum(each.error_type == end.error_type for each in in_a_row)
        found.append(Budget(f"error_type {end.error_type}", of_type + 1, policy.type_budgets[end.error_type]))
    if policy.cause_budget is not None and end.cause_key:
        of_cause = sum(each.cause_key == end.cause_key for each in in_a_row)
        found.append(Budget("this cause", of_cause + 1, policy.cause_budget))
    if policy.window_restarts is not None:
        since = now - timedelta(seconds=policy.window_s)
        name = f"{policy.window_s / 3600:g} h"
        found.append(Budget(name, sum(each.at > since for each in history) + 1, policy.window_restarts))
    return tuple(found)


def _stuck(policy: RestartPolicy, end: JobEnd, history: Sequence[RestartEntry]) -> str | None:
    """Why another try would end like the last ones, or None if it may not."""
    if end.mode is Mode.PREEMPTED:
        return None
    before = history[len(history) - policy.same_step_times + 1 :] if policy.same_step_times > 1 else ()
    if not end.cause_key or end.step is None or len(before) < policy.same_step_times - 1:
        return None
    traits = traits_of(end.error_type)
    if traits.is_imposed or traits.blames_node:
        # A failure imposed from outside shows nothing about the step.
        return None
    if any(each.cause_key != end.cause_key or each.step != end.step for each in before):
        return None
    what = f"error_type={end.error_type}, step {end.step}"
    return f"the same cause at the same step {policy.same_step_times} times in a row ({what}): a restart does not help"


def _slow_nodes(policy: RestartPolicy, history: Sequence[RestartEntry], end: JobEnd) -> tuple[str, ...]:
    """The nodes with slow ranks, now and recently, if the policy excludes them: the latest first, and few enough that a
    cluster has others."""
    if not policy.exclude_stragglers:
        return ()
    found = [*end.slow_nodes, *(node for each in reversed(history) for node in each.slow_nodes)]
    return tuple(dict.fromkeys(found))[:_MOST_SLOW]


def _bad_nodes(history: Sequence[RestartEntry], end: JobEnd) -> tuple[str, ...]:
    failed = Counter(node for node in (*(each.node for each in history), end.node) if node)
    bad = {node for node, times in failed.items() if times >= _NODE_FAILURES}
    if end.node and (end.node_lost or traits_of(end.error_type).blames_node):
        bad.add(end.node)
    bad.update(end.suspect_nodes)
    bad.update(end.broken_nodes)
    return tuple(sorted(bad))
