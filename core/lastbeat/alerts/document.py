"""Message → the JSON document for programs, the same for SNS and the webhook.

Stable: a field is never renamed, retyped or left out. Unknown values are null.

    version      1
    key          names this alert for good; the same on every delivery of it
    event        FAILED TIMED_OUT SUCCEEDED CANCELLED PREEMPTED RECOVERED STARTED RESTARTED WARNING ALERT FLAPPING
                 BLIND SIGHTED FIRST_LOOK DIGEST TEST; ALERT is one raised by training
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
    member_links a web address of each of the first of them, in their order; empty if there is none
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
from dataclasses import fields
from datetime import datetime
from enum import Enum
from typing import Any, Final

from lastbeat.model.alert import BOUND, NAMES_LIMIT, Bound, Message
from lastbeat.model.cause import TEXT_LIMIT, Evidence
from lastbeat.model.json_values import json_number
from lastbeat.model.text import clean, fit, newest, one_line, owner_name
from lastbeat.model.times import format_time

MAX_BYTES = 250_000
"""Most bytes of the document as UTF-8. SNS accepts 262,144 bytes with the attributes."""
_LOG, _STACK = 18_000, 4000
_SHORT: Final = Bound(300)
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
    held = {each.name: _bounded(getattr(message, each.name), each.metadata.get(BOUND, _SHORT)) for each in _PLAIN}
    return {
        "version": 1,
        "severity": message.severity,
        **held,
        **{name: _figure(value) for name, value in message.figures.named().items()},
        "evidence": _evidence(message.evidence),
        "log_name": _bounded(message.log_name or None, Bound(300, lines=True)),
        "log_tail": newest(message.log_tail, _LOG, 2000)[-200:],
        "stack": newest(message.stack, _STACK, 500)[-50:],
        "members": [],
        "members_left_out": _integer(max(0, message.member_count)),
        "member_notes": [fit(one_line(note), _NOTE, _json_bytes) for note in message.member_notes[:NAMES_LIMIT]],
        "member_links": [fit(one_line(link), _SHORT.chars, _json_bytes) for link in message.member_links[:NAMES_LIMIT]],
        "shared": {
            fit(one_line(name), 50, _json_bytes): fit(one_line(value), _SHORT.chars, _json_bytes)
            for name, value in list(message.shared.items())[:5]
        },
        "owner": owner_name(message.owner),
        "team": owner_name(message.team),
        "mentions": [
            {name: owner_name(getattr(each, name)) for name in ("name", "slack", "email", "pagerduty")}
            for each in message.mentions[:10]
        ],
    }


_APART: Final = {
    "figures", "evidence", "log_name", "log_tail", "stack", "members", "member_notes", "member_links", "shared",
    "owner", "team", "mentions", "unknown",
}  # fmt: skip
_PLAIN: Final = tuple(each for each in fields(Message) if each.name not in _APART)
"""Fields that the document has as they are, within their bounds."""


def _evidence(evidence: Evidence | None) -> dict[str, object] | None:
    if evidence is None:
        return None
    held = {name: _bounded(getattr(evidence, name), _SHORT) for name in ("file", "line", "rank", "host", "time")}
    return {**held, "text": _bounded(evidence.text, Bound(TEXT_LIMIT))}


def _bounded(value: Any, bound: Bound) -> Any:
    """``value`` as JSON can hold it; None for a number that it cannot."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return fit(clean(value) if bound.lines else one_line(value), bound.chars)
    if isinstance(value, tuple):
        return [_bounded(each, bound) for each in value[: bound.items]]
    if isinstance(value, Mapping):
        listed = list(value.items())[: bound.items]
        return {fit(one_line(name), 100): _bounded(each, bound) for name, each in listed}
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _integer(value)


def _json_bytes(char: str) -> int:
    return 2 if char in '"\\' else len(char.encode("utf-8", "replace"))


def _figure(value: float | None) -> float | str | None:
    return _integer(value) if isinstance(value, int) else json_number(value)


def _integer(value: int | None) -> int | None:
    """``value``, or None for a number beyond 64 bits, which comes from a damaged document."""
    return value if value is not None and -(2**63) <= value < 2**63 else None
