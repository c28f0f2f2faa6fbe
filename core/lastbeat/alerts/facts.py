"""The facts of an alert, with the same wording and order on every channel for people."""

import math
import re
from datetime import datetime
from itertools import zip_longest
from typing import Final

from lastbeat.explain.signals.error_types import traits_of
from lastbeat.model.alert import ALSO_SEEN_LIMIT, Message
from lastbeat.model.cause import CERTAIN, FRAMES_LIMIT, Evidence, sureness
from lastbeat.model.data import dataclass
from lastbeat.model.figures import FIGURES
from lastbeat.model.progress_lines import Progress
from lastbeat.model.status import Event, Status, steps_done
from lastbeat.model.text import CUT, clean, counted, one_line
from lastbeat.model.times import format_duration

# A sign and a word for each, so that colour is never needed.
_HEADLINES = {
    Event.FAILED: "❌ FAILED: {run}",
    Event.TIMED_OUT: "⏰ TIMED_OUT: {run}",
    Event.SUCCEEDED: "✅ SUCCEEDED: {run}",
    Event.CANCELLED: "✋ CANCELLED: {run}",
    Event.PREEMPTED: "⏏️ PREEMPTED: {run}",
    Event.RECOVERED: "💓 RECOVERED: {run}",
    Event.STARTED: "🚀 STARTED: {run}",
    Event.RESTARTED: "🔁 RESTARTED: {run}",
    Event.WARNING: "⚠️ WARNING: {run}",
    Event.ALERT: "📣 ALERT: {run}",
    Event.FLAPPING: "🎢 FLAPPING: {run}",
    Event.BLIND: "🙈 BLIND: lastbeat cannot see {run}",
    Event.SIGHTED: "👀 SIGHTED: lastbeat sees {run} again",
    Event.FIRST_LOOK: "🔭 FIRST_LOOK: {run}",
    Event.DIGEST: "🌅 DIGEST: the last day",
    Event.TEST: "🧪 TEST: {run}",
}
_WARNED = "⚠️ SUCCEEDED, with warnings: {run}"
RESTARTING = "restarting"
"""Prefix of a note about a restart."""
ACTION = "👉 Action required: "
OWNER = "Owner"
FOR = "For"
SHARED = "What they share"
MEMBERS = "Runs"
EVIDENCE = "What shows it"
FRAMES = "Where it was raised"
RANKS = "Ranks"
SIMILAR = "Seen before: "
ALSO_SEEN = "Also seen"
STACK = "Where it hangs"
LOG = "Last log lines"

_MOST = 10**15  # No step, total or second of a real run; larger numbers come from damaged documents.


_KEY_CHARS: Final = 60
"""Number of characters of two lines that are compared to detect a repetition."""
_SHORTEST_KEY: Final = 12
_PREFIX: Final = re.compile(r"^(?:\[[a-z]{1,20}\d{1,6}\]:|\d{1,5}:)\s?")
"""Prefix that a launcher puts before a line."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One labelled value. ``ours`` says that lastbeat worded the value; otherwise it is hostile text."""

    label: str
    value: str
    ours: bool = True
    link: str = ""
    """A web address for more."""


def headline(message: Message) -> str:
    """Sign, word, run: the first line of an alert, and all that a phone shows of it."""
    sign = _WARNED if message.event is Event.SUCCEEDED and message.conditions else _HEADLINES[message.event]
    restart = one_line(message.restart or "")
    # A restart belongs to the first line; the reason against one belongs to the facts.
    more = f" → {restart}" if restart.startswith(RESTARTING) else ""
    return sign.format(run=one_line(message.subject)) + more


def facts(message: Message) -> tuple[Fact, ...]:
    """The facts that are not among the first lines, the most important first. Unknown ones are left out."""
    # A digest is about many runs, of which none has to be its subject.
    about_one = message.event is not Event.DIGEST
    known = (
        Fact(_status_label(message), _status(message)) if about_one else None,
        _foreign("Cause", cause(message.cause, message.confidence, message.second_cause)),
        _worded("Step", _aged_step(message)),
        *(_worded(each.label, _figure(getattr(message.figures, each.name))) for each in FIGURES if each.label),
        _foreign("Phase", message.phase),
        _foreign("Instance", message.instance_id),
        _worded("Last heartbeat", _last_beat(message)),
        _worded("Duration", _duration(message.duration_s)),
        _worded("Attempt", _count(message.attempt) if about_one and message.member_count <= 0 else None),
        Fact("Time", moment(message.at)),
    )
    return tuple(fact for fact in known if fact is not None)


def moment(at: datetime) -> str:
    """``2025-08-04 17:16:21 UTC``."""
    return at.strftime("%Y-%m-%d %H:%M:%S ") + (at.tzname() or "UTC")


def cause(error_type: str | None, confidence: float | None, second: str | None = None) -> str | None:
    """A cause, with its confidence in a word unless it is certain: ``oom (likely)``, ``oom or cancelled (perhaps)``."""
    if not error_type or confidence is None or confidence >= CERTAIN:
        return error_type

    if traits_of(error_type).says_nothing:
        return error_type
    return f"{error_type}{f' or {second}' if second else ''} ({sureness(confidence)})"


def whose(owner: str | None, team: str | None) -> str | None:
    """An owner with their team: ``alice (vision)``."""
    if owner and team:
        return f"{owner} ({team})"
    return owner or team


def place(evidence: Evidence) -> str:
    """The place of an evidence line: ``train.log:1042, rank 3, node-7, 2026-01-01 12:00:03``."""
    file = one_line(evidence.file)
    parts = [f"{file}:{_count(evidence.line)}" if evidence.line > 0 else file]
    if evidence.rank is not None:
        parts.append(f"rank {_count(evidence.rank)}")
    if evidence.host:
        parts.append(one_line(evidence.host))
    if evidence.time is not None:
        parts.append(evidence.time.strftime("%Y-%m-%d %H:%M:%S"))
    return ", ".join(parts)


def evidence(message: Message) -> Fact | None:
    """The line that shows the cause, labelled with its place; empty if the reason repeats it. Both are hostile text."""
    if message.evidence is None:
        return None
    text = one_line(message.evidence.text)
    # An alert shows the error once.
    return Fact(place(message.evidence), "" if repeats(text, message.reason) else text, ours=False) if text else None


def frames(message: Message) -> tuple[str, ...]:
    """Where the exception was raised: a few lines of hostile text."""
    return tuple(line for line in map(one_line, message.frames[:FRAMES_LIMIT]) if line)


def similar(message: Message) -> str:
    """The last failure of the same cause, in one line; empty if none is known."""
    text = one_line(message.similar or "")
    return f"{SIMILAR}{text}" if text else ""


def also_seen(message: Message) -> tuple[str, ...]:
    """Downstream errors and other candidates: a few lines of hostile text."""
    lines = (line for line in map(one_line, message.also_seen[:ALSO_SEEN_LIMIT]) if line)
    return tuple(line for line in lines if not repeats(line, *error_texts(message)))


def error_texts(message: Message) -> tuple[str, ...]:
    """The texts of an alert that already show its error: the reason, and the line that shows the cause."""
    return message.reason, *(() if message.evidence is None else (message.evidence.text,))


def repeats(line: str, *texts: str) -> bool:
    """Whether ``line`` repeats one of ``texts``."""
    return any(_same(one_line(line), one_line(text)) for text in texts)


def _same(one: str, other: str) -> bool:
    keys = [_PREFIX.sub("", text)[:_KEY_CHARS] for text in (one, other)]
    return min(map(len, keys)) >= _SHORTEST_KEY and (keys[0] in other or keys[1] in one)


def conditions(message: Message) -> tuple[Fact, ...]:
    """The warnings beside the status, unless the reason already contains them."""
    listed = [Fact(one_line(name), one_line(text), ours=False) for name, text in message.conditions.items()]
    contained = all(f"{name}: {text}" in message.reason for name, text in message.conditions.items())
    return () if contained else tuple(fact for fact in listed if fact.label)


def members(message: Message, most: int) -> tuple[tuple[Fact, ...], int]:
    """The names that an alert about many runs shows, each with its note and link, and the number of further ones.
    Hostile text."""
    shown = (message.members[:most], message.member_notes[:most], message.member_links[:most])
    known = (map(one_line, each) for each in zip_longest(*shown, fillvalue=""))
    named = tuple(Fact(name, note, ours=False, link=link) for name, note, link in known if name)
    return named, max(0, min(message.member_count, _MOST) - len(named))


def shared(message: Message) -> tuple[Fact, ...]:
    """The facts that these runs have in common."""
    known = (Fact(one_line(name), one_line(value), ours=False) for name, value in message.shared.items())
    return tuple(fact for fact in known if fact.label)


def number(value: float, digits: int = 4) -> str:
    """A measured number for display, with ``digits`` significant digits: ``2.346``, ``NaN``, ``inf``."""
    return "NaN" if math.isnan(value) else f"{value:.{digits}g}"


def _figure(value: float | None) -> str | None:
    return _count(value) if value is None or isinstance(value, int) else number(value)


def _status_label(message: Message) -> str:
    return "Last known status" if message.event is Event.BLIND else "Status"


def _status(message: Message) -> str:
    warned = message.conditions and message.status is Status.RUNNING
    return f"{message.status} (WARNING)" if warned else message.status.value


def _aged_step(message: Message) -> str | None:
    step, age = _step(message), _duration(message.step_age_s)
    return step if step is None or age is None else f"{step}, {age} before"


def _step(message: Message) -> str | None:
    total = _count(message.total_steps)
    if message.step is None or message.total_steps is None:
        return _count(message.step) if total is None else f"?/{total}"
    done = steps_done(message.step, message.total_steps, message.status)
    share = f" ({done * 100 // message.total_steps}%)" if 0 <= done <= message.total_steps > 0 else ""
    return f"{_count(done)}/{total}{share}"


def _count(value: int | None) -> str | None:
    if value is None:
        return None
    return str(value) if -_MOST < value < _MOST else "out of range"


def _last_beat(message: Message) -> str | None:
    at = message.last_beat_at
    if at is None:
        return None
    return f"{at.strftime('%Y-%m-%d %H:%M:%S')} ({format_duration(message.at - at)} before)"


def _duration(seconds: float | None) -> str | None:
    return format_duration(seconds) if seconds is not None and 0 <= seconds < _MOST else None


def _worded(label: str, value: str | None) -> Fact | None:
    return None if value is None else Fact(label, value)


def _foreign(label: str, value: str | None) -> Fact | None:
    shown = one_line(value or "")
    return Fact(label, shown, ours=False) if shown else None


_ERROR: Final = f"{CUT} the error above"
_TRACEBACK: Final = "Traceback (most recent call last)"
_STEPS_SHOWN: Final = 2
"""Number of last lines that are shown of a series of healthy steps."""


def log_lines(message: Message) -> tuple[str, ...]:
    """The lines of ``message.log_tail`` for display, oldest first. Hostile text."""
    texts = error_texts(message)
    shown: list[str] = []
    steps: list[str] = []
    traceback: int | None = None
    for line in map(clean, message.log_tail):
        if _is_step(line):
            steps.append(line)
            continue
        shown += _last_of(steps)
        steps = []
        if _TRACEBACK in line:
            traceback = len(shown)
        if not repeats(line, *texts):
            shown.append(line)
            continue
        if traceback is not None and message.frames:
            # The alert shows these frames already.
            del shown[traceback:]
        traceback = None
        if shown[-1:] != [_ERROR]:
            shown.append(_ERROR)
    return (*shown, *_last_of(steps))


def _last_of(steps: list[str]) -> list[str]:
    left = len(steps) - _STEPS_SHOWN
    return steps if left < _STEPS_SHOWN else [f"{CUT} {counted(left, 'line')} of steps", *steps[-_STEPS_SHOWN:]]


def _is_step(line: str) -> bool:
    """Whether the line is a step of healthy training."""
    progress = Progress()
    return progress.read(line) and progress.not_finite_since is None
