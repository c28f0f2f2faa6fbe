"""What requests cost: the list prices of S3 Standard in us-east-1, from https://aws.amazon.com/s3/pricing/ (2025-08).

Every region's prices have the same proportions or nearly so, and other classes' requests cost no less: good enough to
choose between two plans, and to tell people an order of magnitude. Traffic within a region is free; storage is not
counted here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PER_REQUEST: Final[Mapping[str, float]] = MappingProxyType(
    {
        "LIST": 0.005 / 1000,
        "PUT": 0.005 / 1000,
        "GET": 0.0004 / 1000,
        "HEAD": 0.0004 / 1000,
        "DELETE": 0.0,
    }
)
"""Kind of request → dollars."""

MONTH_S: Final = 30 * 86400.0
"""A month, as everything here that is told by the month counts it."""


def is_paid(url: str) -> bool:
    """Whether requests to the store at ``url`` cost money."""
    return url.startswith("s3://")


def dollars(requests: Mapping[str, float]) -> float:
    """What ``requests`` (kind → how many) cost; a kind without a price of its own costs what a GET does."""
    return sum(PER_REQUEST.get(kind, PER_REQUEST["GET"]) * count for kind, count in requests.items())
