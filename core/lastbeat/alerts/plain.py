"""An alert as plain text for a terminal, in the words and order of the Slack message."""

from collections.abc import Iterator

from lastbeat.alerts.facts import (
    ACTION,
    ALSO_SEEN,
    EVIDENCE,
    FRAMES,
    LOG,
    MEMBERS,
    SHARED,
    STACK,
    also_seen,
    conditions,
    evidence,
    facts,
    frames,
    headline,
    log_lines,
    members,
    shared,
    similar,
)
from lastbeat.alerts.first_lines import (
    RESTART,
    above,
    action,
    command,
    continued,
    first_facts,
    named_cause,
    place,
    sentence,
    since,
)
from lastbeat.model.alert import NAMES_LIMIT, Message
from lastbeat.model.text import fit, newest, one_line

_BAR = "│ "


def render(message: Message) -> str:
    """The alert in lines of at most 500 characters, without control characters or a final newline. Pure."""
    return "\n".join((_BAR + fit(line, 498)).rstrip() for line in lines(message))


def lines(message: Message) -> Iterator[str]:
    """The lines of the alert without the bar, the headline first; their length is not limited."""
    yield headline(message)
    yield from filter(None, (sentence(message),))
    yield " · ".join(filter(None, (since(message), named_cause(message))))
    if action(message):
        yield from (ACTION + action(message)).split("\n")[:10]
    yield from filter(None, (place(message),))
    yield from (f"{fact.label:<{len(RESTART)}}  {fact.value}" for fact in first_facts(message))
    yield from filter(None, (command(message), one_line(message.link or "")))
    yield ""
    yield from filter(None, (similar(message),))
    for fact in continued(message):
        yield from f"{fact.label}: {fact.value}".split("\n")[:50]
    shown = [fact for fact in facts(message) if fact.label not in above(message)]
    width = max(len("Condition"), *(len(fact.label) for fact in shown), 0)
    for fact in shown:
        yield f"{fact.label:<{width}}  {fact.value}"
    for fact in conditions(message)[:20]:
        yield f"{'Condition':<{width}}  {fact.label}: {fact.value}"
    if message.where.strip():
        yield f"{'Files':<{width}}  {one_line(message.where)}"
    yield from _why(message)
    common = shared(message)[:10]
    if common:
        yield ""
        yield SHARED
        yield from (f"  {fact.label}: {fact.value}" for fact in common)
    named, more = members(message, NAMES_LIMIT)
    if message.member_count > 0:
        yield ""
        yield MEMBERS
        yield from (f"  {each.label}{f': {each.value}' if each.value else ''}" for each in named)
        if more:
            yield f"  and {more} more"
    log = f"{LOG}: {one_line(message.log_name)}" if message.log_name else LOG
    for title, written in ((STACK, message.stack), (log, log_lines(message))):
        shown_lines = newest(written, 2800, 400)
        if shown_lines:
            yield ""
            yield title
            yield from (f"  {line}" for line in shown_lines)
    notes = [text for text in map(one_line, message.notes) if text]
    if notes:
        yield ""
        yield from (f"Note: {note}" for note in notes[:20])


def _why(message: Message) -> Iterator[str]:
    """The evidence of the cause, and other candidates."""
    shows, others = evidence(message), also_seen(message)
    if shows is not None:
        yield from ("", f"{EVIDENCE}: {shows.label}")
        yield from (f"  {shows.value}",) if shows.value else ()
    raised = frames(message)
    if raised:
        yield from ("", FRAMES, *(f"  {frame}" for frame in raised))
    if others:
        yield from ("", ALSO_SEEN, *(f"  {line}" for line in others))
