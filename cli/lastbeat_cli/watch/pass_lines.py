"""A pass over a fleet as lines of text for people."""

from collections.abc import Iterator
from dataclasses import dataclass

from lastbeat.model.fleet import PassReport, RunLine
from lastbeat.model.status import Status
from lastbeat.model.text import counted, one_line
from lastbeat.model.times import format_duration, format_time

MOST_ROWS = 40
"""Most runs listed, about a screen; the head counts all of them."""
_LATE_S = 60.0  # If a warning is older than this many seconds, its age is shown.
WARNING = "RUNNING (WARNING)"
_URGENT = (Status.FAILED.value, Status.TIMED_OUT.value, Status.UNKNOWN.value, WARNING)


@dataclass(frozen=True, slots=True)
class StatusLine:
    """One run: its status in a column of its own."""

    status: str
    run_id: str
    text: str


def head(report: PassReport, where: str) -> str:
    """The first line: the counts, or UNKNOWN for a blind pass."""
    if report.blind is not None:
        return f"Fleet {where}: UNKNOWN"
    return f"Fleet {where}: {', '.join(_counts(report)) or 'no runs'}"


def _counts(report: PassReport) -> Iterator[str]:
    counts = report.statuses
    warned = counts.get(WARNING, 0)
    running = counts.get(Status.RUNNING.value, 0) + warned
    ended = {
        "timed out": counts.get(Status.TIMED_OUT.value, 0),
        "failed": counts.get(Status.FAILED.value, 0),
        "cancelled": counts.get(Status.CANCELLED.value, 0),
        "preempted": counts.get(Status.PREEMPTED.value, 0),
        "succeeded": counts.get(Status.SUCCEEDED.value, 0),
    }
    silent = counts.get(Status.NO_HEARTBEAT.value, 0)
    told = {"running": running, "of them with warnings": warned, "without a heartbeat": silent, **ended}
    if any(told.values()):
        # Zeros are left out, except for "0 running".
        last = [f"{count} {what}" for what, count in told.items() if count or what == "running"]
        yield from last[:-1]
        yield last[-1] + (" (last 24 h)" if any(ended.values()) else "")
    if report.unreadable_count:
        yield f"{report.unreadable_count} unreadable"
    if report.finished:
        yield f"{report.finished} older"


def rows(report: PassReport, *, everything: bool) -> list[StatusLine]:
    """The transitions of this pass, most urgent first; with ``everything`` also runs that need attention already."""
    found: dict[str, StatusLine] = {}
    owners = {line.run_id: f"[{line.owner}] " for line in report.lines if line.owner}
    for run_id, transition in report.transitions:
        if everything and transition.before is None and transition.after is Status.RUNNING:
            continue  # To the first pass every run is new, so new runs are no news.
        silenced = f" (silenced: {transition.silenced})" if transition.silenced else ""
        found[run_id] = StatusLine(str(transition.after), run_id, owners.get(run_id, "") + transition.reason + silenced)
    for line in report.lines if everything else ():
        if line.run_id not in found and _word(line) in _URGENT:
            found[line.run_id] = StatusLine(_word(line), line.run_id, owners.get(line.run_id, "") + _text(line, report))
    for run_id, why in report.unreadable.items():
        found[run_id] = StatusLine(Status.UNKNOWN.value, run_id, why)
    return sorted(found.values(), key=lambda row: _URGENT.index(row.status) if row.status in _URGENT else len(_URGENT))


def _word(line: RunLine) -> str:
    return WARNING if line.status is Status.RUNNING and line.conditions else str(line.status)


def _text(line: RunLine, report: PassReport) -> str:
    if _word(line) != WARNING:
        return (
            f"{line.reason} ({format_duration(report.at - line.since)} ago)" if line.since is not None else line.reason
        )
    # The warning itself says since when, as of the check that found it.
    late = line.looked_at is not None and (report.at - line.looked_at).total_seconds() >= _LATE_S
    age = f" (as of {format_duration(report.at - line.looked_at)} ago)" if late and line.looked_at else ""
    return line.reason + age


def notes(report: PassReport) -> Iterator[str]:
    """Notes on the pass itself: blind, incomplete, undecided, undelivered."""
    if report.blind is not None:
        yield f"Detail: {report.blind}"
        if report.advice:
            yield f"Action: {report.advice}"
    elif not report.complete:
        yield "Note: the time ran out; the next pass goes on where this one was"
    if report.ignored:
        names = ", ".join(one_line(name)[:60] for name in report.ignored)
        yield f"Ignored: no run may be called {names}"
    if report.unrecorded:
        yield f"Undecided: {report.unrecorded} could not be recorded; the next pass decides again"
    if report.failed:
        yield f"Undelivered: {report.failed} of this pass's alerts; they are tried again"
    for note in report.notes:
        yield f"Note: {note}"


def foot(report: PassReport) -> str:
    """When the pass was made, and how much time and how many requests it took."""
    asked = sum(report.requests.values())
    parts = [f"Checked: {format_time(report.at.replace(microsecond=0))}", f"in {report.seconds:.1f} s"]
    if asked:
        parts.append(f"with {counted(asked, 'request')}")
    # For a dry pass the alerts that a real one would send are counted elsewhere.
    tried = report.would_send is None and (report.sent or report.pending)
    return " ".join(parts) + (f", {report.sent} sent, {report.pending} pending" if tried else "")
