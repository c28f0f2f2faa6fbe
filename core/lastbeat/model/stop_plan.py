"""Several ranks stop at the same call, by documents beside the run: who asked for it, who answered, and which call it
is.

``stopping.json`` is changed by compare-and-set alone. First it says that somebody asks; then each rank leaves an
answer, an empty file in ``stopping/`` whose name says where it is; then somebody adds the call at which all stop, which
nobody changes any more. What is here is pure.
"""

import json
import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from lastbeat.model.numbers import whole
from lastbeat.model.text import fit, one_line

KEY: Final = "stopping.json"
FOLDER: Final = "stopping/"
LIMIT_BYTES: Final = 4 * 1024
LEAST_SPREAD_S: Final = 3.0
"""So long a decision has at least to get to all ranks,"""
_REACTIONS: Final = 4
"""and so many times what the slowest of them needs for a look."""
_UNSTEADY: Final = 1.5
"""Steps may become so much faster after an answer."""
_CALLS_MOST: Final = 10**12
_START_CHARS: Final = 64
_WHY_CHARS: Final = 300
_ANSWER: Final = re.compile(r"(\d{1,9})-(\d{1,12})-(\d{1,12})-(\d{1,6})", re.ASCII)
_PER_S_MOST: Final = 1e6
_REACTION_MOST_S: Final = 900.0


@dataclass(frozen=True, slots=True)
class StopPlan:
    """Of one attempt: it never stops another."""

    attempt: int
    start_time: str
    """Of the attempt, as rank 0's metadata.json says."""
    by: str
    """Who was told first: ``rank 3 on host-17``."""
    why: str
    at: int | None = None
    """The call at which all ranks stop, from 1. None: that is not decided yet."""

    @property
    def folder(self) -> str:
        """Where the answers lie, below the run's folder."""
        return f"{FOLDER}{self.attempt}-{re.sub(r'[^0-9]', '', self.start_time)}/"

    @property
    def summary(self) -> str:
        """``rank 3 on host-17 was told to stop: received signal 15 (SIGTERM)``: one line, bounded."""
        return f"{self.by} was told to stop: {self.why}"


@dataclass(frozen=True, slots=True)
class StopAnswer:
    """Where a rank was when it heard that somebody asks."""

    rank: int
    calls: int
    """How often it had asked whether to stop: once a step."""
    per_s: float
    """How often it does so a second, at its fastest lately."""
    reaction_s: float
    """How long it takes at most until it sees what is new in the store."""

    @property
    def name(self) -> str:
        """Of its file. Rates and times are rounded up."""
        return f"{self.rank}-{self.calls}-{math.ceil(self.per_s * 1000)}-{math.ceil(self.reaction_s * 1000)}"


def read_answer(name: str) -> StopAnswer | None:
    """What a file's name says; None: it is none of an answer."""
    found = _ANSWER.fullmatch(name)
    if found is None:
        return None
    rank, calls, per_s, reaction_s = (int(part) for part in found.groups())
    return StopAnswer(rank, calls, min(per_s / 1000, _PER_S_MOST), min(reaction_s / 1000, _REACTION_MOST_S))


def stop_call(answers: Collection[StopAnswer], since_s: float, every: int = 1) -> int:
    """The call at which all stop: none of them may have got there when it hears of it.

    Each has gone on since its answer, which came within the last ``since_s``; then the decision takes a while to get to
    all of them. It is one of the calls 1, 1 + ``every``, 1 + 2 ``every``, …
    """
    now_at = max(each.calls + _UNSTEADY * each.per_s * since_s for each in answers)
    fastest, slowest_s = max(each.per_s for each in answers), max(each.reaction_s for each in answers)
    margin = _UNSTEADY * fastest * max(LEAST_SPREAD_S, _REACTIONS * slowest_s)
    first = math.ceil(now_at + margin) + 2
    return first + (1 - first) % every


def encode_plan(plan: StopPlan) -> bytes:
    """The document."""
    document = {
        "attempt": plan.attempt,
        "start_time": plan.start_time,
        "by": plan.by,
        "why": fit(plan.why, _WHY_CHARS),
        "at": plan.at,
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def read_plan(body: bytes) -> StopPlan | None:
    """The plan in a document that anybody may have written; None if it is none."""
    try:
        document = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    attempt, start_time, at = whole(document.get("attempt")), document.get("start_time"), whole(document.get("at"))
    if attempt is None or not isinstance(start_time, str) or len(start_time) > _START_CHARS:
        return None
    if document.get("at") is not None and (at is None or not 0 < at <= _CALLS_MOST):
        return None
    return StopPlan(attempt, start_time, _text(document.get("by")) or "another rank", _text(document.get("why")), at)


def _text(value: object) -> str:
    return fit(one_line(value), _WHY_CHARS) if isinstance(value, str) else ""
