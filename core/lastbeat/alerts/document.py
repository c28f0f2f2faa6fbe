"""Message → the JSON document for programs, the same for SNS and the webhook.

Stable: a field is never renamed, retyped or left out. Unknown values are null.

    version      1
    key          names this alert for good; the same on every delivery of it
    event        FAILED TIMED_OUT SUCCEEDED CANCELLED PREEMPTED RECOVERED STARTED RESTARTED WARNING ALERT FLAPPING
                 BLIND SIGHTED TEST; ALERT is one raised by training
    severity     critical warning info
    run_id status reason cause action attempt phase instance_id where link
    confidence   confidence in the cause, from 0 to 1
    second_cause the other likely cause if two are undecided; null if decided
    evidence     the line that shows the cause: file line text rank host time, the last three may be null
    frames       where its exception was raised: at most two of your own frames, then at most two of libraries, the
                 innermost first; empty if no traceback shows it
    ranks        in distributed training, the notable ranks (failed, silent, behind) in one line; null if there are none
    also_seen    downstream errors and other candidates, at most three lines
    similar      the last failure of the same cause and its outcome, in one line; null if none is known
    conditions   name → observation
    at           ISO 8601, UTC; last_beat_at likewise
    since        when the status began, by the evidence; null if unknown, or the run goes on as before
    restart      the decision about its job; null if there is none
    checkpoint   the last complete checkpoint, in one line; null if unknown
    duration_s step total_steps
    step_age_s   how long it had been at step, in seconds; null if not long, unknown, or it has ended
    loss         a number, or "NaN", "Infinity", "-Infinity", which JSON cannot represent as numbers
    log_name     the log that these lines are from; null for the run's main log
    log_tail     last log lines, oldest first
    stack        where the main thread hangs if training makes no progress, innermost frame last
    notes        remarks on the alert itself
    member_count number of runs in an alert about many; 0 if it is about run_id alone, which otherwise is "_groups"
    members      ids of those runs, as many as fit
    members_left_out
                 number of those runs that are not among members; 0 if all are
    member_notes how and when each of the first of them ended, in their order; empty if there is nothing to say
    shared       what they have in common: name → value, and the number of runs that have it
    group        number of the alert's group; 0 for none. Alerts with the same group are about the same trouble
    still_out    number of runs of that group that are timed out
    level        level of an ALERT: info, warning or error
    owner team   owner of the run, from training
    mentions     people whom routes mention: name slack email pagerduty, the last three may be null

All text is bounded and free of control characters. Training wrote some of it, so escape it.
"""

import json
import math
from collections.abc import Mapping

from lastbeat.alerts.facts import ALSO_SEEN_LIMIT
from lastbeat.model.alert import NAMES_LIMIT, Message
from lastbeat.model.cause import FRAMES_LIMIT, TEXT_LIMIT, Evidence
from lastbeat.model.numbers import json_number
from lastbeat.model.text import clean, fit, newest, one_line, owner_name
from lastbeat.model.times import format_time

MAX_BYTES = 250_000
"""Most bytes of the document as UTF-8. SNS accepts 262,144 bytes with the attributes."""

# A character takes at most 4 bytes in UTF-8. With these numbers the worst document has 195,000 bytes without members.
_LONG, _MEDIUM, _SHORT, _LOG, _STACK = 2500, 1000, 300, 18_000, 4000
_FRAME = 160
_NOTE = 80
"""Most bytes of a member note."""
_NAME = 200
"""Most bytes of a member's name, which no run id exceeds."""
_BESIDE_NAME = len('    "",\n')
"""Bytes that a name takes in the text besides itself."""


def document(message: Message) -> dict[str, object]:
    """The document as a dictionary that JSON can hold. Pure."""
    found = _without_members(message)
    if message.members:
        room = MAX_BYTES - len(_encoded(found).encode("utf-8", "replace"))
        names = _members(message, room)
        left_out = _integer(max(0, message.member_count - len(names)))
        found |= {"members": names, "members_left_out": left_out}
    return found


def encode(message: Message) -> str:
    """The document as text of at most MAX_BYTES in UTF-8, indented, because SNS puts it into e-mails unchanged."""
    return _encoded(document(message))


def _encoded(found: Mapping[str, object]) -> str:
    return json.dumps(found, ensure_ascii=False, allow_nan=False, indent=2)


def _members(message: Message, room: int) -> list[str]:
    """The first members, as many as fit into ``room`` bytes."""
    names = []
    for run_id in message.members:
        name = fit(one_line(run_id), _NAME, _json_bytes)
        room -= sum(map(_json_bytes, name)) + _BESIDE_NAME
        if room < 0:
            break
        names.append(name)
    return names


def _without_members(message: Message) -> dict[str, object]:
    return {
        "version": 1,
        "key": fit(one_line(message.key), _MEDIUM),
        "run_id": fit(one_line(message.run_id), _SHORT),
        "event": message.event.value,
        "severity": message.severity,
        "status": message.status.value,
        "reason": fit(clean(message.reason), _LONG),
        "cause": _text(message.cause, _SHORT),
        "confidence": message.confidence if _finite(message.confidence) else None,
        "second_cause": _text(message.second_cause, _SHORT),
        "evidence": _evidence(message.evidence),
        "frames": [fit(one_line(frame), _FRAME) for frame in message.frames[:FRAMES_LIMIT]],
        "ranks": None if message.ranks is None else fit(one_line(message.ranks), _SHORT),
        "also_seen": [fit(one_line(line), _SHORT) for line in message.also_seen[:ALSO_SEEN_LIMIT]],
        "similar": None if message.similar is None else fit(one_line(message.similar), _SHORT),
        "action": _text(message.action, _LONG),
        "restart": _text(message.restart, _LONG),
        "checkpoint": _text(message.checkpoint, _SHORT),
        "conditions": {
            fit(one_line(name), 100): fit(one_line(seen), _SHORT)
            for name, seen in list(message.conditions.items())[:20]
        },
        "at": format_time(message.at),
        "since": format_time(message.since),
        "attempt": _integer(message.attempt),
        "instance_id": _text(message.instance_id, _SHORT),
        "phase": _text(message.phase, _SHORT),
        "duration_s": message.duration_s if _finite(message.duration_s) else None,
        **{name: _figure(value) for name, value in message.figures.named().items()},
        "step_age_s": message.step_age_s if _finite(message.step_age_s) else None,
        "last_beat_at": format_time(message.last_beat_at),
        "log_name": _text(message.log_name or None, _SHORT),
        "log_tail": newest(message.log_tail, _LOG, 2000)[-200:],
        "stack": newest(message.stack, _STACK, 500)[-50:],
        "notes": [fit(one_line(note), _SHORT) for note in message.notes[:10]],
        "where": fit(one_line(message.where), _MEDIUM),
        "link": _text(message.link, _LONG),
        "member_count": _integer(message.member_count),
        "members": [],
        "members_left_out": _integer(max(0, message.member_count)),
        "member_notes": [fit(one_line(note), _NOTE, _json_bytes) for note in message.member_notes[:NAMES_LIMIT]],
        "shared": {
            fit(one_line(name), 50, _json_bytes): fit(one_line(value), _SHORT, _json_bytes)
            for name, value in list(message.shared.items())[:5]
        },
        "group": _integer(message.group),
        "still_out": _integer(message.still_out),
        "level": _text(message.level, _NAME),
        "owner": _text(owner_name(message.owner), _SHORT),
        "team": _text(owner_name(message.team), _SHORT),
        "mentions": [
            {
                "name": owner_name(each.name),
                "slack": owner_name(each.slack),
                "email": owner_name(each.email),
                "pagerduty": owner_name(each.pagerduty),
            }
            for each in message.mentions[:10]
        ],
    }


def _evidence(evidence: Evidence | None) -> dict[str, object] | None:
    if evidence is None:
        return None
    return {
        "file": fit(one_line(evidence.file), _SHORT),
        "line": _integer(evidence.line),
        "text": fit(one_line(evidence.text), TEXT_LIMIT),
        "rank": _integer(evidence.rank),
        "host": None if evidence.host is None else fit(one_line(evidence.host), _SHORT),
        "time": format_time(evidence.time),
    }


def _text(text: str | None, limit: int) -> str | None:
    return None if text is None else fit(clean(text), limit)


def _json_bytes(char: str) -> int:
    return 2 if char in '"\\' else len(char.encode("utf-8", "replace"))


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _figure(value: float | None) -> float | str | None:
    return _integer(value) if isinstance(value, int) else json_number(value)


def _integer(value: int | None) -> int | None:
    """``value``, or None for a number beyond 64 bits, which comes from a damaged document."""
    return value if value is not None and -(2**63) <= value < 2**63 else None
