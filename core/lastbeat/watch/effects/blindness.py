"""The blindness alert: a watchdog that cannot observe for too long reports that once.

Its memory cannot lie in the store that cannot be reached. It is a record with an outbox of its own in the state
directory, or in this process if there is none.
"""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from lastbeat.alerts.port import Channel
from lastbeat.model.alert import Message
from lastbeat.model.policy import Policy
from lastbeat.model.record import Record
from lastbeat.model.state import State
from lastbeat.model.status import Event, Status
from lastbeat.model.times import format_duration, format_time
from lastbeat.stores.port import ConflictError, StoreError
from lastbeat.stores.volatile import VolatileStore
from lastbeat.watch.effects.message import RunLocation
from lastbeat.watch.effects.outbox import pending
from lastbeat.watch.effects.routing import Routing
from lastbeat.watch.effects.runner import EffectRunner
from lastbeat.watch.record.repository import RecordRepository

log = logging.getLogger(__name__)

_SAME_S = 60.0
"""Largest difference in s between two estimates of the same moment, across a pass and two clocks."""
_ADVICE = "Check the network, the credentials and the store, or run: lastbeat doctor"


def _is_over(record: Record, since: datetime | None) -> bool:
    """Whether this blindness, which raised no alert, ended before the one that began at ``since``."""
    if record.transitions or record.since is None or since is None:
        return False
    return (since - record.since).total_seconds() > _SAME_S


def state_key(kind: str, url: str, run_id: str) -> str:
    """The key of one run's document in the state directory, distinct for each fleet root."""
    root = hashlib.sha256(url.encode()).hexdigest()[:16]
    return f"{kind}/{root}/{run_id}.json"


class Subject(NamedTuple):
    """The invisible thing, with its name at a first mention and at later ones."""

    named: str
    again: str


RUN: Final = Subject("this run", "the run")
SOME_RUNS: Final = Subject("some runs of this fleet", "those runs")
FLEET: Final = Subject("this fleet", "the fleet")


class BlindnessAlert:
    """Whether this watcher can see ``subject``, and since when it cannot."""

    def __init__(  # noqa: PLR0913 - what it needs, each by its name
        self,
        repository: RecordRepository,
        channels: Sequence[Channel],
        policy: Policy,
        place: RunLocation,
        clock: Callable[[], datetime],
        *,
        subject: Subject = RUN,
        routing: Routing | None = None,
    ) -> None:
        # An unreachable store is not asked for the begin of channels.
        routing = replace(routing or Routing(), known=None)
        self._runner = EffectRunner(repository, channels, policy.lease_s, clock, routing=routing)
        self._blind_s = policy.blind_s
        self._place = place
        self._subject = subject
        self._clock = clock

    def lost(self, run_id: str, reason: str, since: datetime | None = None) -> None:
        """Note that a pass could not observe. ``reason`` is without secrets. ``since`` is the begin of the blindness,
        if the caller knows it better; an earlier blindness in memory then counts as ended."""
        self._with_memory(lambda: self._lost(run_id, reason, since))

    def regained(self, run_id: str) -> None:
        """Note that a pass could observe. If there was a BLIND alert, an alert reports its end."""
        self._with_memory(lambda: self._regained(run_id))

    def _with_memory(self, act: Callable[[], None]) -> None:
        try:
            act()
        except ConflictError:
            # Another watcher on this host was faster. The next pass reads its record.
            return
        except StoreError as error:
            repository = self._runner.repository
            if isinstance(repository.store, VolatileStore):
                raise
            log.warning("the state directory cannot be used, so blindness is remembered only here: %s", error)
            local = RecordRepository(VolatileStore(self._clock), repository.key, repository.token)
            if repository.record is not None:
                local.save(repository.record, self._clock())
            self._runner.repository = local
            self._with_memory(act)

    def _lost(self, run_id: str, reason: str, since: datetime | None) -> None:
        now = self._clock()
        record = self._runner.repository.reload()
        if record is None or record.status is not Status.UNKNOWN or _is_over(record, since):
            blind = Record(run_id, State(Status.UNKNOWN, reason), since=since or now, conditional_writes=True)
            outbox = () if record is None else record.outbox
            alerts = 0 if record is None else record.alerts
            receipts = {} if record is None else record.receipts
            blind = replace(blind, outbox=outbox, alerts=alerts, receipts=receipts)
            self._runner.round(blind, now, must_write=True)
            return
        blind_s = (now - record.since).total_seconds() if record.since else 0.0
        tell = record.transitions == 0 and blind_s >= self._blind_s
        if tell:
            what = f"lastbeat has not been able to watch {self._subject.named} for {format_duration(blind_s)}: {reason}"
            message = self._message(run_id, Event.BLIND, what, now, record)
            record = self._runner.enqueue(replace(record, transitions=1), message)
        self._runner.round(record, now, must_write=tell)

    def _regained(self, run_id: str) -> None:
        record = self._runner.repository.reload()
        if record is None:
            return
        now = self._clock()
        if record.status is Status.UNKNOWN:
            if record.transitions:
                blind_s = (now - record.since).total_seconds() if record.since else 0.0
                what = f"lastbeat can watch {self._subject.named} again, after {format_duration(blind_s)}"
                message = self._message(run_id, Event.SIGHTED, what, now, record)
                record = self._runner.enqueue(record, message)
            record = replace(record, state=State(Status.RUNNING, record.reason), transitions=0)
            record = self._runner.round(record, now, must_write=True)
        else:
            record = self._runner.round(record, now, must_write=False)
        if not pending(record, self._runner.identities, now):
            repository = self._runner.repository
            repository.store.delete(repository.key)

    def _message(self, run_id: str, event: Event, what: str, now: datetime, record: Record) -> Message:
        return Message(
            # A number alone could clash with the run's own alerts, which are counted elsewhere.
            key=f"{run_id}/{event.value.lower()}/{format_time(record.since)}",
            run_id=run_id,
            event=event,
            status=Status.UNKNOWN,
            reason=what,
            at=now,
            action=f"This says nothing about {self._subject.again}. {_ADVICE}" if event is Event.BLIND else None,
            where=self._place.where,
            link=self._place.link,
        )
