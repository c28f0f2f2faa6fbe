"""The fingerprint of a cause: equal for the same mistake on another rank, host or day, different for another mistake.

It consists of the error type, the signal, the lasting letters of the evidence line, and the innermost frame that users
see. Parts that change from run to run are left out: prefixes, times, numbers with units, hosts, paths, addresses, ids.
Of the frame it takes the file without folders, the function, and the beginning of the code. Line numbers are left out,
because they move with every edit.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Final

from lastbeat.explain.scanning.prefixes import origin
from lastbeat.explain.signals.error_types import traits_of
from lastbeat.model.cause import NO_FILES, Cause

LENGTH: Final = 12
"""Hexadecimal digits. With this many, one pair of a million causes collides once in hundreds of fleets."""
_FORM: Final = "1"
"""Version of the method, which is part of each fingerprint."""
_TEMPLATE_LIMIT: Final = 200
"""Most letters of the evidence line that count."""
_CODE: Final = 30
"""Characters of a frame's code that count. How much code is shown depends on the length of its path."""
_NO_LETTERS: Final = re.compile(r"[\W\d_]+")
"""Anything but letters of any script."""
_CLASS: Final = re.compile(r"\S{0,200}(?:Error|Exception|Interrupt|Exit|Iteration|Warning|Timeout|Failure|Fault)")
_BETWEEN: Final = re.compile(r"[\s'\"`()\[\]{},;<>|=…]+")
_DATE: Final = re.compile(
    r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (?=[A-Z\d])|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6} "
    r"(?=[ \d]\d)|(?<=\d) ?[AP]M\b"
)
_UNITS: Final = r"(?i:[kmgtp]?i?b(?:/s|it/s)?|bytes?|[mun]?s|secs?|seconds?|min(?:ute)?s?|h|hours?|d|days?|%|x|it/s)"
_NUMBER: Final = re.compile(rf"[-+~#$]?\d[\d.,_:/+-]{{0,60}}(?:e[-+]?\d{{1,6}})?{_UNITS}?", re.ASCII)
_UNIT: Final = re.compile(_UNITS, re.ASCII)
_ADDRESS: Final = re.compile(r"0[xX][0-9a-fA-F]{1,32}")
_HEXADECIMAL: Final = re.compile(r"(?=[a-f\d-]*\d)[a-f\d]{4,}(?:-[a-f\d]{2,}){0,8}", re.ASCII | re.IGNORECASE)
_DIGITS: Final = re.compile(r"\d+", re.ASCII)
_ID_PARTS: Final = 3
"""A word with at least this many numbers names an instance, an address or a job."""
_PASSING: Final = re.compile(r"(?:tmp|pymp-)[\w-]{4,}", re.ASCII)
_SUFFIX: Final = re.compile(r"\.[A-Za-z]\w{0,7}$", re.ASCII)
_FRAME: Final = re.compile(
    r"(?P<file>[^:]{0,160}(?::[^:\d][^:]{0,80}){0,2}):\d{1,9}(?: in (?P<function>[^:]*))?(?P<code>: .*)?"
)


def fingerprint_of(cause: Cause) -> str:
    """:data:`LENGTH` hexadecimal digits. Empty if only an exit status is known, or only the class of an exception
    without message and frame, which many mistakes share."""
    if cause.evidence.file in NO_FILES and traits_of(cause.error_type).says_nothing:
        return ""
    words, raised = _lasting_words(cause.evidence.text, cause.evidence.host), _frame(cause)
    if not raised and (not words or (len(words) == 1 and _CLASS.fullmatch(words[0]))):
        return ""
    parts = "\0".join((_FORM, cause.error_type, cause.signal, _joined(words), raised))
    return hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()[:LENGTH]


def _joined(words: list[str]) -> str:
    return "".join(words)[:_TEMPLATE_LIMIT]


def _lasting_words(line: str, host: str | None) -> list[str]:
    """The lasting letters of each word in ``line``, up to ``_TEMPLATE_LIMIT`` in all. The name ``host`` is left out.
    Linear in the length of ``line``, which may be hostile."""
    came_from = origin(line)
    hosts = {name.lower() for name in (host, came_from.host) if name}
    text = _DATE.sub("", line[came_from.begin :])
    found: list[str] = []
    room = _TEMPLATE_LIMIT
    for word in _words(text, hosts):
        letters = _NO_LETTERS.sub("", word)
        if letters:
            found.append(letters)
            room -= len(letters)
        if room <= 0:
            break
    return found


def _words(text: str, hosts: set[str]) -> Iterator[str]:
    after_number = False
    for token in _BETWEEN.split(text):
        word = token.strip(".:!?-")
        if not word:
            continue
        number = _NUMBER.fullmatch(word) is not None
        unit = after_number and _UNIT.fullmatch(word) is not None
        after_number = number
        if not number and not unit:
            yield _lasting(word, hosts)


def _lasting(word: str, hosts: set[str]) -> str:
    """The part of a word that stays the same in another run."""
    if "://" in word:
        return ""
    if _is_path(word):
        # The kind of the file identifies the mistake better than its folder.
        suffix = _SUFFIX.search(word)
        return suffix[0] if suffix is not None else ""
    if word.lower() in hosts or word.split(".", 1)[0].lower() in hosts or word.split(":", 1)[0].lower() in hosts:
        return ""
    word = _ADDRESS.sub("", word)
    if _HEXADECIMAL.fullmatch(word) or _PASSING.fullmatch(word) or len(_DIGITS.findall(word)) >= _ID_PARTS:
        return ""
    return word


def _is_path(word: str) -> bool:
    slashes = word.count("/") + word.count("\\")
    if slashes == 0:
        return False
    return slashes > 1 or word[0] in "/~.\\" or "." in word.replace("\\", "/").rsplit("/", 1)[-1]


def _frame(cause: Cause) -> str:
    """File, function and code of the innermost frame, which is the program's own if there is one."""
    found = _FRAME.match(cause.frames[0]) if cause.frames else None
    if found is None:
        return ""
    file = found["file"].replace("\\", "/").rsplit("/", 1)[-1]
    code = (found["code"] or "")[:_CODE]
    return "\0".join(_NO_LETTERS.sub("", part) for part in (file, found["function"] or "", code))
