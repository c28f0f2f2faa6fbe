"""Turns a group's notice into a channel-neutral message."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate

from lastbeat.model.alert import MEMBERS_LIMIT_BYTES, NAMES_LIMIT, Message
from lastbeat.model.group import LEDGER_ID, DeferredAlert, Notice
from lastbeat.model.status import Event, Status
from lastbeat.model.text import counted
from lastbeat.model.times import format_duration

_STILL_OUT_LIMIT = 10
_NEARLY_ALL = 0.8
_FEWEST = 5

_SYSTEMIC = (
    "Nearly everything that is watched fell silent at once, so look first at what all runs depend on: the store that "
    "they write to, the clocks, and the credentials that they write with."
)
_SHARED = "Look first at what they share, listed below; then, on one of the instances, at the training log and disk."
_UNLIKE = (
    "They have nothing in common that is known. Look at what was changed lately, and on one of the instances at the "
    "training log, nvidia-smi and disk space."
)


def compose_notice(notice: Notice, watched: int, where: str, now: datetime) -> Message:
    """The alert of a group. ``watched`` is the number of watched runs, including those that timed out."""
    lost = notice.event is Event.TIMED_OUT
    watched = max(watched, len(notice.out))
    return Message(
        run_id=LEDGER_ID,
        event=notice.event,
        status=Status.TIMED_OUT if lost else Status.RUNNING,
        reason=_lost(notice, watched, now) if lost else _back(notice),
        at=now,
        action=_action(notice, watched) if lost else None,
        where=where,
        members=_members(notice.runs),
        member_count=len(notice.runs),
        shared=notice.shared,
        group=notice.group,
        still_out=len(notice.out),
    )


_ENDS = (
    (Event.FAILED, "failed"),
    (Event.TIMED_OUT, "timed out"),
    (Event.CANCELLED, "cancelled"),
    (Event.PREEMPTED, "preempted"),
    (Event.SUCCEEDED, "succeeded"),
)
_UNWELL = (Event.FAILED, Event.TIMED_OUT)
_CAUSES_LIMIT = 4
_FROM_NOW_ON = "From now on each run has its own alert."
_LOOK = f"See them with: lastbeat fleet, and why one failed with: lastbeat show RUN. {_FROM_NOW_ON}"


def compose_first_look(found: Sequence[DeferredAlert], where: str, now: datetime, *, again: bool = False) -> Message:
    """The alert about runs that had ended before a fleet was first watched. ``again`` says that one was sent before."""
    unwell = [each for event in _UNWELL for each in found if each.event is event]
    well = [each for each in found if each.event not in _UNWELL]
    # A success with a warning is worth reading too.
    named = [*unwell, *(each for each in well if each.message.conditions)] or well
    status = Status.SUCCEEDED
    if unwell:
        status = Status(unwell[0].event.value)
    return Message(
        run_id=LEDGER_ID,
        event=Event.FIRST_LOOK,
        status=status,
        reason=f"First look at this fleet{', continued' * again}: {', '.join(_ended(found))}",
        at=now,
        action=_LOOK if unwell else None,
        notes=() if unwell else (_FROM_NOW_ON,),
        where=where,
        members=_members([each.run_id for each in named]),
        member_notes=tuple(_end(each, now) for each in named[:NAMES_LIMIT]),
        member_count=len(named),
    )


def _end(found: DeferredAlert, now: datetime) -> str:
    """How and when a run ended: ``FAILED, oom, 2h before``."""
    message = found.message
    ended_at = message.since or message.last_beat_at
    age = f"{format_duration(max(now - ended_at, timedelta(0)))} before" if ended_at is not None else ""
    warned = ", ".join(message.conditions) if found.event is Event.SUCCEEDED else ""
    return ", ".join(filter(None, (found.event.value, message.cause or warned, age)))


def _ended(found: Sequence[DeferredAlert]) -> Iterator[str]:
    for event, word in _ENDS:
        of_it = [each.message for each in found if each.event is event]
        if not of_it:
            continue
        details = _causes(of_it) if event in _UNWELL else []
        warned = sum(bool(message.conditions) for message in of_it) if event is Event.SUCCEEDED else 0
        details += [f"{warned} with warnings"] if warned else []
        why = ", ".join(details)
        yield f"{len(of_it)} {word} ({why})" if why else f"{len(of_it)} {word}"


def _members(run_ids: Sequence[str]) -> tuple[str, ...]:
    """The first run ids that fit. A channel for programs may list all of these, one for people lists fewer."""
    sizes = accumulate(len(run_id) for run_id in run_ids)
    return tuple(run_id for run_id, size in zip(run_ids, sizes, strict=False) if size <= MEMBERS_LIMIT_BYTES)


def _causes(messages: Sequence[Message]) -> list[str]:
    """The number of runs for each cause. They add up to the number of ``messages``; empty if no cause is known."""
    causes = Counter(message.cause for message in messages if message.cause)
    if not causes:
        return []
    named = causes.most_common(_CAUSES_LIMIT)
    others, unknown = causes.total() - sum(count for _, count in named), len(messages) - causes.total()
    parts = [f"{count} {cause}" for cause, count in named]
    parts += [f"{others} of {counted(len(causes) - len(named), 'other cause')}"] if others else []
    return parts + ([f"{unknown} of unknown cause"] if unknown else [])


def _lost(notice: Notice, watched: int, now: datetime) -> str:
    out = len(notice.out)
    if notice.repeated:
        lasted = format_duration(now - notice.opened_at)
        return f"{out} of the {notice.size} runs that timed out together still are, after {lasted}"
    if not notice.first:
        more = len(notice.runs)
        return f"{counted(more, 'more run')} timed out; with them {out} of the {watched} runs being watched"
    earlier = f", {notice.earlier} of them told of one by one before" if notice.earlier else ""
    return f"{out} of the {watched} runs being watched timed out together{earlier}"


def _back(notice: Notice) -> str:
    out = len(notice.out)
    if not out:
        return f"No run of the {notice.size} that timed out together is timed out any more"
    names = ", ".join(notice.out[:_STILL_OUT_LIMIT])
    rest = f" and {out - _STILL_OUT_LIMIT} more" if out > _STILL_OUT_LIMIT else ""
    back = len(notice.runs)
    are = "is" if back == 1 else "are"
    return f"{back} of the {notice.size} runs that timed out together {are} back; still out: {names}{rest}"


def _action(notice: Notice, watched: int) -> str:
    if len(notice.out) >= max(_FEWEST, _NEARLY_ALL * watched):
        return _SYSTEMIC
    return _SHARED if notice.shared else _UNLIKE
