"""An outcome as lines of text for people."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from lastbeat.alerts import facts
from lastbeat.model.document import heartbeat
from lastbeat.model.status import STALLED, Status, steps_done
from lastbeat.model.text import one_line
from lastbeat.model.times import format_duration, format_time

if TYPE_CHECKING:
    # Many commands use a few functions of this module without an outcome.
    from lastbeat.model.observation import Seen
    from lastbeat.model.outcome import Outcome
    from lastbeat.model.view import Row


_OLD_STEP_S: Final = 300.0
"""The age of a step is shown from this on, in seconds."""


def headline(outcome: "Outcome") -> str:
    """The status for people; ``RUNNING (WARNING)`` if there are conditions."""
    warned = outcome.status is Status.RUNNING and outcome.conditions
    return f"{outcome.status} (WARNING)" if warned else str(outcome.status)


def lines(outcome: "Outcome") -> list[str]:
    """The whole outcome. Scripts rely on the first two lines.

    Text from training is cleaned of terminal escapes and newlines, so that no log line can pass for a line of lastbeat.
    """
    told = [f"Run {outcome.run_id}: {headline(outcome)}", f"Detail: {outcome.reason}", *_more(outcome)]
    return [one_line(line) for line in told]


def _more(outcome: "Outcome") -> Iterator[str]:
    for name, seen in outcome.conditions.items():
        yield f"Warning: {name}: {seen}"
    if text := cause(outcome):
        yield f"Cause: {text}"
    yield from (f"{label}: {text}" for label, text in why(outcome))
    yield from dict.fromkeys(f"Ranks: {alert.ranks}" for alert in outcome.alerts if alert.ranks)
    if outcome.action:
        yield f"Action: {outcome.action}"
    if text := owner(outcome):
        yield f"Owner: {text}"
    if progress := ", ".join(progress_parts(outcome)):
        yield f"Progress: {progress}"
    beats = [
        f"{name} {age(outcome.at, at)}"
        for name, at in (("metadata", outcome.last_metadata_at), ("progress", outcome.last_progress_at))
        if at is not None
    ]
    # The detail of a running run shows these ages already.
    if beats and outcome.status is not Status.RUNNING:
        yield f"Heartbeats: {', '.join(beats)}"
    if outcome.pending or outcome.delivered:
        yield f"Alerts: {outcome.pending} pending, {outcome.delivered} delivered"
    for failure in outcome.failures:
        yield f"Undelivered: {failure}"
    for note in outcome.notes:
        yield f"Note: {note}"
    yield f"Checked: {format_time(outcome.at.replace(microsecond=0))}"


def cause(outcome: "Outcome") -> str | None:
    """The cause, with its confidence in a word, or None."""
    told = outcome.explained
    if told is None:
        return outcome.cause
    return facts.cause(outcome.cause, told.cause.confidence, told.second.error_type if told.second else None)


def why(outcome: "Outcome") -> Iterator[tuple[str, str]]:
    """The evidence of the cause, its traceback, and other errors, as label and text."""
    if outcome.explained is None:
        return
    evidence = outcome.explained.cause.evidence
    yield "Evidence", f"{facts.place(evidence)}: {one_line(evidence.text)}"
    for frame in outcome.explained.cause.frames:
        yield "Raised at", frame
    for also in outcome.explained.also_seen[: facts.ALSO_SEEN_LIMIT]:
        yield "Also seen", also
    if outcome.explained.similar is not None:
        yield "Seen before", outcome.explained.similar.told(outcome.at)


def owner(outcome: "Outcome") -> str | None:
    """Owner and team of the run, as it states them, or None."""
    record = outcome.record
    return facts.whose(record.owner, record.team) if record is not None else None


def phase(outcome: "Outcome") -> str | None:
    """The run's phase, as it states it, or None."""
    seen = _seen(outcome)
    metadata = seen.metadata if seen is not None else None
    return metadata.phase if metadata is not None else None


def progress_parts(outcome: "Outcome") -> Iterator[str]:
    """Phase, step, loss and speed, as far as known."""
    if text := phase(outcome):
        yield f"phase {text[:60]}"
    beat = heartbeat(outcome)
    if beat is None or beat.step is None:
        return
    if beat.total_steps and beat.total_steps > 0:
        step = steps_done(beat.step, beat.total_steps, outcome.status)
        yield f"step {step} of {beat.total_steps} ({percent(step, beat.total_steps)})"
    else:
        yield f"step {beat.step}"
    if beat.loss is not None:
        yield f"loss {facts.number(beat.loss)}"
    seen = _seen(outcome)
    logs = seen.logs if seen is not None else None
    if logs is not None and logs.throughput is not None and logs.step == beat.step:
        yield f"{facts.number(logs.throughput)} {one_line(logs.throughput_unit)[:40]}".rstrip()


def _seen(outcome: "Outcome") -> "Seen | None":
    from lastbeat.model.observation import Seen  # noqa: PLC0415 - see above

    return outcome.observation if isinstance(outcome.observation, Seen) else None


def percent(step: int, total: int) -> str:
    """Progress in percent, rounded down: 100% means done."""
    return f"{max(0, min(step * 100 // total, 100))}%" if total > 0 else "?"


def bar(step: int, total: int, width: int, *, ascii_only: bool) -> str:
    """A bar of ``width`` characters without colour; full only when the run is done."""
    done = max(0, min(step * width // total, width)) if total > 0 else 0
    full, empty = ("#", ".") if ascii_only else ("█", "░")
    return full * done + empty * (width - done)


def age(now: datetime, then: datetime) -> str:
    """The time since ``then``; never negative, even if a clock runs ahead."""
    return f"{format_duration(now - then)} ago"


def step_age_s(row: "Row", at: datetime | None) -> float | None:
    """The age of a RUNNING run's last step in seconds, or None if it is less than some minutes."""
    if row.status is not Status.RUNNING or row.step is None or row.step_at is None or at is None:
        return None
    age_s = (at - row.step_at).total_seconds()
    return age_s if row.stands_still or age_s > _OLD_STEP_S else None


def standstill(row: "Row", at: datetime | None) -> str:
    """A sentence if the run is stalled as of ``at``; empty if it is not, or a condition says so already."""
    if not row.stands_still or row.step_at is None or at is None or STALLED in row.conditions:
        return ""
    unlimited = ", and no stall limit is set" if row.stall_limited is False else ""
    return f"no step for {format_duration(at - row.step_at)}{unlimited}"


def step_age(row: "Row", at: datetime | None) -> str:
    """The age of the step as text behind it: ``, 58m ago``; empty for a recent one."""
    age_s = step_age_s(row, at)
    return "" if age_s is None else f", {format_duration(age_s)} ago"


def cores(used: float) -> str:
    """CPU cores in use: ``3.19``, or ``under 0.01`` for a nearly idle process."""
    return "under 0.01" if used < 0.01 else f"{round(used, 2 if used < 10 else 1):g}"


def size(count: int) -> str:
    """``count`` bytes in a unit for people."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.3g} TiB"
