"""How ``lastbeat exec --max-restarts`` and training recognize each other, in the environment and in metadata.json.

``exec`` ends training that hangs, and starts it again in its place.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from lastbeat.model.data import dataclass

VARIABLE: Final = "_LASTBEAT_IN_PLACE"
"""In the environment of what is started."""
RESTARTS_VARIABLE: Final = "LASTBEAT_RESTARTS_IN_PLACE"
"""In the same, for training itself: 0 for the first start in a job, 1 for the next."""
RESUME_FROM: Final = "LASTBEAT_RESUME_FROM"
RESUME_STEP: Final = "LASTBEAT_RESUME_STEP"
"""In the same: the checkpoint that a start is to go on from, and its step."""
FIELD: Final = "in_place"
"""In metadata.json."""
COUNTS_MOST: Final = 10**6
LONGEST_S: Final = 3600.0
_NAME_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class InPlace:
    """One start."""

    token: str
    """Identifies this start: the same for all of its processes, and for no other."""
    restarts: int
    """How often it has been started again within its job."""
    left: int
    """How often it may still be started again."""
    takes_s: float
    """Longest time in s from a hang to the next start, if all goes well. Until then nothing else needs to act."""
    process: int = 0
    """The process that starts it. Only training gets this, not metadata.json."""
    mark: str | None = None
    """Which process that number means, see ``sdk.documents.process_mark``."""

    def fields(self) -> dict[str, Any]:
        """For metadata.json."""
        told = {"token": self.token, "restarts": self.restarts, "left": self.left, "takes_s": self.takes_s}
        return {FIELD: told}

    def variable(self) -> str:
        """For :data:`VARIABLE`."""
        return json.dumps({**self.fields()[FIELD], "process": self.process, "mark": self.mark})


def read_in_place(value: object) -> InPlace | None:
    """What a document or the variable, decoded, says; None where it does not make sense. Never raises."""
    if not isinstance(value, Mapping):
        return None
    token, restarts, left, takes_s = (value.get(name) for name in ("token", "restarts", "left", "takes_s"))
    process, mark = value.get("process"), value.get("mark")
    if not isinstance(token, str) or not 0 < len(token) <= _NAME_CHARS:
        return None
    counted = all(type(each) is int and 0 <= each <= COUNTS_MOST for each in (restarts, left))
    if not counted or not isinstance(takes_s, (int, float)) or isinstance(takes_s, bool):
        return None
    if not 0 <= takes_s <= LONGEST_S:
        return None
    who = process if type(process) is int and 0 < process < 1 << 31 else 0
    return InPlace(token, restarts, left, float(takes_s), who, mark if isinstance(mark, str) else None)  # type: ignore[arg-type]


def in_variable(text: str | None) -> InPlace | None:
    """What :data:`VARIABLE` says. None: it is not there, or makes no sense. Never raises."""
    if not text:
        return None
    try:
        return read_in_place(json.loads(text))
    except (ValueError, RecursionError):
        return None
