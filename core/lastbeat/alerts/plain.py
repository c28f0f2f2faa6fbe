"""An alert as plain text for a terminal, in the words and order of the Slack message."""

from collections.abc import Iterator, Sequence

from lastbeat.alerts import facts
from lastbeat.alerts import first_lines as first
from lastbeat.model.alert import NAMES_LIMIT, Message
from lastbeat.model.text import fit, newest, one_line

_BAR = "│ "


def render(message: Message) -> str:
    """The alert in lines of at most 500 characters, without control characters or a final newline. Pure."""
    return "\n".join((_BAR + fit(line, 498)).rstrip() for line in lines(message))


def lines(message: Message) -> Iterator[str]:
    """The lines of the alert without the bar, the headline first; their length is not limited."""
    yield facts.headline(message)
    yield from filter(None, (first.sentence(message),))
    yield " · ".join(filter(None, (first.since(message), first.named_cause(message))))
    if first.action(message):
        yield from (facts.ACTION + first.action(message)).split("\n")[:10]
    yield from filter(None, (first.place(message),))
    yield from (f"{fact.label:<{len(first.RESTART)}}  {fact.value}" for fact in first.first_facts(message))
    yield from filter(None, (first.command(message), one_line(message.link or "")))
    yield ""
    yield from filter(None, (facts.similar(message),))
    for fact in first.continued(message):
        yield from f"{fact.label}: {fact.value}".split("\n")[:50]
    yield from _table(message)
    for title, rows in _sections(message):
        yield from ("", title, *(f"  {row}" for row in rows))
    notes = [text for text in map(one_line, message.notes) if text]
    if notes:
        yield from ("", *(f"Note: {note}" for note in notes[:20]))


def _table(message: Message) -> Iterator[str]:
    shown = [(fact.label, fact.value) for fact in facts.facts(message) if fact.label not in first.above(message)]
    width = max(len("Condition"), *(len(label) for label, _ in shown), 0)
    shown += [("Condition", f"{fact.label}: {fact.value}") for fact in facts.conditions(message)[:20]]
    shown += [("Files", one_line(message.where))] if message.where.strip() else []
    yield from (f"{label:<{width}}  {value}" for label, value in shown)


def _sections(message: Message) -> Iterator[tuple[str, Sequence[str]]]:
    """The parts of the alert that have a title of their own."""
    shows = facts.evidence(message)
    if shows is not None:
        yield f"{facts.EVIDENCE}: {shows.label}", (shows.value,) if shows.value else ()
    named, more = facts.members(message, NAMES_LIMIT) if message.member_count > 0 else ((), 0)
    log = f"{facts.LOG}: {one_line(message.log_name)}" if message.log_name else facts.LOG
    for title, rows in (
        (facts.FRAMES, facts.frames(message)),
        (facts.ALSO_SEEN, facts.also_seen(message)),
        (facts.SHARED, [f"{fact.label}: {fact.value}" for fact in facts.shared(message)[:10]]),
        (facts.MEMBERS, [*map(_member, named), *([f"and {more} more"] if more else [])]),
        (facts.STACK, newest(message.stack, 2800, 400)),
        (log, newest(facts.log_lines(message), 2800, 400)),
    ):
        if rows:
            yield title, rows


def _member(each: facts.Fact) -> str:
    return f"{each.label}{f': {each.value}' if each.value else ''}{f'  {each.link}' if each.link else ''}"
