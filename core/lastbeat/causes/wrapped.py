"""Lines that a collector of logs has wrapped into JSON: what the program itself printed."""

import json
from typing import Final

from lastbeat.causes.contexts import level_of
from lastbeat.model.pattern import Pattern
from lastbeat.scanning.splitting import Line, line_of

_NAMES: Final = ("log", "message", "@message", "msg", "MESSAGE", "text", "event")
_LEVELS: Final = ("level", "severity", "levelname", "lvl", "log_level", "priority", "PRIORITY")
_TEXT: Final = Pattern(r"\"(?:log|@?message|msg|MESSAGE|text|event)\"\s{0,3}:\s{0,3}\"")
_ANSI: Final = Pattern(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")


def unwrapped(line: Line) -> Line:
    """The line as it was before: with the raw text kept as evidence, and the time of the wrapping where the text
    names none.

    A level that the wrapping states is put before what was said, which it may qualify.
    """
    text = line.text.strip()
    if not text.startswith("{") or not text.endswith("}") or _TEXT.search(text) is None:
        return line
    try:
        wrapping = json.loads(text)
    except (ValueError, RecursionError):
        return line
    if not isinstance(wrapping, dict):
        return line
    texts = {name: value.rstrip("\r\n") for name, value in wrapping.items() if isinstance(value, str)}
    said = next((texts.pop(name) for name in _NAMES if name in texts), None)
    if said is None or "\n" in said or any("\n" in text or "Error" in text for text in texts.values()):
        # A logger's own document, with an exception somewhere in it: it is searched as it stands.
        return line
    # A program's carriage returns overwrite; what they left is the last.
    own = line_of(line.number, _ANSI.sub("", said).rsplit("\r", 1)[-1])
    level = next((texts[name] for name in _LEVELS if name in texts), "")
    if level and level_of(own.text) is None:
        own = own._replace(text=f"{_level(level)}: {own.text}")
    rank = own.rank if own.rank is not None else line.rank
    return own._replace(raw=line.raw, rank=rank, host=own.host or line.host, time=line.time or own.time)


def _level(word: str) -> str:
    begin = word[:4].lower()
    return "ERROR" if begin in {"erro", "fata", "crit", "aler", "emer"} else "WARNING" if begin == "warn" else "INFO"
