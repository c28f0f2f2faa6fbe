"""Selects the routes of an alert. Pure.

Routes are tried from the top. The first that fits takes the alert; after one with ``continue`` the next are tried, too.
The last one is the default and fits everything. So each alert goes somewhere, or a route drops it explicitly.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

from lastbeat import model
from lastbeat.model.alert import MentionedPerson, Message
from lastbeat.model.data import dataclass
from lastbeat.model.pattern import Pattern
from lastbeat.model.route import ALL, DAYS, NOBODY, THE_OWNER, InvalidRouteError, Person, Route, RouteTable

MENTIONS_LIMIT: Final = 10
"""At most this many people are mentioned in an alert about many runs."""
_HOURS: Final = Pattern(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class RouteChoice:
    """Where an alert goes."""

    by: tuple[str, ...]
    """Names of the routes that take it."""
    to: tuple[str, ...]
    """Destinations, perhaps :data:`ALL`. Empty if the alert is dropped."""
    fallback: tuple[str, ...] = (ALL,)
    """The default route's destinations, for when none of ``to`` is set up."""
    mentions: tuple[MentionedPerson, ...] = ()
    team: str | None = None
    """The run's team: as training states it, else as ``people`` has it for the owner."""


def choose(table: RouteTable, message: Message) -> RouteChoice:
    """Where ``message``, an alert about one run, goes."""
    owner = _person(table, message.owner)
    team = message.team or (owner[1].team if owner is not None else None)
    # An owner with several names is found by each of them.
    owners = {name for name in (message.owner, owner[0] if owner is not None else None) if name}
    taken: list[Route] = []
    for route in table.routes:
        if fits(route, message, owners, team):
            taken.append(route)
            if not route.goes_on:
                break
    to = tuple(dict.fromkeys(name for route in taken for name in route.to if name != NOBODY))
    mentions = _mentions(table, taken, owner) if to else ()
    return RouteChoice(tuple(route.name for route in taken), to, _fallback(table), mentions, team)


def choose_together(table: RouteTable, messages: Iterable[Message]) -> RouteChoice:
    """Where an alert about several runs goes: wherever an alert about one of them would."""
    by, to, mentions = dict[str, None](), dict[str, None](), dict[str, MentionedPerson]()
    for message in messages:
        choice = choose(table, message)
        by |= dict.fromkeys(choice.by)
        to |= dict.fromkeys(choice.to)
        mentions |= {each.name: each for each in choice.mentions}
    if not by:
        return RouteChoice((), (ALL,))
    return RouteChoice(tuple(by), tuple(to), _fallback(table), tuple(mentions.values())[:MENTIONS_LIMIT])


def fits(route: Route, message: Message, owners: Iterable[str], team: str | None) -> bool:
    """Whether every condition of ``route`` holds of ``message``."""
    return (
        _any(route.runs, (message.run_id,))
        and _any(route.owners, owners, fold=True)
        and _any(route.teams, (team or "",), fold=True)
        and _any(route.events, (message.event.value,))
        and _any(route.severities, (message.severity,))
        and _any(route.causes, (message.cause or "none",))
        and _in_time(route, message.at)
    )


def _any(globs: tuple[str, ...], values: Iterable[str], *, fold: bool = False) -> bool:
    if not globs:
        return True
    said = [value.casefold() if fold else value for value in values if value]
    wanted = [glob.casefold() for glob in globs] if fold else globs
    return any(fnmatchcase(value, glob) for value in said for glob in wanted)


def _in_time(route: Route, at: datetime) -> bool:
    if not route.hours and not route.days:
        return True
    here = at.astimezone(model.digest.time_zone(route.zone))
    minute, today = here.hour * 60 + here.minute, DAYS[here.weekday()]
    yesterday = DAYS[(here - timedelta(days=1)).weekday()]
    days = route.days or DAYS
    if not route.hours:
        return today in days
    for begin, end in map(window, route.hours):
        over_midnight = end <= begin
        if today in days and begin <= minute and (over_midnight or minute < end):
            return True
        if over_midnight and yesterday in days and minute < end:
            return True
    return False


def window(hours: str) -> tuple[int, int]:
    """``22:00-07:00`` in minutes of the day. Raises :class:`InvalidRouteError`."""
    match = _HOURS.fullmatch(hours)
    if match is None:
        raise InvalidRouteError(f"{hours[:40]!r} is no time of day from and to; use for example '22:00-07:00'")
    begin, end = int(match[1]) * 60 + int(match[2]), int(match[3]) * 60 + int(match[4])
    if end > 24 * 60 or begin == end:
        raise InvalidRouteError(f"{hours!r} ends after the day, or where it begins; all day is no hours at all")
    return begin, end


def check_zone(name: str) -> str:
    """``name``, if this machine knows that time zone. Raises :class:`InvalidRouteError`."""
    try:
        model.digest.time_zone(name)
    except ValueError as error:
        raise InvalidRouteError(str(error)) from error
    return name


def check(table: RouteTable) -> None:
    """Raises :class:`InvalidRouteError` unless this version, on this machine, can follow all of ``table``.

    A route that this version cannot follow would send alerts to fewer people than intended.
    """
    if not table.routes:
        raise InvalidRouteError("it has no routes")
    parts = (table, *table.routes)
    if any(part.unknown for part in parts):
        raise InvalidRouteError("a newer lastbeat wrote it; upgrade lastbeat here")
    for route in table.routes:
        check_zone(route.zone)
        for hours in route.hours:
            window(hours)
    last = table.routes[-1]
    bare = Route(last.name, last.to, last.mention)
    if last != bare or not last.to:
        raise InvalidRouteError("its last route does not take every alert")


def _person(table: RouteTable, owner: str | None) -> tuple[str, Person] | None:
    said = (owner or "").casefold()
    if not said:
        return None
    named = ((name, person) for name, person in table.people.items() if said in map(str.casefold, (name, *person.also)))
    return next(named, None)


def _mentions(
    table: RouteTable, taken: Iterable[Route], owner: tuple[str, Person] | None
) -> tuple[MentionedPerson, ...]:
    found: dict[str, MentionedPerson] = {}
    for name in (name for route in taken if route.to != (NOBODY,) for name in route.mention):
        who = owner if name == THE_OWNER else _person(table, name)
        if who is not None:
            found[who[0]] = MentionedPerson(who[0], who[1].slack, who[1].email, who[1].pagerduty)
    return tuple(found.values())[:MENTIONS_LIMIT]


def _fallback(table: RouteTable) -> tuple[str, ...]:
    last = table.routes[-1].to
    return last if last != (NOBODY,) else (ALL,)


def as_event_of(message: Message, notice: Message) -> Message:
    """``message``, an alert about one run, with the event and time of its group's ``notice``."""
    return replace(message, event=notice.event, at=notice.at)
