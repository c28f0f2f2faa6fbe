"""Message → Slack's Block Kit, within Slack's limits, and safe for any input.

Text from training is put into code spans, code blocks or ``plain_text`` objects, where Slack formats nothing. ``& < >``
are escaped, and no mention, ping or link works without them. Backticks, which would end a code span, become a
look-alike. ``verbatim`` keeps Slack from finding links and names on its own.

Limits, by Slack's documentation: 50 blocks; 150 characters in a header; 3,000 in a section; ten fields of
2,000; ten elements of a context. They are counted after escaping, in UTF-16 units, the most cautious way.
"""

import re
from typing import Any
from urllib.parse import quote, urlsplit

from lastbeat.alerts import facts
from lastbeat.alerts import first_lines as first
from lastbeat.model.alert import NAMES_LIMIT, MentionedPerson, Message
from lastbeat.model.status import Status
from lastbeat.model.text import fit, newest, one_line
from lastbeat.model.version import __version__

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_BELLS = re.compile(r"@(?=(?:all|channel|everyone|group|here)\b)", re.IGNORECASE)
_TICK = "\u02cb"  # Looks like a backtick but is not.
_ROWS = 10
_LINKED_ROWS = 5
"""Most rows of a section whose rows have links."""
_LINK_CHARS = 300
"""Most characters of a row's link; a longer one is left out."""
_MENTION = re.compile(r"<(?:@[UW][A-Z0-9]{2,30}|!subteam\^S[A-Z0-9]{2,30}|!here|!channel|!everyone)>", re.ASCII)

Block = dict[str, Any]


def payload(message: Message) -> Block:
    """The JSON document of an Incoming Webhook. Pure.

    The link is in text, not in a button: Slack shows a warning beside a clicked button unless the app has a server that
    accepts clicks.
    """
    blocks = (
        *_first_blocks(message),
        {"type": "context", "elements": [_mrkdwn("In detail")]},
        _words(facts.similar(message)),
        *(_words(f"{fact.label}: {fact.value}") for fact in first.continued(message)),
        _evidence(message),
        _lines(facts.FRAMES, facts.frames(message)),
        _listed(facts.ALSO_SEEN, [_code(line, 400) for line in facts.also_seen(message)]),
        {"type": "section", "fields": [_field(fact) for fact in facts.facts(message)][:10]},
        _listed("Conditions", _pairs(facts.conditions(message))),
        _listed(facts.SHARED, _pairs(facts.shared(message))),
        *_members(message),
        _lines(facts.STACK, message.stack),
        _lines(facts.LOG, facts.log_lines(message), message.log_name),
        _section(f"*Files* {_code(message.where, 700)}" if message.where.strip() else ""),
        _context(message),
    )
    return {
        "text": _fallback(message),
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [block for block in blocks if block is not None],
    }


def head(message: Message, *, buttons: bool = False) -> Block:
    """The head of a thread, with the current state in brief. The alerts are replies below it. ``buttons``: with what
    people can do about a run, for an app whose clicks are answered. Pure."""
    known = [fact for fact in facts.facts(message) if fact.label in {"Step", "Attempt"}]
    as_of = f"As of {escape(facts.moment(message.at), 100)} · the alerts are in this thread"
    blocks = (
        *_first_blocks(message),
        {"type": "section", "fields": [_field(fact) for fact in known]} if known else None,
        {"type": "context", "elements": [_mrkdwn(as_of)]},
        _buttons(message) if buttons and message.member_count <= 0 else None,
    )
    return {**payload(message), "blocks": [block for block in blocks if block is not None]}


def _buttons(message: Message) -> Block:
    """What people can do about the run. Each button names the attempt and the status that it was shown for."""
    value = f"{message.run_id} {message.attempt} {message.status.value}"
    lives = message.status in {Status.RUNNING, Status.TIMED_OUT}
    offered = {
        "ack": (message.severity != "info", "Acknowledge", ""),
        "silence": (True, "Silence 4 h", ""),
        "restart": (
            message.restart is not None,
            "Restart",
            "A job that still runs is ended. The next one starts from the last complete checkpoint.",
        ),
        "stop": (lives, "Stop", "It ends as by Ctrl-C, and becomes CANCELLED. No restart policy undoes that."),
        "show": (True, "Show cause", ""),
    }
    return {
        "type": "actions",
        "elements": [
            {
                "type": "button",
                "action_id": f"lastbeat-{name}",
                "text": _plain(label, 75),
                "value": value,
                **({"confirm": _confirm(f"{label} {message.run_id}?", what)} if what else {}),
            }
            for name, (may, label, what) in offered.items()
            if may
        ],
    }


def _confirm(title: str, what: str) -> Block:
    return {
        "title": _plain(title, 100),
        "text": _plain(what, 300),
        "confirm": _plain("Yes", 30),
        "deny": _plain("No", 30),
    }


def _first_blocks(message: Message) -> list[Block | None]:
    """The first lines of an alert, which a phone shows."""
    began = " · ".join(filter(None, (first.since(message), first.named_cause(message))))
    restart = [
        f"*{fact.label}* {_code(fact.value, 160)}" for fact in first.first_facts(message) if fact.label == first.RESTART
    ]
    more = [f"`{escape(typed.replace('`', _TICK), 700)}`" for typed in [first.command(message)] if typed]
    address = _address(message.link)
    if address is not None:
        more.append(f"🔗 <{address}|Open in the browser>")
    text = "\n".join([*_whose(message), *restart, *more])
    return [
        {"type": "header", "text": _plain(facts.headline(message), 150)},
        _words("\n".join(filter(None, (first.sentence(message), began)))),
        _words(facts.ACTION + first.action(message) if first.action(message) else ""),
        _words(first.place(message)),
        _section(text),
    ]


def cost(char: str) -> int:
    """Length of one character as Slack counts it: after escaping, in UTF-16 units."""
    if char in "&<>":
        return 5 if char == "&" else 4
    return 2 if ord(char) > 0xFFFF else 1


def escape(text: str, limit: int) -> str:
    """``text`` cut to ``limit`` as :func:`cost` counts, and escaped. No entity is ever cut."""
    return fit(text, limit, cost).translate(_ENTITIES)


def _code(text: str, limit: int) -> str:
    """``text`` as one line in a code span of at most ``limit`` + 2 characters; a dash if it is empty."""
    return f"`{escape(one_line(text).replace('`', _TICK), limit) or '-'}`"


def _plain(text: str, limit: int) -> Block:
    # With emoji on, ":skull:" in an error would become an emoji.
    return {"type": "plain_text", "text": escape(text, limit), "emoji": False}


def _mrkdwn(text: str) -> Block:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _words(text: str) -> Block | None:
    return {"type": "section", "text": _plain(text, 2000)} if text else None


def _field(fact: facts.Fact) -> Block:
    value = escape(fact.value, 200) if fact.ours else _code(fact.value, 200)
    return _mrkdwn(f"*{fact.label}*\n{value}")


def _whose(message: Message) -> list[str]:
    """The owner from training, and the people that routes mention. Only text from a route may be a mention."""
    owner = facts.whose(message.owner, message.team)
    parts = [f"*{facts.OWNER}* {_code(owner, 250)}"] if owner else []
    if message.mentions:
        parts.append(f"*{facts.FOR}* {' '.join(map(_mention, message.mentions[:10]))}")
    return [" · ".join(parts)] if parts else []


def _mention(person: MentionedPerson) -> str:
    # The text may come from any program with write access to the store.
    trusted = person.slack is not None and _MENTION.fullmatch(person.slack)
    return str(person.slack) if trusted else _code(person.name, 100)


def _pairs(known: tuple[facts.Fact, ...]) -> list[str]:
    rows = [f"{_code(fact.label, 60)} {_code(fact.value, 200)}" for fact in known[:9]]
    return [*rows, f"and {len(known) - len(rows)} more"] if len(known) > len(rows) else rows


def _listed(title: str, rows: list[str]) -> Block | None:
    return _section(f"*{title}*\n" + "\n".join(f"• {row}" for row in rows)) if rows else None


def _section(text: str) -> Block | None:
    return {"type": "section", "text": _mrkdwn(text)} if text else None


def _evidence(message: Message) -> Block | None:
    shows = facts.evidence(message)
    if shows is None:
        return None
    said = escape(shows.value.replace("`", _TICK), 1500)
    text = f"\n```\n{said}\n```" if said else ""
    return _section(f"*{facts.EVIDENCE}* {_code(shows.label, 500)}{text}")


def _members(message: Message) -> list[Block | None]:
    """At most eleven sections. One holds at most ten of the longest rows, or five with links."""
    if message.member_count <= 0:
        return []
    named, more = facts.members(message, NAMES_LIMIT)
    rows = [*map(_member, named), *([f"• and {more} more"] if more else [])]
    most = _LINKED_ROWS if message.member_links else _ROWS
    blocks = ["\n".join(rows[start : start + most]) for start in range(0, len(rows), most)]
    return [_section(block if index else f"*{facts.MEMBERS}*\n{block}") for index, block in enumerate(blocks)]


def _member(each: facts.Fact) -> str:
    note, address = f" {_code(each.value, 60)}" if each.value else "", _address(each.link)
    link = f" <{address}|open>" if address is not None and len(address) <= _LINK_CHARS else ""
    return f"• {_code(each.label, 200)}{note}{link}"


def _lines(title: str, lines: tuple[str, ...], file: str = "") -> Block | None:
    safe = tuple(line.replace("`", _TICK) for line in lines)
    shown = newest(safe, 2800, 400, cost)
    if not shown:
        return None
    body = "\n".join(shown).translate(_ENTITIES)
    of = f" {_code(file, 100)}" if file else ""
    # Slack collapses long sections.
    return _section(f"*{title}*{of}\n```\n{body}\n```")


def _address(link: str | None) -> str | None:
    """``link`` quoted for a Slack link, which ``< > |`` would end; None if it is no web address."""
    if link is None or len(link) > 2000:
        return None
    try:
        parts = urlsplit(link)
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    address = quote(link, safe="%/:?#[]@!$&'()*+,;=~", errors="replace").translate(_ENTITIES)
    return address if len(address) <= 2000 else None


def _context(message: Message) -> Block:
    names = [] if message.member_count > 0 else [f"Run {_code(message.run_id, 200)}"]
    if message.key:
        names.append(f"alert {_code(message.key, 300)}")
    names.append(f"lastbeat {__version__}")
    notes = [text for text in map(one_line, message.notes) if text]
    if len(notes) > 9:
        notes = [*notes[:8], f"and {len(notes) - 8} more notes"]
    return {
        "type": "context",
        "elements": [*(_plain(f"Note: {note}", 500) for note in notes), _mrkdwn(" · ".join(names))],
    }


def _fallback(message: Message) -> str:
    """One paragraph for notifications, screen readers and clients without blocks."""
    sentences = [facts.headline(message), first.sentence(message)]
    if message.cause:
        sentences.append(first.named_cause(message))
    if first.action(message):
        sentences.append(f"Action required: {one_line(first.action(message))}")
    if message.where:
        sentences.append(f"Files: {one_line(message.where)}")
    cut = (fit(sentence, 600, cost).rstrip(".") for sentence in sentences if sentence)
    # Slack-compatible servers show only this text, and some notify all members on a bare "@here".
    return escape(_BELLS.sub("@\u2060", ". ".join(cut)), 3000)
