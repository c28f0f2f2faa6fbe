"""The fingerprint of a cause: the same for the same mistake on another rank, host or day, another for another mistake.

It is made of the error type, the signal, the letters of the evidence line without what changes from run to run
(prefixes, times, numbers with their units, hosts, paths, addresses, ids), and of the innermost frame that people are
shown: its file without folders, its function, and the beginning of its code. Line numbers move with every edit.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Final

from lastbeat.model.cause import NO_FILES, Cause
from lastbeat.scanning.prefixes import origin
from lastbeat.signals.error_types import traits_of

LENGTH: Final = 12
"""Hexadecimal digits: enough for one pair of a million causes to fall together once in hundreds of fleets."""
_FORM: Final = "1"
"""Goes into each: one that is made otherwise is another."""
_TEMPLATE_LIMIT: Final = 200
_CODE: Final = 30
"""Characters of a frame's code: what people are shown of a long one is cut where its path was long."""
_NO_LETTERS: Final = re.compile(r"[\W\d_]+")
"""Letters are those of any script."""
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
"""A word with so many numbers in it names an instance, an address or a job."""
_PASSING: Final = re.compile(r"(?:tmp|pymp-)[\w-]{4,}", re.ASCII)
_SUFFIX: Final = re.compile(r"\.[A-Za-z]\w{0,7}$", re.ASCII)
_FRAME: Final = re.compile(
    r"(?P<file>[^:]{0,160}(?::[^:\d][^:]{0,80}){0,2}):\d{1,9}(?: in (?P<function>[^:]*))?(?P<code>: .*)?"
)


def fingerprint_of(cause: Cause) -> str:
    """:data:`LENGTH` hexadecimal digits; empty where nothing is known but an exit status, or the class of an exception
    without a message and a frame, which many mistakes share."""
    if cause.evidence.file in NO_FILES and traits_of(cause.error_type).says_nothing:
        return ""
    said, raised = _said(cause.evidence.text, cause.evidence.host), _frame(cause)
    if not raised and (not said or (len(said) == 1 and _CLASS.fullmatch(said[0]))):
        return ""
    parts = "\0".join((_FORM, cause.error_type, cause.signal, _joined(said), raised))
    return hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()[:LENGTH]


def _joined(said: list[str]) -> str:
    return "".join(said)[:_TEMPLATE_LIMIT]


def _said(line: str, host: str | None) -> list[str]:
    """The letters that say what went wrong, of each word that has some, as far as there is room for them. ``host``: a
    name that counts for nothing in it. Linear in the length of ``line``, which may be hostile."""
    came_from = origin(line)
    hosts = {name.lower() for name in (host, came_from.host) if name}
    text = _DATE.sub("", line[came_from.begin :])
    said: list[str] = []
    room = _TEMPLATE_LIMIT
    for word in _words(text, hosts):
        letters = _NO_LETTERS.sub("", word)
        if letters:
            said.append(letters)
            room -= len(letters)
        if room <= 0:
            break
    return said


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
    """What of a word is the same in another run."""
    if "://" in word:
        return ""
    if _is_path(word):
        # What kind of file it is says more of the mistake than where it lies.
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
    """File, function and code of the innermost frame: the program's own where there is one."""
    found = _FRAME.match(cause.frames[0]) if cause.frames else None
    if found is None:
        return ""
    file = found["file"].replace("\\", "/").rsplit("/", 1)[-1]
    code = (found["code"] or "")[:_CODE]
    return "\0".join(_NO_LETTERS.sub("", part) for part in (file, found["function"] or "", code))
