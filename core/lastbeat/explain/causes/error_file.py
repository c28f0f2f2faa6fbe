"""Reads an ``_error`` that users and scripts write in their own words, and members of error files as JSON.

In a log such words prove nothing, because any line of a healthy run may have them, unless it has nothing else.
"""

import re
from functools import cache
from typing import Final

from lastbeat.model.oom_kills import NONE_COUNTED
from lastbeat.model.signal import Signal

FILE: Final = "_error"
MOST_LINES: Final = 200
"""Most lines of an ``_error`` that are read as free words."""

# The specific before the general.
_WORDS: Final = (
    (
        "oom",
        (
            r"out[- ]of[- ]memory|outofmemory|\boom\b|\boom[-_ ]?kill|cannot allocate memory|bus error|shared memory|"
            r"memory (?:allocation|limit|budget)\b.{0,20}\b(?:fail|exceed|reach)|"
            r"(?:fail\w{0,3} to allocate|exceed\w{0,3}|over)\b.{0,30}\bmemory\b"
        ),
    ),
    ("storage", r"no space left|disk (?:is )?full|quota exceeded|read-only file system|input/output error|stale file"),
    ("hardware", r"\bxid\b|uncorrectable|\becc error|nvlink|fallen off the bus|gpu (?:is |was )?(?:lost|fail|broken)"),
    ("time_limit", r"time ?limit|wall ?time|wall ?clock"),
    (
        "numerical_instability",
        r"\bnans?\b|non-?finite|(?:loss|gradients?|grad norm)\b.{0,40}\binf(?:inite|inity)?\b|diverged|loss scale",
    ),
    ("nccl_timeout", r"(?:nccl|collective|watchdog)\b.{0,60}\btime(?:d )?-?out"),
    ("nccl", r"\bnccl"),
    ("distributed_timeout", r"(?:tcpstore|rendezvous|barrier|init_process_group|ranks?)\b.{0,80}\btime(?:d )?-?out"),
    ("deadlock", r"deadlock"),
    ("hang", r"\b(?:hang|hangs|hung|stuck|stalled|frozen)\b"),
    (
        "communication",
        (
            r"connection (?:was )?(?:reset|refused|closed|lost|timed out|aborted)|broken pipe|network is unreachable|"
            r"name resolution|name or service not known"
        ),
    ),
    ("slurm_failure", r"node fail(?:ure|ed)|prolog"),
    ("cancelled", r"\bcancell?ed\b|keyboard ?interrupt|\binterrupted\b|sigterm|sigint|scancel|pre-?empt|\breclaimed\b"),
    (
        "environment",
        (
            r"no module named|import ?error|permission denied|access ?denied|credentials|driver version|"
            r"command not found|cannot open shared object"
        ),
    ),
    ("data", r"corrupt|truncated|no such file|file ?not ?found|checksum|decode ?error"),
    ("torch", r"cuda error|cudnn|cublas|device-side assert"),
)

SIGNALS: Final = {
    f"stated_{error_type}": Signal(f"stated_{error_type}", pattern, ignore_case=True, error_type=error_type)
    for error_type, pattern in _WORDS
}


OTHER: Final = Signal("stated_failure", "", error_type="exception", subsystem="stated")
"""Meaning of a line that states a failure in words which name none of the types above."""

_GUESS: Final = ": often the OOM killer or the scheduler"
"""Suffix that ``lastbeat exec`` adds to an unexplained kill. It is a guess, so it states no cause."""


@cache
def _patterns() -> tuple[tuple[Signal, "re.Pattern[str]"], ...]:
    return tuple((signal, re.compile(signal.pattern, re.IGNORECASE)) for signal in SIGNALS.values())


def signal_in(line: str) -> Signal | None:
    """The signal that matches the free words in a line of ``_error``, or None."""
    if line.rstrip().endswith(_GUESS):
        return None
    words = line[:2000].replace(NONE_COUNTED, "")
    return next((signal for signal, pattern in _patterns() if pattern.search(words) is not None), None)


_MEMBER: Final = re.compile(r'\s{0,40}"message": "(?P<text>[A-Za-z_][\w.]{0,160}: .{0,2000}?)(?:\\n|"?,?\s*$)')
"""A line of the error file that torchelastic prints: the member with the exception."""


def member_in(line: str) -> str | None:
    """The exception in a line of an error file that is printed as JSON, or None."""
    found = _MEMBER.match(line) if '"message": "' in line[:60] else None
    return found["text"] if found is not None else None


def is_error(file: str) -> bool:
    """Whether ``file`` is ``_error``, which holds only the reason of a failure."""
    return file.rsplit("/", 1)[-1] == FILE
