"""What logs show together, file by file."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from lastbeat.explain.causes.explaining import explain
from lastbeat.explain.causes.log_reader import LogReader
from lastbeat.explain.causes.log_summary import LogSummary
from lastbeat.explain.signals.loading import load
from lastbeat.model.cause import Cause, Explanation


def summary(name: str, text: str, rank: int | None = None, now: datetime | None = None) -> LogSummary:
    """What the default catalogue finds in one log, read to its end."""
    reader = LogReader(load("default"), name, rank=rank)
    reader.feed(text.encode(), now)
    reader.finish()
    return reader.summary()


def explained(*logs: tuple[str, str] | tuple[str, str, int | None], **known: Any) -> Explanation:
    """What logs show together, each a file's name, its text and its rank; ``known`` as :func:`explain` takes it."""
    return explain([summary(*log) for log in logs], load("default"), **known)


def of_ranks(texts: Iterable[str], **known: Any) -> Explanation:
    """The same of one file a rank, ``rank0.log`` being the first."""
    return explained(*((f"rank{rank}.log", text, rank) for rank, text in enumerate(texts)), **known)


def cause_of(found: Explanation) -> Cause:
    """Its cause, which it has."""
    assert found.cause is not None
    return found.cause
