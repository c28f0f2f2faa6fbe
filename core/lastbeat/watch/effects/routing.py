"""Selects the channels for which an alert is enqueued.

No alert is lost. If the routes are unknown, or none of the channels that they name is set up, it goes to more channels
than were meant, with a note of the reason. Only a route that explicitly drops an alert does so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from lastbeat.model.alert import Alert, Message
from lastbeat.model.data import dataclass
from lastbeat.model.record import Record
from lastbeat.model.route import ALL, RouteTable
from lastbeat.model.status import Event
from lastbeat.watch.decide.routes import RouteChoice, as_event_of, choose, choose_together
from lastbeat.watch.effects.outbox import (
    ADOPT_S,
    RoutedTo,
    addressed,
    answers_to,
    delivered_under_name,
    enqueue,
    name_of,
    without_new,
)
from lastbeat.watch.record.channels import KnownChannels, Since
from lastbeat.watch.record.routes import Routes, RoutesNow

_TROUBLE: Final = frozenset({Event.FAILED, Event.TIMED_OUT, Event.WARNING, Event.FLAPPING, Event.BLIND})
_ENDS: Final = frozenset({Event.RECOVERED, Event.STARTED, Event.RESTARTED, Event.SUCCEEDED, Event.SIGHTED})
"""Alerts that end a problem. They go to every receiver of the alert about it, or an incident would stay open
forever."""


@dataclass(frozen=True, slots=True)
class Routing:
    """Enqueues alerts for the channels that the routes of a fleet name."""

    routes: Routes | None = None
    """The fleet's routes; None without routes, so that each alert goes to every channel."""
    known: KnownChannels | None = None
    """The begin of each channel's existence; None if every channel counts as old."""

    def add(
        self, record: Record, message: Message, identities: Sequence[str], members: Iterable[Message] = ()
    ) -> Record:
        """``record`` with the alert ``message`` for its channels among ``identities``.

        ``members`` are the alerts of its runs, if it is about many.
        """
        if not identities:
            # A watcher with channels takes it on, and routes it then.
            if self.known is not None:
                self.known.begin(message.at)
            return enqueue(record, message)
        routed, message = self._routed(record, message, identities, members)
        taken = identities if routed is None else [each for each in identities if each not in routed.left_out]
        return enqueue(record, message, taken, routed)

    def register(self, identities: Sequence[str], now: datetime) -> None:
        """Record the existence of these channels before a first alert. Never raises."""
        if self.known is not None and identities:
            self.known.since(map(name_of, identities), now)

    def late(self, record: Record, identities: Sequence[str], now: datetime) -> Record:
        """``record`` with routes for alerts that a watcher without channels decided, and without deliveries on channels
        that did not exist at an alert's decision."""
        if not identities:
            return record
        since = self.known.since(map(name_of, identities), now) if self.known is not None else {}
        outbox = list(record.outbox)
        for index, alert in enumerate(outbox):
            if (now - alert.created_at).total_seconds() > ADOPT_S:
                continue
            new = [each for each in identities if _is_new(alert, each, since)]
            old = [each for each in identities if each not in new]
            if self.routes is not None and old and not alert.deliveries and alert.routed_to is None:
                earlier = replace(record, outbox=tuple(outbox[:index]))
                routed, message = self._routed(earlier, alert.message, old, ())
                if routed is not None:
                    taken = [each for each in old if each not in routed.left_out]
                    outbox[index] = addressed(replace(alert, message=message), taken, routed)
            outbox[index] = without_new(outbox[index], new)
        return record if tuple(outbox) == record.outbox else replace(record, outbox=tuple(outbox))

    def _routed(
        self, record: Record, message: Message, identities: Sequence[str], members: Iterable[Message]
    ) -> tuple[RoutedTo | None, Message]:
        held = self._held(message)
        if held.table is None:
            note = f"This alert went to every channel, because {held.fault}" if held.fault else None
            return None, message if note is None else replace(message, notes=(*message.notes, note))
        choice = _chosen(held.table, message, members)
        return applied(choice, message, identities, problem_destinations(record, message))

    def _held(self, message: Message) -> RoutesNow:
        if self.routes is None:
            return RoutesNow()
        # A blind watcher does not read the routes from the store, because the answer would be late or missing.
        return self.routes.held if message.event is Event.BLIND else self.routes.now(message.at)


def _is_new(alert: Alert, identity: str, since: Since) -> bool:
    """Whether that channel did not exist yet when ``alert`` was decided."""
    began = since.get(name_of(identity))
    known = identity in alert.deliveries or delivered_under_name(alert, identity)
    return began is not None and alert.created_at < began and not known


def _chosen(table: RouteTable, message: Message, members: Iterable[Message]) -> RouteChoice:
    about = [as_event_of(member, message) for member in members]
    return choose_together(table, about) if about else choose(table, message)


def problem_destinations(record: Record, message: Message) -> tuple[str, ...]:
    """The destinations of the alert about the problem that ``message`` ends."""
    if message.event not in _ENDS:
        return ()
    troubles = (alert for alert in reversed(record.outbox) if alert.event in _TROUBLE)
    last = next(troubles, None)
    if last is None:
        return ()
    return (ALL,) if last.routed_to is None else last.routed_to


def applied(
    choice: RouteChoice, message: Message, identities: Sequence[str], also: tuple[str, ...] = ()
) -> tuple[RoutedTo | None, Message]:
    """The routes and the message by ``choice``, for a watcher with the channels ``identities``; pure. None instead of
    routes means every channel.

    1. A choice without destinations drops the alert.
    2. The receivers of an alert about a problem also receive the alert about its end.
    3. If no channel of this watcher is named, the default's replace them, and if there are none either, all of them.
    4. A name that this watcher lacks is kept, so that a watcher with that channel takes the alert on.
    """
    message = replace(message, mentions=choice.mentions, team=message.team or choice.team)
    if not choice.to:
        return RoutedTo((), choice.by, tuple(identities)), message
    to = tuple(dict.fromkeys((*choice.to, *also)))
    if ALL in to:
        return None, message
    here = _among(to, identities)
    absent = [name for name in to if not any(name in answers_to(each) for each in identities)]
    if absent:
        by, named = ", ".join(choice.by), ", ".join(absent)
        note = f"The route {by} names {named}, which was not set up where this alert was decided."
        message = replace(message, notes=(*message.notes, note))
    if not here:
        to = (*to, *choice.fallback)
        here = _among(to, identities)
        if ALL in to or not here:
            return None, message
    return RoutedTo(to, choice.by, tuple(each for each in identities if each not in here)), message


def _among(names: Iterable[str], identities: Iterable[str]) -> frozenset[str]:
    wanted = frozenset(names)
    return frozenset(each for each in identities if not answers_to(each).isdisjoint(wanted))
