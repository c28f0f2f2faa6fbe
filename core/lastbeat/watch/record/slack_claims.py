"""Requests of Slack's that were answered: each acts at most once, however often it is sent, to any process.

A process that dies after its claim has perhaps done nothing. Then the user sees no answer, and types it again.
"""

import os
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from lastbeat.model.codec import DamagedError, codec
from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Persisted
from lastbeat.stores.port import Blob, Store, StoreError
from lastbeat.watch.record import fleet_document

CLAIMS: Final = "_watchdog/slack.json"
_KEPT: Final = timedelta(minutes=20)
"""Twice the time for which a request is fresh, and its clock may be wrong."""
_MOST: Final = 300


@dataclass(frozen=True)
class SlackClaim(Persisted):
    """One request."""

    key: str
    at: datetime
    token: str
    """Identifies the process that answers it."""


@dataclass(frozen=True)
class SlackClaims(Persisted):
    """The document."""

    claims: tuple[SlackClaim, ...] = ()


def _parsed(blob: Blob) -> dict[str, object]:
    return fleet_document.parse(blob, CLAIMS, '{"schema": 1, "claims": []}')


def claim(store: Store, key: str, now: datetime) -> bool:
    """Claim the request ``key``. Returns False if it was claimed before. Raises :class:`StoreError`, and then it is not
    known to be claimed, and must not be carried out."""
    mine = SlackClaim(key, now, os.urandom(6).hex())
    first = True

    def change(blob: Blob | None) -> SlackClaims | None:
        nonlocal first
        try:
            held = SlackClaims() if blob is None else codec(SlackClaims).read(_parsed(blob))
        except DamagedError as fault:
            raise StoreError(f"{store.url}/{CLAIMS} is damaged: {fault}", "delete it") from fault
        known = next((each for each in held.claims if each.key == key), None)
        if known is not None:
            # After a lost answer it may be this very claim.
            first = known.token == mine.token
            return None
        fresh = tuple(each for each in held.claims if now - each.at <= _KEPT)
        if len(fresh) >= _MOST:
            raise StoreError(f"{len(fresh)} commands came from Slack within minutes", "try again later")
        return replace(held, claims=(*fresh, mine))

    fleet_document.change(store, CLAIMS, change, "delete it")
    return first
