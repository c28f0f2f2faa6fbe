"""Mentions of all files, weighed: how much each says about the cause, and in which order things happened."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Final

from lastbeat.causes import stated
from lastbeat.causes.mentions import Account, Mention
from lastbeat.model.pattern import Pattern
from lastbeat.model.signal import CASCADE, CONFIRMATION, Signal
from lastbeat.scanning.prefixes import UNKNOWN_YEAR

_DATA_WORDS: Final = Pattern(
    r"data_?set|data_?loader|shard|sample|__getitem__|fetch|batch|corpus|token|\.tar\b|\.parquet|\.jsonl\b|\.idx|\.bin\b|"
    r"\.npy|\.mds|/data/|train_data",
    re.IGNORECASE,
)
_CHECKPOINT_WORDS: Final = Pattern(
    r"ckpt|checkpoint|optim|state_?dict|load_state|resum|snapshot|weights|model\.(?:pt|bin|safetensors)|\.pth?\b|\.safetensors|serialization\.py|restore",
    re.IGNORECASE,
)
_BROKEN_READ: Final = Pattern(
    r"(?:ValueError|OSError|RuntimeError|EOFError|Exception|struct\.error|\w{0,30}(?:Format|Parse|Decode|Invalid)\w{0,10})\b"
)
_BROKEN_FILE: Final = Pattern(r"(?:OSError|RuntimeError|EOFError|struct\.error)\b")
_LOST_CONNECTION: Final = Pattern(r"(?:OSError|EOFError)\b")
_EITHER: Final = frozenset(
    {"truncated_pickle", "archive_damaged", "data_missing", "checksum_mismatch", "checkpoint_read_failed"}
)


class Tier(IntEnum):
    """How much a finding says, the more the higher."""

    CONFIRMATION = 0
    """That something ended, not why."""
    CASCADE = 1
    """What follows from something else."""
    EXIT = 2
    """How a process ended: that is a trace of the cause."""
    SYMPTOM = 3
    """Somebody waited too long."""
    GENERAL = 4
    """An exception of which nothing is known but its class."""
    PLAIN = 5
    """An exception that only a program's own fault makes."""
    PLACED = 6
    """An exception of which the place that raised it tells more."""
    SPECIFIC = 7
    """An error that names what is wrong."""
    FACT = 8
    """What the kernel, the driver or the scheduler knows, however late it is printed."""


@dataclass(slots=True)
class Finding:
    """A mention and what it means."""

    mention: Mention
    signal: Signal
    tier: Tier
    error_type: str
    subsystem: str | None
    file: int
    """Index of its account."""
    time: datetime | None = None
    """When it happened, as far as anything tells."""

    @property
    def rank(self) -> int | None:
        return self.mention.evidence.rank

    @property
    def precursor(self) -> bool:
        """Said in passing: it may be what led to something worse, and ends nothing itself."""
        return self.mention.weak or (
            self.signal.severity == "warning" and self.signal.kind is None and self.signal.role != CASCADE
        )


def in_order(accounts: Sequence[Account]) -> list[Account]:
    """By rank and name: what has no time is told in the order of the files, whoever lists them."""

    def place(account: Account) -> tuple[bool, int, str]:
        # Where several ranks print to one file, it may hold what the others miss.
        return stated.is_error(account.file), -1 if account.rank is None else account.rank, account.file

    return sorted(accounts, key=place)


def findings_of(accounts: Sequence[Account], signals: Mapping[str, Signal]) -> list[Finding]:
    """All mentions that training did not go on after, in the order of events."""
    found: list[Finding] = []
    for index, account in enumerate(accounts):
        for mention in account.mentions:
            signal = signals.get(mention.signal)
            if signal is not None:
                found.append(_finding(mention, signal, index))
    _date(found, accounts)
    if len(accounts) > 1:
        found.sort(key=_when)
    return found


def _finding(mention: Mention, signal: Signal, file: int) -> Finding:
    error_type, subsystem = meaning_of(mention, signal)
    return Finding(mention, signal, _tier(mention, signal, error_type), error_type, subsystem, file)


def _tier(mention: Mention, signal: Signal, error_type: str) -> Tier:
    if signal.role == CONFIRMATION or (signal.kind == "exception" and mention.where == "launcher"):
        return Tier.CONFIRMATION
    if signal.role == CASCADE:
        return Tier.EXIT if signal.severity == "critical" else Tier.CASCADE
    if signal.kind == "exception":
        if error_type != signal.error_type:
            return Tier.PLACED
        return Tier.GENERAL if signal.severity == "warning" else Tier.PLAIN
    if signal.name in stated.SIGNALS:
        return Tier.GENERAL
    if signal.verdict in {"timeout", "stalled"}:
        return Tier.SYMPTOM
    return Tier.FACT if signal.severity == "critical" else Tier.SPECIFIC


def meaning_of(mention: Mention, signal: Signal) -> tuple[str, str | None]:
    """Error type and subsystem: a signal's own, unless the place that raised it tells more."""
    error_type, subsystem = signal.error_type or "unknown", signal.subsystem
    text = mention.evidence.text
    spoken = f"{mention.fields.get('spoken', '')} {text}"
    if signal.name in _EITHER:
        data, checkpoint = _DATA_WORDS.search(spoken), _CHECKPOINT_WORDS.search(spoken)
        if checkpoint and not data:
            return "storage", "checkpoint"
        if data and not checkpoint:
            return "data", "dataset"
        return error_type, subsystem
    if signal.kind != "exception" or not mention.raised:
        return error_type, subsystem
    if mention.where in {"jit", "compile"}:
        return "torch", mention.where
    if mention.where == "autograd" and "RuntimeError" in text:
        return "torch", "autograd"
    if mention.where == "cuda":
        return "environment", "cuda"
    if mention.where == "data" and _BROKEN_READ.search(text):
        return "data", "dataset"
    if mention.where == "checkpoint" and _BROKEN_FILE.search(text):
        return "storage", "checkpoint"
    if mention.where == "connection" and _LOST_CONNECTION.search(text):
        return "communication", "socket"
    return error_type, subsystem


def _date(found: list[Finding], accounts: Sequence[Account]) -> None:
    """Give each finding a time: its own, or that of what was printed before it in its file."""
    known = [f.mention.evidence.time for f in found if f.mention.evidence.time is not None]
    years = [
        time for time in [*known, *(a.last_time for a in accounts)] if time is not None and time.year != UNKNOWN_YEAR
    ]
    latest = max(years, default=None)
    last: dict[int, datetime | None] = {}
    for finding in found:
        time = finding.mention.evidence.time
        if time is not None and time.year == UNKNOWN_YEAR and latest is not None:
            time = _in_year(time, latest)
        if time is None:
            time = last.get(finding.file)
        finding.time = last[finding.file] = time


def _in_year(time: datetime, latest: datetime) -> datetime:
    for year in (latest.year, latest.year - 1):
        try:
            moved = time.replace(year=year)
        except ValueError:
            continue
        if moved <= latest + timedelta(days=2):
            return moved
    return time


def began(finding: Finding) -> datetime | None:
    """When what timed out began to wait."""
    waited = finding.mention.fields.get("timeout_ms")
    if finding.time is None or waited is None or not waited.isdigit():
        return finding.time
    return finding.time - timedelta(milliseconds=min(int(waited), 10**10))


def _when(finding: Finding) -> tuple[float, int, int]:
    # What has no time could have happened at any: it is not overtaken by what has one.
    time = began(finding) if finding.tier == Tier.SYMPTOM else finding.time
    return (time.timestamp() if time is not None else -math.inf, finding.file, finding.mention.order)
