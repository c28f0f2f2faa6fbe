"""The line that says why a run failed: from ``_error``, or from the cause's own line if a launcher wrote ``_error``.

Launchers and wrappers (torchrun, ``accelerate launch``, deepspeed, a shell script) end with an exception or a status of
their own that only repeats how one of their processes ended. People want to read what that process printed. Pure.
"""

import re
from typing import Final

from lastbeat import explain
from lastbeat.explain.causes.exit_codes import in_words
from lastbeat.explain.signals.error_types import traits_of
from lastbeat.model.cause import Cause
from lastbeat.model.observation import Seen
from lastbeat.model.pattern import Pattern
from lastbeat.model.text import fit, one_line

_THREAD_LIMIT: Final = 160
_NUMBER: Final = r"-?\d{1,5}"
# A line of ``_error`` that only repeats an exit status. ``lastbeat exec`` puts the status after it.
_REPEATS: Final = Pattern(
    r"(?:[\w.]{0,120}\.)?(?:"
    r"ChildFailedError:?"
    r"|ProcessRaisedException:?(?: -- Process \d{1,6} terminated with the following error:)?"
    rf"|ProcessExitedException: process \d{{1,6}} terminated with (?:exit code {_NUMBER}|signal \w{{1,20}})"
    rf"|CalledProcessError: Command .{{1,20000}} (?:returned non-zero exit status {_NUMBER}|died with .{{1,80}}?)\.?"
    rf"|SystemExit(?:: {_NUMBER})?"
    r")"
    r"|(?!SystemExit).{1,200} (?:ended with exit status \d{1,3}\b|was killed by SIGABRT\b).{0,200}"
)
_STATUS: Final = Pattern(r" \((?P<said>exit status \d{1,3}\b.{0,200})\)$")
_ENDED: Final = Pattern(r"\b(?P<said>exit status \d{1,3}|killed by SIGABRT)\b")
# torchrun's table of the first failure.
_ROOT: Final = Pattern(
    r"Root Cause \(first observed failure\):[^\n]{0,40}\n(?P<rows>.{0,1500}?)(?:={10}|\Z)", re.DOTALL
)
_ROW: Final = Pattern(r"^[^\n:]{0,40}?\b(?P<name>host|rank|exitcode)\s{1,8}: (?P<value>\S{1,100})", re.MULTILINE)
# How launchers report that one of their processes ended. None of it gives the reason.
_EXIT_LINE: Final = Pattern(
    r"failed \(exitcode: (?P<code>-?\d{1,5})\)(?: local_rank: (?P<local>\d{1,6}))?"
    r"|Signal (?P<signal>\d{1,2}) \(SIG\w{2,8}\) received by PID"
    r"|\bexitcode\s{1,4}: (?P<row>-?\d{1,5}) "
    r"|exits with return code = (?P<deepspeed>-?\d{1,5})"
    r"|^\s{0,8}(?:\S{0,200}: line \d{1,6}: )?\s{0,8}\d{0,10}\s{0,8}"
    r"(?:Killed|Terminated|Aborted|Hangup|Bus error|Segmentation fault)(?: \(core dumped\))?(?:\s{2}.{0,300})?\s{0,8}$"
)


def failure_line(text: str) -> str:
    """The line of ``_error`` that says what happened: its first, or the last of a bare traceback; empty if none."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t\ufffd")]
    first = lines[0] if lines else ""
    # Written by ``2> _error``: a traceback has its message at the end.
    return lines[-1] if first.startswith("Traceback (most recent call last)") else first


def thread_note(seen: Seen) -> str:
    """What to add to a reason if a thread of training has died; else empty. It decides nothing, but the dead thread may
    be the cause."""
    said = one_line(seen.metadata.thread_error or "") if seen.metadata is not None else ""
    return fit(f"; a thread of it had ended with an exception: {said}", _THREAD_LIMIT) if said else ""


def repeats_an_exit(line: str) -> bool:
    """Whether ``line`` states only that a process ended, and its exit status."""
    return _REPEATS.fullmatch(_STATUS.sub("", line.strip()).strip()) is not None


def headline(text: str, cause: Cause | None, limit: int) -> str | None:
    """The line to show instead of the first line of ``_error``, in at most ``limit`` characters, or None if that line
    is the best. ``text`` is the whole of ``_error``."""
    first = failure_line(text)
    if cause is None or not repeats_an_exit(first):
        return None
    told = _root_cause(text) if _EXIT_LINE.search(cause.evidence.text) else _own_line(cause)
    if not told or repeats_an_exit(told):
        return None
    found = _STATUS.search(first) or _ENDED.search(first)
    rank = "" if cause.evidence.rank is None or told.startswith("rank ") else f"rank {cause.evidence.rank}"
    more = "; ".join(part for part in (rank, found["said"] if found is not None else "") if part)
    suffix = fit(f" ({more})", limit // 2) if more else ""
    return fit(told, limit - len(suffix)) + suffix


def _own_line(cause: Cause) -> str:
    if traits_of(cause.error_type).says_nothing:
        return ""
    text = cause.evidence.text
    return one_line(text[explain.scanning.prefixes.origin(text).begin :])


def _root_cause(text: str) -> str:
    """``rank 1 on node-7 was killed by SIGKILL``, from torchrun's table; empty if there is no such table."""

    table = _ROOT.search(text)
    rows = {found["name"]: found["value"] for found in _ROW.finditer(table["rows"])} if table is not None else {}
    code = rows.get("exitcode", "")
    if not re.fullmatch(_NUMBER, code):
        return ""
    rank = rows.get("rank", "")
    who = f"rank {rank}" if rank.isdigit() else "a process of it"
    where = f" on {one_line(rows['host'])}" if "host" in rows else ""
    return f"{who}{where} {in_words(int(code))}"
