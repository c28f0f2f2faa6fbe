"""The mark that agents leave: it shows whether an agent decides about a launcher's restarts, and makes them."""

import json
import logging
import re
from datetime import datetime
from typing import Final

from lastbeat.model.codec import DamagedError, codec
from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Persisted
from lastbeat.stores.port import Store, StoreError

log = logging.getLogger(__name__)

_LIMIT_BYTES: Final = 4096
_LAUNCHER: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
_PATIENCE: Final = 3
"""A mark stands for this many intervals of its agent."""
_LEAST_S: Final = 300.0
"""A mark stands for at least this many seconds: passes may take some time."""


@dataclass(frozen=True)
class AgentMark(Persisted):
    """The last pass of an agent."""

    at: datetime
    """By the store's clock."""
    by: str
    """``user@host``."""
    interval_s: float

    def stands(self, now: datetime) -> bool:
        """Whether the agent is probably still at work."""
        return (now - self.at).total_seconds() <= max(_PATIENCE * self.interval_s, _LEAST_S)


def mark_key(launcher: str) -> str:
    """The key of the mark of agents for ``launcher``."""
    return f"_watchdog/agents/{launcher}.json"


def leave_mark(store: Store, launcher: str, mark: AgentMark) -> None:
    """Write the mark. Only alerts' texts depend on it, so a failure is only logged."""
    try:
        store.write(mark_key(launcher), json.dumps(codec(AgentMark).document(mark)).encode())
    except StoreError as error:
        log.warning("the mark of this agent could not be left: %s", error)


def agent_mark(store: Store, launcher: str) -> AgentMark | None:
    """The mark of the last agent for ``launcher``, or None if none can be read. Raises :class:`StoreError`."""
    blob = store.read(mark_key(launcher), _LIMIT_BYTES)
    if blob is None:
        return None
    try:
        return codec(AgentMark).read(json.loads(blob.body))
    except (ValueError, RecursionError, DamagedError):
        return None


def agent_at_work(store: Store, launcher: str, now: datetime) -> str | None:
    """``user@host`` of the last agent for ``launcher``, or None if its mark is old, or cannot be read."""
    # The name comes from a record, which others may write: it must not lead out of the marks' folder.
    if not _LAUNCHER.fullmatch(launcher):
        return None
    try:
        mark = agent_mark(store, launcher)
    except StoreError:
        return None
    return mark.by if mark is not None and mark.stands(now) else None
