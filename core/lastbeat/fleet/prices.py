"""What requests cost, in proportion: which of two plans costs less, and an order of magnitude for people.

A store has prices of its own (``store.traits.prices``); these are for what has no store at hand. Traffic within a
region is free; storage is not counted here.
"""

from collections.abc import Mapping
from typing import Final

from lastbeat.stores.kind import S3_LIST

PER_REQUEST: Final[Mapping[str, float]] = S3_LIST.per_request
"""Kind of request → dollars."""

MONTH_S: Final = 30 * 86400.0
"""A month, as everything here that is told by the month counts it."""


def dollars(requests: Mapping[str, float]) -> float:
    """What ``requests`` (kind → how many) would cost in S3."""
    return S3_LIST.dollars(requests)
