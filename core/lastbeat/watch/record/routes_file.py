"""A routes file that people wrote → the table that passes read, or all faults of the file; and its place in the fleet.

This imports PyYAML and pydantic, so passes import it only for a file that is not compiled yet.
"""

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from lastbeat.explain import handwritten
from lastbeat.explain.handwritten import UNSAID, HandwrittenModel, Name
from lastbeat.model.file_fault import FileFault
from lastbeat.model.route import ALL, DAYS, DEFAULT, NOBODY, ROUTES, ROUTES_FILE, THE_OWNER, Person, Route, RouteTable
from lastbeat.model.silence import InvalidSilenceError, check_glob
from lastbeat.model.status import Event
from lastbeat.model.text import NAME_LIMIT, nearest, one_line
from lastbeat.stores.port import Store
from lastbeat.watch.decide.routes import check_zone, window
from lastbeat.watch.record.routes import FILE_LIMIT_BYTES, digest, encode

MOST_ROUTES: Final = 200
MOST_PEOPLE: Final = 1000
_MOST_WORDS: Final = 100
"""At most this many words in one list."""
_SEVERITIES: Final = ("critical", "warning", "info")
_EVENTS: Final = tuple(event.value.lower() for event in Event if event is not Event.TEST)
_DESTINATION: Final = re.compile(r"[a-z][a-z0-9-]{0,40}(?::[a-z0-9][a-z0-9-]{0,40})?")
_SLACK: Final = re.compile(r"<(?:@[UW][A-Z0-9]{2,30}|!subteam\^S[A-Z0-9]{2,30}|!here|!channel|!everyone)>")
_SLACK_ID: Final = re.compile(r"[UW][A-Z0-9]{4,30}")


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _glob(text: str) -> str:
    try:
        return check_glob(text)
    except InvalidSilenceError as fault:
        raise ValueError(str(fault)) from None


def _one_line_text(text: str) -> str:
    if not one_line(text) or one_line(text) != text or len(text) > NAME_LIMIT:
        raise ValueError(f"has to be one line of 1 to {NAME_LIMIT} characters, without space at its ends")
    return text


def _word(text: str, known: tuple[str, ...]) -> str:
    if text.lower() not in known:
        raise ValueError(f"{text[:60]!r} is none of {', '.join(known)}{nearest(text.lower(), known)}")
    return text.lower()


def _destination(text: str) -> str:
    if _DESTINATION.fullmatch(text) is None:
        raise ValueError(
            f"{text[:60]!r} is no destination; use the name of a channel (slack, or one of your own), all or nobody"
        )
    return text


def _days(text: str) -> str:
    """One day, or a range of them."""
    first, dash, last = text.lower().partition("-")
    for day in (first, last) if dash else (first,):
        if day not in DAYS:
            raise ValueError(f"{text[:40]!r} is no day; use {', '.join(DAYS)}, or a range such as mon-fri")
    return text.lower()


def _hours(text: str) -> str:
    window(text)
    return text


def _slack(text: str) -> str:
    if _SLACK_ID.fullmatch(text):
        return f"<@{text}>"
    if _SLACK.fullmatch(text) is None:
        raise ValueError(
            f"{text[:60]!r} is no mention; use a member's id (U0123ABCD, from their profile), <!subteam^S0123ABCD>, "
            "<!here> or <!channel>"
        )
    return text


_Line = Annotated[str, AfterValidator(_one_line_text)]


def _list_of(kind: Any) -> Any:
    return Annotated[list[kind], BeforeValidator(_listed), Field(min_length=1, max_length=_MOST_WORDS)]


class PersonEntry(HandwrittenModel):
    """Somebody who may be mentioned."""

    slack: Annotated[str, AfterValidator(_slack)] = UNSAID
    """Their member id in Slack, or a group's."""
    email: _Line = UNSAID
    pagerduty: _Line = UNSAID
    team: _Line = UNSAID
    """The team of their runs."""
    also: _list_of(_Line) = UNSAID  # type: ignore[valid-type]
    """Other names for them in a run's heartbeat."""


class ConditionsEntry(HandwrittenModel):
    """What has to hold of an alert; of a list, one of it."""

    runs: _list_of(Annotated[str, AfterValidator(_glob)]) = UNSAID  # type: ignore[valid-type]
    owner: _list_of(_Line) = UNSAID  # type: ignore[valid-type]
    team: _list_of(_Line) = UNSAID  # type: ignore[valid-type]
    status: _list_of(Annotated[str, AfterValidator(lambda text: _word(text, _EVENTS))]) = UNSAID  # type: ignore[valid-type]
    """What the alert says: failed, timed_out, succeeded, …"""
    severity: _list_of(Annotated[str, AfterValidator(lambda text: _word(text, _SEVERITIES))]) = UNSAID  # type: ignore[valid-type]
    cause: _list_of(_Line) = UNSAID  # type: ignore[valid-type]
    """Error types, or none."""
    hours: _list_of(Annotated[str, AfterValidator(_hours)]) = UNSAID  # type: ignore[valid-type]
    days: _list_of(Annotated[str, AfterValidator(_days)]) = UNSAID  # type: ignore[valid-type]
    zone: Annotated[str, AfterValidator(check_zone)] = UNSAID


class DefaultEntry(HandwrittenModel):
    """Where alerts go that no route took."""

    to: _list_of(Annotated[str, AfterValidator(_destination)])  # type: ignore[valid-type]
    mention: Annotated[list[_Line], BeforeValidator(_listed), Field(max_length=_MOST_WORDS)] = UNSAID

    @model_validator(mode="after")
    def _one_word_alone(self) -> "DefaultEntry":
        for word in (ALL, NOBODY):
            if word in self.to and len(self.to) > 1:
                raise ValueError(f"to: {word} stands beside other destinations; it has to stand alone")
        return self


class RouteEntry(DefaultEntry):
    """A route."""

    name: Name
    when: ConditionsEntry
    goes_on: bool = Field(default=UNSAID, alias="continue")

    @model_validator(mode="after")
    def _sensible(self) -> "RouteEntry":
        if self.to == [NOBODY] and self.goes_on:
            raise ValueError("to: nobody drops the alert, so nothing can continue; remove one of them")
        if not self.when.stated():
            raise ValueError("when: has no conditions; what is for every alert is the default")
        return self


class RoutesDocument(HandwrittenModel):
    """A whole file."""

    zone: Annotated[str, AfterValidator(check_zone)] = UNSAID
    """The time zone of hours and days, unless a route has its own; else UTC."""
    people: Annotated[dict[_Line, PersonEntry], Field(max_length=MOST_PEOPLE)] = UNSAID
    routes: Annotated[list[RouteEntry], Field(max_length=MOST_ROUTES)] = UNSAID
    default: DefaultEntry
    """What no route takes goes there, so no alert is lost."""


def compiled(body: bytes, file: str) -> tuple[RouteTable | None, list[FileFault]]:
    """The file's table without faults, or None with all faults."""
    faults: list[FileFault] = []
    if len(body) > FILE_LIMIT_BYTES:
        what = f"it has {len(body):,} bytes, and {FILE_LIMIT_BYTES:,} is the most; is it the right file?"
        return None, [FileFault(file, 0, what)]
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return None, [FileFault(file, 0, f"it is not UTF-8 text (byte {error.start}); save it as UTF-8")]
    document = handwritten.read(text, file, faults)
    if document is None or faults:
        return None, faults
    if document.value is None:
        return None, [FileFault(file, 0, "it is empty; a routes file has a default: at least")]
    found, _ = handwritten.checked(RoutesDocument, document, faults)
    if found is None or faults:
        return None, faults
    _cross_checked(found, document, faults)
    return (None, faults) if faults else (_table(found, digest(body)), [])


def _cross_checked(found: RoutesDocument, document: handwritten.Document, faults: list[FileFault]) -> None:
    """Check what only the whole file shows: duplicate names, and unknown ones."""
    known: dict[str, str] = {}
    for name, person in (found.people or {}).items():
        if name.casefold() == THE_OWNER:
            what = f"people: '{THE_OWNER}' stands for the run's owner; give this one another name"
            faults.append(FileFault(document.file, document.key_line("people", name), what))
        for said in (name, *(person.also or ())):
            if known.setdefault(said.casefold(), name) != name:
                what = f"people: {said!r} is a name of both {known[said.casefold()]!r} and {name!r}; keep one"
                faults.append(FileFault(document.file, document.key_line("people", name), what))
    names: set[str] = {DEFAULT}
    for index, route in enumerate(found.routes or ()):
        if route.name in names:
            what = f"routes: the name {route.name!r} is taken already; alerts name the route by which they came"
            faults.append(FileFault(document.file, document.line("routes", index, "name"), what))
        names.add(route.name)
    entries = [(entry, ("routes", index)) for index, entry in enumerate(found.routes or ())]
    for entry, place in (*entries, (found.default, ("default",))):
        for name in entry.mention or ():
            if name != THE_OWNER and name.casefold() not in known:
                what = f"mention: nobody under people: is called {name!r}{nearest(name, (THE_OWNER, *known))}"
                faults.append(FileFault(document.file, document.line(*place, "mention"), what))


def _table(found: RoutesDocument, source: str) -> RouteTable:
    zone = found.zone or "UTC"
    routes = [_route(entry, zone) for entry in found.routes or ()]
    default = found.default
    routes.append(Route(DEFAULT, tuple(default.to), _mentioned(default)))
    people = {
        name: Person(person.slack, person.email, person.pagerduty, person.team, tuple(person.also or ()))
        for name, person in (found.people or {}).items()
    }
    return RouteTable(tuple(routes), people, source)


def _mentioned(entry: DefaultEntry) -> tuple[str, ...]:
    return (THE_OWNER,) if entry.mention is None else tuple(entry.mention)


def _route(entry: RouteEntry, zone: str) -> Route:
    when = entry.when
    return Route(
        entry.name,
        tuple(entry.to),
        _mentioned(entry),
        goes_on=bool(entry.goes_on),
        runs=tuple(when.runs or ()),
        owners=tuple(when.owner or ()),
        teams=tuple(when.team or ()),
        events=tuple(event.upper() for event in when.status or ()),
        severities=tuple(when.severity or ()),
        causes=tuple(when.cause or ()),
        hours=tuple(when.hours or ()),
        days=tuple(dict.fromkeys(day for days in when.days or () for day in _each_day(days))),
        zone=when.zone or zone,
    )


def _each_day(days: str) -> tuple[str, ...]:
    first, _, last = days.partition("-")
    begin, end = DAYS.index(first), DAYS.index(last or first)
    # fri-mon goes over the weekend.
    return tuple(DAYS[index % 7] for index in range(begin, (end if end >= begin else end + 7) + 1))


def put_routes(store: Store, body: bytes, file: str) -> tuple[RouteTable | None, list[FileFault]]:
    """Check ``body``, and make it the routes of the fleet. Returns the compiled table, or the faults; with faults
    nothing was changed. Raises :class:`StoreError`.

    The file is written first: a watcher that sees only the file compiles it itself.
    """
    table, faults = compiled(body, file)
    if table is not None:
        store.write(ROUTES_FILE, body)
        store.write(ROUTES, encode(table))
    return table, faults
