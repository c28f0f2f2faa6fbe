"""Which limits hold for a run, and from where. Pure."""

from collections.abc import Callable, Iterable, Iterator

from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.limits import LEARNED
from lastbeat.model.policy import HERE, Policy
from lastbeat.model.record import LimitName, Record
from lastbeat.model.view import LimitInForce
from lastbeat.watch.decide.silence import learned_limit_s


def in_force(policy: Policy, beat: Heartbeat | None, record: Record | None) -> Policy:
    """``policy``, which has the fleet's limits, with those that the run states in ``beat``, its metadata.json; while
    that cannot be read, with those that it last stated."""
    if beat is not None and beat.fault is None:
        return policy.of_run(beat.stale_s, beat.stall_s)
    known = record.metadata if record is not None else None
    return policy if known is None else policy.of_run(known.stale_s, known.stall_s)


def limits_shown(policy: Policy, beat: Heartbeat | None) -> Iterator[LimitInForce]:
    """The limits of ``policy``, which has all of them, for people."""
    learned_s = learned_limit_s(beat) if policy.learned else None
    if learned_s is not None and learned_s < policy.stale_s:
        yield LimitInForce(LEARNED, learned_s, policy.learned_from)
    yield LimitInForce(LimitName.STALE.value, policy.stale_s, policy.stale_from)
    if policy.stall_s is None and policy.inactivity_s is not None:
        yield LimitInForce(LimitName.INACTIVITY.value, policy.inactivity_s, HERE)
    else:
        yield LimitInForce(LimitName.STALL.value, policy.stall_s, policy.stall_from)
    if policy.start_grace_s > 0 or policy.start_from != HERE:
        yield LimitInForce(LimitName.START.value, policy.start_grace_s, policy.start_from)


def exceeded(record: Record | None, clean: Callable[[str], str]) -> LimitInForce | None:
    """The limit by which the run was TIMED_OUT; None where the record does not tell. ``clean`` makes text of a record
    fit to be shown."""
    limit = record.exceeded if record is not None else None
    if limit is None:
        return None
    return LimitInForce(limit.name.value, limit.limit_s, clean(limit.source) or "whose is not recorded")


def worry_s(shown: Iterable[LimitInForce]) -> float | None:
    """The shortest limit for silence among those ``shown``."""
    spans = (each.limit_s for each in shown if each.name in {LimitName.STALE.value, LEARNED})
    return min((span for span in spans if span is not None), default=None)
