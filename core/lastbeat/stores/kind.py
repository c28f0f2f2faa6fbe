"""Facts about each kind of store that need no request: its address, its prices, and its terms."""

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lastbeat.model.data import dataclass

DIRECTORY: Final = "file"
"""The internal scheme of directories, whose address is a path."""
DEFAULT_DIRECTORY: Final = "training-runs"
"""The default root, in the current folder."""


@dataclass(frozen=True, slots=True)
class Root:
    """A fleet root. ``place`` is the bucket or container, or the absolute path of a directory, and ``prefix`` has no
    slash at either end; empty is the top."""

    scheme: str
    place: str
    prefix: str | None = ""
    """None if not given, so that ``MONITORING_PREFIX`` applies."""

    @property
    def url(self) -> str:
        """The root as users write it: ``s3://bucket/prefix``, or the path."""
        return (
            self.place if self.scheme == DIRECTORY else f"{self.scheme}://{self.place}/{self.prefix or ''}".rstrip("/")
        )

    @property
    def path(self) -> Path:
        """The path of a directory."""
        return Path(self.place)


class Charge(Enum):
    """What is known about the prices of requests."""

    LISTED = "listed"
    """The prices are from a provider's list."""
    UNKNOWN = "unknown"
    """Requests cost money, but the prices are unknown, so only numbers of requests are shown."""
    FREE = "free"


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per request, by its kind (LIST, GET, PUT, DELETE, HEAD). Even if they are not the provider's own, they
    weigh one kind against another, from which a pass chooses between listing and reading."""

    per_request: Mapping[str, float]
    charge: Charge
    told: str
    """Source and date of the prices, for display."""

    @property
    def free(self) -> bool:
        return self.charge is Charge.FREE

    def dollars(self, requests: Mapping[str, float]) -> float:
        """Price in dollars of ``requests`` (kind → number); a kind without a price of its own costs as much as a
        GET."""
        each = self.per_request
        return sum(each.get(kind, each["GET"]) * count for kind, count in requests.items())


S3_LIST: Final = Prices(
    MappingProxyType(
        {"LIST": 0.005 / 1000, "PUT": 0.005 / 1000, "GET": 0.0004 / 1000, "HEAD": 0.0004 / 1000, "DELETE": 0.0}
    ),
    Charge.LISTED,
    "S3 Standard, us-east-1",
)
"""From https://aws.amazon.com/s3/pricing/ (2025-08). Every region's prices have nearly the same proportions, and
requests of other storage classes cost no less. For other stores they are weights to compare one plan with another."""


FREE: Final = Prices(S3_LIST.per_request, Charge.FREE, "a directory costs nothing")
UNKNOWN: Final = Prices(S3_LIST.per_request, Charge.UNKNOWN, "the prices are unknown")


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of a store, independent of its content."""

    prices: Prices
    local: bool = False
    """Whether keys are files below a path that users can open. No credentials are needed, and permissions may differ
    from file to file."""
    one_clock: bool = False
    """Whether files are stamped by the clock of this machine, so that the two never differ."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """The meaning of an object store's error codes, and the advice for each."""

    place: str
    """The store's term for a container of objects: bucket or container."""
    endpoint: str
    """The variable that names another endpoint."""
    login: str
    """Advice for credentials that are missing or could not be loaded."""
    expired: str
    """Advice for credentials that have expired."""
    create: str
    """Advice for a missing bucket or container."""
    trust: str
    """Advice for a server's certificate that is not trusted."""
    allow: Mapping[str, str]
    """First word of an operation (reading, writing, listing, deleting) → the permission for it."""
    no_place: frozenset[str]
    """Error codes for a missing bucket or container."""
    no_key: frozenset[str]
    """Error codes for a missing key."""
    denied: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Error code → the fault of the credentials, and the advice."""
    elsewhere: frozenset[str] = frozenset()
    """Error codes for a bucket in another region."""
    region: str = ""
    """The variable that names the region; empty for stores without regions."""
