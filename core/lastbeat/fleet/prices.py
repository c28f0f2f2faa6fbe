"""Approximate prices of requests, to compare two plans and to show users an order of magnitude.

A store has prices of its own (``store.traits.prices``); these are for code without a store at hand. Traffic within a
region is free; storage is not counted here.
"""

from collections.abc import Mapping
from typing import Final

from lastbeat.stores.kind import S3_LIST

MONTH_S: Final = 30 * 86400.0
"""Length of a month in s, for all monthly figures."""


def dollars(requests: Mapping[str, float]) -> float:
    """Price in dollars of ``requests`` (kind → number) in S3."""
    return S3_LIST.dollars(requests)
