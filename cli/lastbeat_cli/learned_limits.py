"""``limits --learned``: the limits that a run has learned from itself, and the data behind them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lastbeat.model import runid
from lastbeat.model.codec import DamagedError
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, Heartbeat, read_heartbeat
from lastbeat.model.learned_limits import (
    CEILING_S,
    FLOOR_S,
    IDLE_FLOOR_S,
    LEAST_OF_A_RANK,
    LEAST_SAMPLES,
    LIMIT_BYTES,
    OUTSIDE,
    LearnedLimit,
    LearnedState,
    SpanKey,
    encode_state,
    read_state,
)
from lastbeat.model.record import Record, StepWaits
from lastbeat.model.text import fit
from lastbeat.model.times import format_duration, parse_time
from lastbeat.settings import opening
from lastbeat.settings.table import LEARN, OUT_OF_SECTION, SECTION_TIMEOUTS
from lastbeat.stores import run_names
from lastbeat.stores.port import Blob, Store
from lastbeat.training.sdk.learning import EVERY_S
from lastbeat.training.sdk.sections import STEP
from lastbeat.views.lines.signs import harmless
from lastbeat.watch.decide import step_waits
from lastbeat.watch.record import fleet_document
from lastbeat.watch.record.codec import RECORD_LIMIT_BYTES, decode_record
from lastbeat.watch.record.repository import RecordRepository
from lastbeat_cli import exits, values
from lastbeat_cli.document import tell

_NAME = 40


def show_learned(
    run: str | None, given: Mapping[str, str | None], faults: list[str], *, applies: bool, removes: bool, as_json: bool
) -> int:
    """Show the limits that a run has learned from itself, and the durations of its sections. Returns the exit status.

    ``applies`` freezes the limits, ``removes`` deletes them. Raises :class:`SettingsError` with ``faults`` and all
    others, before any I/O.
    """
    if run is None:
        faults.append("--learned is of one run; use for example lastbeat limits my-run --learned")
    name = values.run_id(run, faults) if run is not None else ""
    if applies and removes:
        faults.append("--apply and --remove: name one of them")
    settings = values.settings(given, faults)
    store, key = opening.store(settings), f"{name}/{runid.LEARNED}"
    state = _state(store.read(key, LIMIT_BYTES))
    metadata = store.read(f"{name}/{runid.METADATA}", DOCUMENT_LIMIT_BYTES)
    if state is None:
        if metadata is None and not store.list(f"{name}/", limit=1).entries:
            raise run_names.unknown(store, name)
        state = LearnedState()
    learner = _learner(state, read_heartbeat(metadata) if metadata is not None else None)
    if removes or (applies and any(each.limit_s is not None for each in state.learned.values())):
        state = _change(store, key, removes=removes)
    if removes:
        _have_watchers_forget(store, name)
    seen = _seen_by_watchers(store, name)
    shown = replace(state, learned={_masked(key): known for key, known in state.learned.items()})
    told = lines(name, shown, seen, learner, applies=applies, removes=removes)
    tell(document(name, state, seen, learner), told, as_json=as_json)
    known = [each.limit_s for each in state.learned.values()] + [seen.limit_s if seen is not None else None]
    return exits.OK if any(each is not None for each in known) else exits.WARNING


def _masked(key: SpanKey) -> SpanKey:
    return SpanKey(key.kind, harmless(key.name))


@dataclass(frozen=True, slots=True)
class Learner:
    """Whether the latest attempt of a run learns limits."""

    is_on: bool
    """Whether it has written ``ft_state.json``, as rank 0 does with its first heartbeat."""
    is_over: bool
    """Whether it has reported its end."""


def _learner(state: LearnedState, metadata: Heartbeat | None) -> Learner:
    if metadata is None:
        return Learner(is_on=False, is_over=False)
    learns = metadata.start_time is not None and metadata.start_time == parse_time(state.attempt)
    return Learner(learns, metadata.status not in {None, "running"})


@dataclass(frozen=True, slots=True)
class SeenByWatchers:
    """What watchers have learned about a run's steps."""

    waits: StepWaits | None
    """Times between steps in this attempt."""
    earlier_s: float | None
    """The limit learned from earlier attempts, in seconds."""

    @property
    def limit_s(self) -> float | None:
        """The longest time without a new step, in seconds, or None if it is not known yet."""
        return step_waits.limit_s(self.waits, self.earlier_s)


def _seen_by_watchers(store: Store, run_id: str) -> SeenByWatchers | None:
    """What watchers have learned about the run's steps, or None if that is nothing or the record is damaged."""
    blob = store.read(f"{run_id}/{runid.RECORD}", RECORD_LIMIT_BYTES)
    try:
        record = decode_record(blob.body) if blob is not None else None
    except DamagedError:
        return None
    if record is None:
        return None
    waits, earlier_s = _waits(record), record.earlier_step_limit_s
    if waits is not None and waits.seen == 0 and record.supervision is not None:
        # A supervised run's step times are also recorded to judge failed jobs, without learning a limit.
        waits = None
    return None if waits is None and earlier_s is None else SeenByWatchers(waits, earlier_s)


def _waits(record: Record) -> StepWaits | None:
    return record.progress.waits if record.progress is not None else None


def _have_watchers_forget(store: Store, run_id: str) -> None:
    """Remove what watchers have learned about the run's steps from the record."""

    def change(record: Record | None) -> Record | None:
        if record is None or (_waits(record) is None and record.earlier_step_limit_s is None):
            return None
        progress = None if record.progress is None else replace(record.progress, waits=None)
        return replace(record, progress=progress, earlier_step_limit_s=None)

    RecordRepository.of_run(store, run_id).update(change)


def _state(blob: Blob | None) -> LearnedState | None:
    """The state in the document, or None if there is no document."""
    return None if blob is None else read_state(blob.body) or LearnedState()


def _change(store: Store, key: str, *, removes: bool) -> LearnedState:
    """Reset or freeze the limits, safely even if training writes at the same time. Returns the new state."""
    new = LearnedState()

    def change(blob: Blob | None) -> bytes:
        nonlocal new
        if removes:
            new = LearnedState(forgotten_at=store.clock().isoformat())
        else:
            new = replace(_state(blob) or LearnedState(), applied=True)
        return encode_state(new)

    fleet_document.update(store, key, LIMIT_BYTES, change)
    return new


def document(run_id: str, state: LearnedState, seen: SeenByWatchers | None, learner: Learner) -> dict[str, Any]:
    """``state`` as a JSON document."""
    return {
        "run_id": run_id,
        "learning": None if _was_reset(state) else learner.is_on,
        "applied": state.applied,
        "limits": [
            {
                "kind": key.kind,
                "name": key.name or None,
                "samples": known.taken.samples,
                "samples_of_a_rank": known.taken.most,
                "longest_s": known.taken.longest_s or None,
                "at_least_s": known.taken.at_least_s or None,
                "limit_s": known.limit_s,
            }
            for key, known in sorted(state.learned.items())
        ],
        "by_watchers": None
        if seen is None
        else {
            "samples": seen.waits.seen if seen.waits is not None else 0,
            "longest_s": seen.waits.longest_s or None if seen.waits is not None else None,
            "earlier_limit_s": seen.earlier_s,
            "limit_s": seen.limit_s,
        },
    }


def lines(
    run_id: str,
    state: LearnedState,
    seen: SeenByWatchers | None,
    learner: Learner,
    *,
    applies: bool,
    removes: bool,
) -> Iterator[str]:
    """``state``, and what watchers have learned, as lines for people."""
    if removes:
        yield f"Run {run_id}: forgotten; learning starts from nothing"
        return
    if not state.learned:
        yield _nothing_line(run_id, state, learner) if seen is None else _seen_line(run_id, seen)
        return
    held = "; they stay as they are (--remove forgets them)" if state.applied else ""
    yield f"Run {run_id}: limits that it has learned{held}"
    rows = [("", "samples", "longest", "limit")]
    rows += [_row(key, known) for key, known in sorted(state.learned.items())]
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    for row in rows:
        told = [row[0].ljust(widths[0]), row[1].rjust(widths[1]), row[2].rjust(widths[2]), row[3]]
        yield "  " + "  ".join(told).rstrip()
    if seen is not None:
        yield _seen_line(run_id, seen)
    if applies:
        yield from _settings(state.learned)


def _was_reset(state: LearnedState) -> bool:
    """Whether it was reset, and training has not written it since."""
    return bool(state.forgotten_at) and not state.attempt


def _nothing_line(run_id: str, state: LearnedState, learner: Learner) -> str:
    """A line that says why a run has learned nothing."""
    if _was_reset(state):
        return f"Run {run_id} has learned nothing since it was reset ({harmless(state.forgotten_at)})"
    if not learner.is_on:
        how = f"training learns with {LEARN.name}=on in its environment, or lastbeat.run(…, learn=True)"
        return f"Run {run_id} has learned nothing: learning is off in its latest attempt; {how}"
    if learner.is_over:
        why = f"its latest attempt was too short: a limit needs {LEAST_SAMPLES} samples, without the first steps"
    else:
        why = f"nothing is saved yet: training saves every {format_duration(EVERY_S)}, and when it ends"
    return f"Run {run_id} has learned nothing: learning is on, but {why}"


def _seen_line(run_id: str, seen: SeenByWatchers) -> str:
    waits, limit_s = seen.waits, seen.limit_s
    if waits is not None and limit_s is not None:
        usual = f"usual {format_duration(step_waits.usual_s(waits))}, limit {format_duration(limit_s)}"
        return f"Watchers of run {run_id} have learned how long it may be without a step: {usual}"
    if waits is not None and step_waits.is_enough(waits, seen.earlier_s):
        why = "its steps take too long to tell a hang from one"
    elif seen.earlier_s is not None:
        why = f"limit {format_duration(seen.earlier_s)} by earlier attempts, once this one has made its first steps"
    else:
        why = f"{waits.seen if waits is not None else 0} of {LEAST_SAMPLES} steps seen"
    return f"Watchers of run {run_id} learn how long it may be without a step: {why}"


def _row(key: SpanKey, known: LearnedLimit) -> tuple[str, str, str, str]:
    name = {"between": "(between steps)", "outside": "(in no section)", "starting": "(until the first step)"}.get(
        key.kind
    )
    name = name or fit(key.name, _NAME)
    longest = _seconds(known.taken.longest_s)
    if known.taken.at_least_s > known.taken.longest_s:
        longest = f"at least {_seconds(known.taken.at_least_s)}"
    if known.limit_s is not None:
        least = {FLOOR_S} if key.kind == "section" else {FLOOR_S, IDLE_FLOOR_S}
        bound = " (the least)" if known.limit_s in least else " (the most)" if known.limit_s == CEILING_S else ""
        return name, f"{known.taken.samples:,}", longest, format_duration(known.limit_s) + bound
    why = "none: it takes too long to be told from a hang"
    if known.taken.samples < LEAST_SAMPLES:
        why = f"none yet: {LEAST_SAMPLES} samples are needed"
    elif not known.taken.enough:
        why = f"none yet: {LEAST_OF_A_RANK} samples of one rank are needed"
    return name, f"{known.taken.samples:,}", longest, why


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g}s" if seconds < 10 else format_duration(seconds)


def _can_stand_there(name: str) -> bool:
    """Whether that setting can hold a section of this name."""
    return name.isprintable() and name not in {"", OUT_OF_SECTION} and not set(name) & set(", ")


def _settings(learned: Mapping[SpanKey, LearnedLimit]) -> Iterator[str]:
    """The learned limits as settings for a run that does not learn."""
    found = {key: known.limit_s for key, known in learned.items() if known.limit_s is not None}
    names = {key: STEP if key.kind == "between" else key.name for key in found}
    named = [f"{names[key]}:{limit_s:.0f}" for key, limit_s in sorted(found.items()) if _can_stand_there(names[key])]
    named += [f"{OUT_OF_SECTION}:{found[OUTSIDE]:.0f}"] if OUTSIDE in found else []
    yield "The same for a job that does not learn:"
    if named:
        yield f"  {SECTION_TIMEOUTS.name}={','.join(named)}"
