"""The first lines of an alert, short enough for a phone: the event and its start, the action, the place, the owner, the
restart decision, and a command to paste."""

import re
import shlex
from typing import Final

from lastbeat.alerts.facts import FOR, OWNER, RANKS, Fact, cause, moment, whose
from lastbeat.explain.signals.error_types import traits_of
from lastbeat.model.alert import Message
from lastbeat.model.status import Status
from lastbeat.model.text import CUT, clean, fit, one_line
from lastbeat.model.times import format_duration

RESTART: Final = "Restart"
_REASON_CHARS: Final = 120
"""Most characters of the reason, which are three lines on a phone."""
_ACTION_CHARS: Final = 180
_LONGEST_SENTENCE: Final = 280
"""Most characters of the first sentence of an action. Commands make sentences long, and half a command is useless."""
_FACT_CHARS: Final = 160
_PLACE_CHARS: Final = 400
_UNWELL: Final = frozenset({Status.FAILED, Status.TIMED_OUT, Status.PREEMPTED})
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s|\n")
_RUN: Final = re.compile(r"[A-Za-z0-9._\-+=@:]{1,200}")


def since(message: Message) -> str:
    """``Since 2025-08-04 17:14:02 UTC, 2m 19s before this alert``, or the time of the decision."""
    if message.since is None:
        return f"At {moment(message.at)}"
    age_s = (message.at - message.since).total_seconds()
    late = f", {format_duration(age_s)} before this alert" if age_s >= 1 else ""
    return f"Since {moment(message.since)}{late}"


def named_cause(message: Message) -> str:
    """``Cause: oom (likely)``; empty if unknown."""
    known = one_line(cause(message.cause, message.confidence, message.second_cause) or "")
    return f"Cause: {known}" if known else ""


def sentence(message: Message) -> str:
    """The sentences of the reason that fit."""
    return _sentences(one_line(message.reason), _REASON_CHARS, _REASON_CHARS)


def action(message: Message) -> str:
    """The sentences of the hint that fit, at least one."""
    return _sentences(clean(message.action or "").strip(), _ACTION_CHARS, _LONGEST_SENTENCE)


def continued(message: Message) -> tuple[Fact, ...]:
    """The parts of the reason and the hint that the first lines leave out. Hostile text."""
    texts = (
        ("Reason, continued", one_line(message.reason), sentence(message)),
        ("What to do, continued", clean(message.action or "").strip(), action(message)),
    )
    rest = ((label, text[len(short.removesuffix(CUT)) :].strip()) for label, text, short in texts if short != text)
    return tuple(Fact(label, text, ours=False) for label, text in rest if text)


def _sentences(text: str, limit: int, longest: int) -> str:
    """The first sentences of ``text`` that fit into ``limit``. The first is always kept, cut to ``longest``."""
    ends = [found.start() for found in _SENTENCE_END.finditer(text[: limit + 1])]
    if len(text) <= limit or not ends:
        first = _SENTENCE_END.search(text, 0, longest + 1)
        return fit(text if first is None or len(text) <= limit else text[: first.start()], longest)
    return text[: ends[-1]]


def place(message: Message) -> str:
    """``Where: rank 5 on h100-010``; empty if unknown. Hostile text."""
    label, text = _place(message)
    shown = fit(one_line(text or ""), _PLACE_CHARS)
    return f"{label}: {shown}" if shown else ""


def first_facts(message: Message) -> tuple[Fact, ...]:
    """The owner, the mentioned people, and the restart decision. Hostile text."""
    names = ", ".join(each.name for each in message.mentions[:10])
    known = ((OWNER, whose(message.owner, message.team)), (FOR, names), (RESTART, _restart(message)))
    texts = ((label, fit(one_line(text or ""), _FACT_CHARS)) for label, text in known)
    return tuple(Fact(label, text, ours=False) for label, text in texts if text)


def above(message: Message) -> frozenset[str]:
    """Labels of the facts that the first lines show."""
    known = {"Cause"}
    if message.event.value == message.status.value:
        known.add("Status")
    if message.since is None:
        known.add("Time")
    return frozenset(known)


def command(message: Message) -> str:
    """The command that shows more: ``lastbeat show RUN --root ROOT``. Empty if no command applies."""
    where = one_line(message.where).rstrip("/")
    if not where:
        return ""
    if message.member_count > 0:
        return f"lastbeat fleet --root {shlex.quote(where)}"
    root = where.removesuffix(f"/{message.run_id}")
    if root == where or not root or _RUN.fullmatch(message.run_id) is None:
        return ""
    return f"lastbeat show {message.run_id} --root {shlex.quote(root)}"


def _place(message: Message) -> tuple[str, str | None]:
    """The label and text for the rank and node of the alert."""
    if message.ranks:
        return RANKS, message.ranks
    shows, node = message.evidence, message.instance_id
    if shows is None or (shows.rank is None and not shows.host):
        return "Where", node
    rank = f"rank {shows.rank}" if shows.rank is not None and abs(shows.rank) < 10**9 else ""
    # A rank that waited for others, or lost its connection to them, only reported the failure.
    saw = message.cause is not None and traits_of(message.cause).is_vague
    return "Reported by" if saw else "Where", " on ".join(filter(None, (rank, shows.host or node)))


def _restart(message: Message) -> str | None:
    if message.member_count > 0 or message.status not in _UNWELL:
        return message.restart
    saved = f"last complete checkpoint: {message.checkpoint or 'unknown'}"
    return f"{fit(one_line(message.restart or 'not by lastbeat'), _FACT_CHARS // 2)}; {saved}"
