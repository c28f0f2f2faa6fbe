"""Prints outcomes one after the other: text for people and pipes, JSON for programs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lastbeat.alerts import facts
from lastbeat.model.alert import ALSO_SEEN_LIMIT
from lastbeat.model.amounts import age, percent
from lastbeat.model.document import masked, outcome_document
from lastbeat.model.observation import Seen
from lastbeat.model.outcome import Outcome
from lastbeat.model.status import Status, steps_done
from lastbeat.model.text import one_line
from lastbeat.model.times import format_time
from lastbeat_cli import frame, logs
from lastbeat_cli.document import dump

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastbeat_cli.watch.preview import Preview


class Plain:
    """Prints each outcome, and its alerts by ``preview``. Calls ``left`` once the reader of stdout has closed it."""

    def __init__(self, *, as_json: bool, preview: "Preview | None" = None) -> None:
        self.left: Callable[[], None] = lambda: None
        self._as_json = as_json
        self._preview = preview
        self._passes = 0

    def show(self, outcome: Outcome) -> None:
        """Print ``outcome``."""
        self._passes += 1
        if self._as_json:
            # Texts are masked before they are escaped; field names and numbers hold no secrets.
            document = outcome_document(outcome)
            document |= {key: masked(document[key], logs.redact) for key in ("reason", "action")}
            if self._preview is not None:
                document["would_send"] = masked(self._preview.documents(outcome), logs.redact)
            told = [dump(document)]
        else:
            shown = lines(outcome)
            previews = self._preview.lines(outcome) if self._preview is not None else []
            # The first line holds only the run's name and status, so it is not masked.
            told = [*([""] if self._passes > 1 else []), shown[0], *map(logs.redact, [*shown[1:], *previews])]
        try:
            print("\n".join(told), flush=True)
        except BrokenPipeError:
            frame.hush()
            self.left()


def _headline(outcome: Outcome) -> str:
    """The status for people; ``RUNNING (WARNING)`` if there are conditions."""
    warned = outcome.status is Status.RUNNING and outcome.conditions
    return f"{outcome.status} (WARNING)" if warned else str(outcome.status)


def lines(outcome: Outcome) -> list[str]:
    """The whole outcome. Scripts rely on the first two lines.

    Text from training is cleaned of terminal escapes and newlines, so that no log line can pass for a line of lastbeat.
    """
    told = [f"Run {outcome.run_id}: {_headline(outcome)}", f"Detail: {outcome.reason}", *_more(outcome)]
    return [one_line(line) for line in told]


def _more(outcome: Outcome) -> Iterator[str]:
    for name, seen in outcome.conditions.items():
        yield f"Warning: {name}: {seen}"
    if text := _cause(outcome):
        yield f"Cause: {text}"
    yield from (f"{label}: {text}" for label, text in _why(outcome))
    yield from dict.fromkeys(f"Ranks: {alert.ranks}" for alert in outcome.alerts if alert.ranks)
    if outcome.action:
        yield f"Action: {outcome.action}"
    if text := _owner(outcome):
        yield f"Owner: {text}"
    if progress := ", ".join(_progress_parts(outcome)):
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


def _cause(outcome: Outcome) -> str | None:
    """The cause, with its confidence in a word, or None."""
    told = outcome.explained
    if told is None:
        return outcome.cause
    return facts.cause(outcome.cause, told.cause.confidence, told.second.error_type if told.second else None)


def _why(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """The evidence of the cause, its traceback, and other errors, as label and text."""
    if outcome.explained is None:
        return
    evidence = outcome.explained.cause.evidence
    yield "Evidence", f"{facts.place(evidence)}: {one_line(evidence.text)}"
    for raised_at in outcome.explained.cause.frames:
        yield "Raised at", raised_at
    for also in outcome.explained.also_seen[:ALSO_SEEN_LIMIT]:
        yield "Also seen", also
    if outcome.explained.similar is not None:
        yield "Seen before", outcome.explained.similar.told(outcome.at)


def _owner(outcome: Outcome) -> str | None:
    """Owner and team of the run, as it states them, or None."""
    record = outcome.record
    return facts.whose(record.owner, record.team) if record is not None else None


def _phase(outcome: Outcome) -> str | None:
    """The run's phase, as it states it, or None."""
    seen = _seen(outcome)
    metadata = seen.metadata if seen is not None else None
    return metadata.phase if metadata is not None else None


def _progress_parts(outcome: Outcome) -> Iterator[str]:
    """Phase, step, loss and speed, as far as known."""
    if text := _phase(outcome):
        yield f"phase {text[:60]}"
    beat = outcome.step_source
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


def _seen(outcome: Outcome) -> Seen | None:
    return outcome.observation if isinstance(outcome.observation, Seen) else None
