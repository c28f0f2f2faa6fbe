"""Routes: which channels an alert goes to. People write them as YAML; passes read them compiled."""

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Persisted

ROUTES_FILE: Final = "_watchdog/routes.yaml"
"""Beside the runs: what people wrote."""
ROUTES: Final = "_watchdog/routes.json"
"""The same compiled, with the digest of the file that it was made from."""

ALL: Final = "all"
"""As a destination: every channel."""
NOBODY: Final = "nobody"
"""As a destination: the alert is recorded and not sent."""
THE_OWNER: Final = "owner"
"""Among those to mention: the run's owner, if ``people`` has them."""
DEFAULT: Final = "default"
"""The name of the last route, which every alert fits."""
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
LEFT_OUT: Final = "_routes/"
"""How ``Delivery.told_by`` begins where routes leave a channel out, or it did not exist yet."""


@dataclass(frozen=True)
class Person(Persisted):
    """Somebody, or a group of people, who may be mentioned. Trusted: people wrote it, not training."""

    slack: str | None = None
    """What Slack takes for a mention: ``<@U0123ABCD>``."""
    email: str | None = None
    pagerduty: str | None = None
    team: str | None = None
    """The team of runs whose owner this is, unless they say so themselves."""
    also: tuple[str, ...] = ()
    """Other names that a run may give them."""


@dataclass(frozen=True)
class Route(Persisted):
    """Where alerts go that fit it. An empty condition fits everything; of several, each has to fit."""

    name: str
    to: tuple[str, ...] = (ALL,)
    """Names of destinations, or one of :data:`ALL` and :data:`NOBODY`."""
    mention: tuple[str, ...] = (THE_OWNER,)
    goes_on: bool = False
    """The routes after it are asked, too."""
    runs: tuple[str, ...] = ()
    """Globs over run ids."""
    owners: tuple[str, ...] = ()
    """Globs over owners, in capitals or not, as of teams."""
    teams: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    """What the alert says: FAILED, TIMED_OUT, …"""
    severities: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    """Globs over error types."""
    hours: tuple[str, ...] = ()
    """``22:00-07:00``: from the first minute on, before the last; over midnight where the last is no later."""
    days: tuple[str, ...] = ()
    """Of :data:`DAYS`: when the hours begin, or the day itself without hours."""
    zone: str = "UTC"
    """The time zone of hours and days."""


@dataclass(frozen=True)
class RouteTable(Persisted):
    """A whole file. The last route is the default, which every alert fits."""

    routes: tuple[Route, ...]
    people: Mapping[str, Person] = field(default_factory=dict)
    source: str = ""
    """SHA-256 of the file that it was made from, in hex."""


class InvalidRouteError(ValueError):
    """Something of a table that cannot be used here; the message says what."""
