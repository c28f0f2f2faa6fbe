"""The digest: the last day of a fleet in one message. Passes send it once a day, and ``lastbeat report digest`` prints
it.

    one pass                                     another pass
    ────────                                     ────────────
    reads the runs' records
    write: due at, message, claim                (its own write fails: it looks again, and none is due)
    send ──────────────► people
    write: sent

A pass that dies before its first write leaves the digest to the next one, and one that dies after it leaves a claim
that expires, as with every alert. A fleet whose passes stood still at that time gets its digest with the next pass.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from typing import Final

from lastbeat.alerts.port import Channel
from lastbeat.fleet.all_records import FleetRecords, all_records, ended_long_ago
from lastbeat.model.alert import MEMBERS_LIMIT_BYTES, NAMES_LIMIT, Message
from lastbeat.model.data import dataclass
from lastbeat.model.digest import DIGEST, DIGEST_ID, DigestTime, time_zone
from lastbeat.model.record import Record
from lastbeat.model.status import UNWELL, Event, Status
from lastbeat.model.text import counted
from lastbeat.model.times import format_duration
from lastbeat.stores.port import ConflictError, Store, StoreError
from lastbeat.watch.effects.runner import EffectRunner
from lastbeat.watch.record.repository import RecordRepository
from lastbeat.watch.watchdog import WatchContext

log = logging.getLogger(__name__)

DAY: Final = timedelta(days=1)
_NOTE_CHARS: Final = 200
_ENDS: Final = (Status.FAILED, Status.TIMED_OUT, Status.CANCELLED, Status.PREEMPTED, Status.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class DigestRun:
    """A run that a digest names."""

    record: Record
    needs_attention: bool
    """It failed or fell silent within a day, or has a warning, and is not acknowledged."""
    ended: bool
    """It came to its end within the time of the digest, and is what it became then."""
    restarts: int
    """Attempts that began within that time, but for the first."""


def runs_of(records: Iterable[Record], since: datetime, now: datetime) -> tuple[DigestRun, ...]:
    """The runs that a digest of the time from ``since`` to ``now`` names: first those that need attention, then those
    that ended, then those that were restarted; the latest first. Pure."""
    seen = (_seen(record, since, now) for record in records if record.left_out is None)
    named = (run for run in seen if run.needs_attention or run.ended or run.restarts)
    return tuple(sorted(named, key=_place))


def _seen(record: Record, since: datetime, now: datetime) -> DigestRun:
    status, came = record.status, record.came_to_be_at or now
    unwell = status in UNWELL and now - came <= DAY
    warned = status is Status.RUNNING and bool(record.conditions)
    attempts = sum(one.attempt < other.attempt and other.at > since for one, other in pairwise(record.history))
    return DigestRun(
        record,
        needs_attention=(unwell or warned) and record.acknowledged is None,
        # A watcher may have seen it later than it happened.
        ended=status in _ENDS and (record.since or came) > since,
        restarts=max(attempts, sum(each.at > since for each in record.restarts)),
    )


def _place(run: DigestRun) -> tuple[bool, bool, int, float, str]:
    record = run.record
    rank = _ENDS.index(record.status) if record.status in _ENDS else len(_ENDS)
    came = record.came_to_be_at
    return not run.needs_attention, not run.ended, rank, -came.timestamp() if came else 0.0, record.run_id


def compose(  # noqa: PLR0913 - each says what it is
    runs: Sequence[DigestRun],
    since: datetime,
    now: datetime,
    *,
    where: str,
    zone: tzinfo = timezone.utc,
    link: Callable[[str], str | None] = lambda _run_id: None,
    alive: int = 0,
    gaps: Sequence[str] = (),
) -> Message:
    """The message about ``runs``, see :func:`runs_of`. ``alive`` counts the runs that run; ``gaps`` says which others
    are not known. Pure."""
    needy = [run.record for run in runs if run.needs_attention]
    links = tuple(link(run.record.run_id) or "" for run in runs[:NAMES_LIMIT])
    sizes, names = 0, []
    for run in runs:
        sizes += len(run.record.run_id)
        if sizes <= MEMBERS_LIMIT_BYTES:
            names.append(run.record.run_id)
    return Message(
        run_id=DIGEST_ID,
        event=Event.DIGEST,
        status=next((record.status for record in needy if record.status is not None), Status.RUNNING),
        reason=" ".join(_sentences(runs, since.astimezone(zone), alive, complete=not gaps)),
        at=now,
        action="Acknowledge what you look after: lastbeat ack RUN" if needy else None,
        where=where,
        notes=tuple(gaps),
        members=tuple(names),
        member_notes=tuple(_note(run, now) for run in runs[:NAMES_LIMIT]),
        member_links=links if any(links) else (),
        member_count=len(runs),
    )


def _sentences(runs: Sequence[DigestRun], since: datetime, alive: int, *, complete: bool) -> Iterator[str]:
    needy = sum(run.needs_attention for run in runs)
    if needy:
        yield f"{counted(needy, 'run')} {'needs' if needy == 1 else 'need'} attention."
    else:
        yield "All is well." if complete else "No recorded run needs attention."
    ends = Counter(run.record.status for run in runs if run.ended)
    restarted = [run.restarts for run in runs if run.restarts]
    told = [f"{ends[status]} {status}" for status in _ENDS if ends[status]]
    if restarted:
        told.append(f"{counted(sum(restarted), 'restart')} of {counted(len(restarted), 'run')}")
    yield f"Since {since:%a %H:%M %Z}: {', '.join(told) or 'no run ended'}. {counted(alive, 'run')} going on."


def _note(run: DigestRun, now: datetime) -> str:
    """How the run is: ``FAILED, oom, 2h before, restarted 3 times``."""
    record, came = run.record, run.record.came_to_be_at
    warned = record.status is Status.RUNNING and record.conditions
    parts = [f"{record.status} (WARNING)" if warned else str(record.status)]
    if warned:
        parts += list(record.conditions)[:3]
    elif record.cause and record.status is not Status.RUNNING:
        parts.append(record.cause)
    if came is not None and record.status is not Status.RUNNING:
        parts.append(f"{format_duration(max(now - came, timedelta(0)))} before")
    if run.restarts:
        parts.append(f"restarted {counted(run.restarts, 'time')}")
    return ", ".join(parts)[:_NOTE_CHARS]


def read_digest(
    store: Store,
    since: datetime,
    *,
    zone: tzinfo = timezone.utc,
    link: Callable[[str], str | None] = lambda _run_id: None,
    mask: Callable[[str], str] = str,
    until: float = float("inf"),
) -> Message:
    """The digest of the fleet in ``store`` from ``since`` until now. Raises :class:`StoreError` if nothing could be
    listed. Ends by ``until``, a time of ``time.monotonic()``."""
    found = all_records(store, until=until, skip=ended_long_ago)
    records = _small(found, until)
    runs = runs_of(records, since, found.at)
    alive = sum(record.status is Status.RUNNING and record.left_out is None for record in records)
    message = compose(
        runs, since, found.at, where=store.url, zone=zone, link=link, alive=alive, gaps=tuple(_gaps(found))
    )
    return message.masked(mask)


def _gaps(found: FleetRecords) -> Iterator[str]:
    """Which runs the digest leaves out, a sentence each."""
    if unknown := found.unusable + found.unread:
        yield f"{counted(unknown, 'record')} could not be read, so this digest may leave out as many runs"
    if found.unrecorded:
        yield f"No pass has looked at {counted(found.unrecorded, 'run')}, so this digest leaves them out"
    if found.partial is not None:
        yield found.partial


def _small(found: FleetRecords, until: float) -> list[Record]:
    """The records without their alerts and actions, which hold lines of logs."""
    return [replace(record, outbox=(), actions=(), receipts={}) for record in found.read(until)]


class DailyDigest:
    """Sends the digest of one fleet once a day. Its state only saves requests between passes."""

    def __init__(self, context: WatchContext, channels: Sequence[Channel], time: DigestTime) -> None:
        store, token = context.store, context.token or os.urandom(6).hex()
        self._context = context
        self._time = time
        self._repository = RecordRepository(store, DIGEST, token)
        self._runner = EffectRunner(
            self._repository, channels, context.policy.lease_s, store.clock, routing=context.routing
        )
        self._known = False
        """Whether the record was read since another sweep may have changed it."""

    def send(self, until: float) -> tuple[str, ...]:
        """Send the digest if it is due, and what is left of the last one. Returns notes. Never raises for a fault of
        the store or a channel."""
        try:
            self._send(until)
        except ConflictError:
            # Another sweep was faster, and sends it.
            self._known = False
        except StoreError as error:
            self._known = False
            log.warning("the digest has to wait: %s", error)
            return (f"The digest could not be made, so a later pass tries again: {error}",)
        return ()

    def _send(self, until: float) -> None:
        store, repository = self._context.store, self._repository
        now, record = store.clock(), repository.record
        if not self._known or (record is not None and self._is_due(record, now)):
            record, self._known = repository.reload(), True
        if record is None or record.since is None:
            # The first day has not passed yet.
            repository.save(Record(DIGEST_ID, since=self._time.due_at(now), happened_at=now), now)
            return
        due = self._is_due(record, now)
        if due:
            record = self._with_digest(record, now, until)
        self._runner.round(record, now, must_write=due, until=until)

    def _is_due(self, record: Record, now: datetime) -> bool:
        return record.since is None or self._time.is_due(record.since, now)

    def _with_digest(self, record: Record, now: datetime, until: float) -> Record:
        context, last = self._context, record.happened_at or now - DAY
        message = read_digest(
            context.store, last, zone=time_zone(self._time.zone), link=context.link, mask=context.mask, until=until
        )
        # Each day begins a thread of its own where a channel has threads.
        record = replace(record, since=self._time.due_at(now), happened_at=now, outbox=record.outbox[-1:], receipts={})
        return self._runner.enqueue(record, message)
