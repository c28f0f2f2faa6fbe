"""Routes as lines for people, and as a document."""

from collections.abc import Iterator, Sequence

from lastbeat.alerts.port import Channel
from lastbeat.model.as_json import picked
from lastbeat.model.route import ALL, DAYS, NOBODY, THE_OWNER, Route, RouteTable
from lastbeat.watch.effects.outbox import answers_to

_SPECIAL = frozenset({ALL, NOBODY})


def absent(table: RouteTable, channels: Sequence[Channel]) -> list[str]:
    """A sentence for each destination that is not set up here."""
    known = {name for channel in channels for name in answers_to(channel.identity)}
    named: dict[str, list[str]] = {}
    for route in table.routes:
        for name in route.to:
            if name not in known | _SPECIAL:
                named.setdefault(name, []).append(route.name)
    return [f"no channel called {name} is set up here (route {', '.join(by)})" for name, by in named.items()]


def described(table: RouteTable) -> Iterator[str]:
    """The routes in order, then the people."""
    width = max(len(route.name) for route in table.routes)
    for route in table.routes:
        rest = " and goes on" if route.goes_on else ""
        yield f"{route.name:<{width}}  {_conditions(route)} → {', '.join(route.to)}{rest}{_mentioned(route)}"
    if table.people:
        yield ""
        yield "People"
        for name, person in table.people.items():
            ways = [text for text in (person.slack, person.email, person.pagerduty) if text]
            ways += [f"team {person.team}"] if person.team else []
            ways += [f"also {', '.join(person.also)}"] if person.also else []
            yield f"  {name}: {', '.join(ways) or 'nothing is known'}"


def _conditions(route: Route) -> str:
    told = [
        f"{name} {' or '.join(wanted)}"
        for name, wanted in (
            ("run", route.runs),
            ("owner", route.owners),
            ("team", route.teams),
            ("status", tuple(map(str.lower, route.events))),
            ("severity", route.severities),
            ("cause", route.causes),
        )
        if wanted
    ]
    if route.hours or route.days:
        days = "" if not route.days or set(route.days) == set(DAYS) else f" {', '.join(route.days)}"
        told.append(f"at {' or '.join(route.hours) or 'any time'}{days} ({route.zone})")
    return ", ".join(told) or "everything"


def _mentioned(route: Route) -> str:
    if route.mention == (THE_OWNER,) or route.to == (NOBODY,):
        return ""
    return f", mentions {', '.join(route.mention) or 'nobody'}"


def table_document(table: RouteTable) -> dict[str, object]:
    """The table as a document, in the keys of the file."""
    return {
        "routes": [_route(route) for route in table.routes],
        "people": {name: picked(person, "slack email pagerduty team also") for name, person in table.people.items()},
    }


def _route(route: Route) -> dict[str, object]:
    return {
        **picked(route, "name to mention"),
        "when": {
            **picked(route, "runs hours days zone"),
            "owner": list(route.owners),
            "team": list(route.teams),
            "status": [event.lower() for event in route.events],
            "severity": list(route.severities),
            "cause": list(route.causes),
        },
        "continue": route.goes_on,
    }
