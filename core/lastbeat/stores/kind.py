"""What every kind of store brings along, before anybody asks it for anything: its address, its prices, its words."""

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lastbeat.model.data import dataclass

DIRECTORY: Final = "file"
"""The scheme of directories, which nobody writes: their address is a path."""
DEFAULT_DIRECTORY: Final = "training-runs"
"""The root where none is named, in the current folder."""


@dataclass(frozen=True, slots=True)
class Root:
    """A fleet root. ``place`` is the bucket or container, or the absolute path of a directory, and ``prefix`` has no
    slash at either end; empty is the top."""

    scheme: str
    place: str
    prefix: str | None = ""
    """None: not said, so ``MONITORING_PREFIX`` applies."""

    @property
    def url(self) -> str:
        """As people write it: ``s3://bucket/prefix``, or the path."""
        return (
            self.place if self.scheme == DIRECTORY else f"{self.scheme}://{self.place}/{self.prefix or ''}".rstrip("/")
        )

    @property
    def path(self) -> Path:
        """Of a directory."""
        return Path(self.place)


class Charge(Enum):
    """What is known of what requests cost."""

    LISTED = "listed"
    """The prices are a provider's list."""
    UNKNOWN = "unknown"
    """Requests cost money, but how much is not known; people are told of requests alone."""
    FREE = "free"


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars a request, by its kind (LIST, GET, PUT, DELETE, HEAD). Where they are not a provider's own they still
    weigh one kind against another: that is how a pass chooses between listing and reading."""

    per_request: Mapping[str, float]
    charge: Charge
    told: str
    """Whose they are, and when they were looked up, for people."""

    @property
    def free(self) -> bool:
        return self.charge is Charge.FREE

    def dollars(self, requests: Mapping[str, float]) -> float:
        """What ``requests`` (kind → how many) cost; a kind without a price of its own costs what a GET does."""
        each = self.per_request
        return sum(each.get(kind, each["GET"]) * count for kind, count in requests.items())


S3_LIST: Final = Prices(
    MappingProxyType(
        {"LIST": 0.005 / 1000, "PUT": 0.005 / 1000, "GET": 0.0004 / 1000, "HEAD": 0.0004 / 1000, "DELETE": 0.0}
    ),
    Charge.LISTED,
    "S3 Standard, us-east-1",
)
"""From https://aws.amazon.com/s3/pricing/ (2025-08). Every region's prices have the same proportions or nearly so, and
other classes' requests cost no less. Elsewhere these are the weights by which one plan is compared with another."""


FREE: Final = Prices(S3_LIST.per_request, Charge.FREE, "a directory costs nothing")
UNKNOWN: Final = Prices(S3_LIST.per_request, Charge.UNKNOWN, "nobody knows the prices")


@dataclass(frozen=True, slots=True)
class Traits:
    """What is true of a store whatever lies in it."""

    prices: Prices
    local: bool = False
    """Keys are files below a path that people can open. Nobody needs credentials, and who may read one file need not be
    able to read all."""
    one_clock: bool = False
    """Files are stamped by the very clock that programs of this machine read: nobody's is off."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """What an object store's answers mean, and what to do about each."""

    place: str
    """What the store calls where objects lie: a bucket, a container."""
    endpoint: str
    """The variable that names another endpoint."""
    login: str
    """What to do where credentials are missing or could not be loaded."""
    expired: str
    """The same where they were valid once."""
    create: str
    """What to do where the bucket or container is not there."""
    trust: str
    """What to do where the server's certificate is not trusted."""
    allow: Mapping[str, str]
    """First word of what was done (reading, writing, listing, deleting) → the permission for it."""
    no_place: frozenset[str]
    """Error codes for a bucket or container that is not there."""
    no_key: frozenset[str]
    """Error codes for a key that is not there."""
    denied: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Error code → what is wrong with the credentials, and what to do."""
    elsewhere: frozenset[str] = frozenset()
    """Error codes for a bucket in another region."""
    region: str = ""
    """The variable that names the region, where stores have one."""
