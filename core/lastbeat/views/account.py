"""How a run failed, each line of it once: evidence, ``_error`` and the end of the log often say the same. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lastbeat.model import runid
from lastbeat.model.cause import EXIT_STATUS
from lastbeat.model.status import Status
from lastbeat.model.text import one_line
from lastbeat.model.view import Excerpt, RunView
from lastbeat.views.safe import LINE_LIMIT

BEFORE: Final = 12
AFTER: Final = 8
BEFORE_IN_TRACEBACK: Final = 32
LAST_LINES: Final = 12
"""Lines from the end of a text without a marked line: the innermost frames and the exception."""
_BEGINS: Final = "Traceback (most recent call last)"
_FRAME: Final = re.compile(r'\s*File "')
_PREFIX: Final = re.compile(r"^(?:\[[a-z]{1,20}\d{1,6}\]:|\d{1,5}:)\s?")
_KEPT_CHARS: Final = 200
_SHORT_CHARS: Final = 3
_MOST_TOLD: Final = 0.6
"""A log in which so many of the lines of ``_error`` stand tells what it tells."""
_MOST_PARTS: Final = 4
"""A log with scattered evidence is shown as it is."""
_IN_ERROR: Final = frozenset({runid.ERROR, EXIT_STATUS})
"""What `_error` has as well."""
_ABOVE: Final = "lines that are shown above are left out"


@dataclass(frozen=True, slots=True)
class Account:
    """What shows how a run failed, and the end of its log as far as that is not among it."""

    excerpts: tuple[Excerpt, ...] = ()
    log: tuple[Excerpt, ...] = ()


def account(view: RunView) -> Account:
    """The account of a run that failed, or whose cause is known; of any other the end of its log alone."""
    shown, tail = view.evidence, view.log
    error = _of_error(view.error_text) if view.row.status is Status.FAILED else None
    said = _telling_line(view)
    if shown is not None and shown.file in _IN_ERROR and error is not None:
        shown = None
    if shown is not None and tail is not None and (whole := _merged(shown, tail)) is not None:
        shown, tail = whole, None
    if shown is None and error is not None and tail is not None and _tells(tail, error):
        shown, tail = _marked(tail, said), None
    if error is not None:
        error = _rest(error, shown) if shown is not None else _marked(_once(error), said)
    excerpts = tuple(each for each in (shown, error) if each is not None and (each.lines or each.note))
    return Account(excerpts, tuple(_unshown_parts(tail, excerpts)) if tail is not None else ())


def trimmed(excerpt: Excerpt, around: tuple[int, int] | None = None) -> tuple[Excerpt, tuple[Excerpt, ...]]:
    """What of an excerpt has to be read, and the rest of it: a traceback to its end and the lines around it, or so many
    lines before and after the one that is marked; of what has no marked line the last ones."""
    if excerpt.marked is None:
        start, end = max(0, len(excerpt.lines) - LAST_LINES), len(excerpt.lines)
    elif around is not None:
        start, end = max(0, excerpt.marked - around[0]), excerpt.marked + around[1] + 1
    else:
        start, end = _traceback(excerpt.lines, excerpt.marked), excerpt.marked + AFTER + 1
    rest = (_part(excerpt, 0, start), _part(excerpt, end, len(excerpt.lines)))
    return _part(excerpt, start, end), tuple(each for each in rest if each.lines)


def _traceback(lines: Sequence[str], marked: int) -> int:
    """Where the traceback that ends in line ``marked`` begins; a few lines before that one where it ends none."""
    near = range(marked - 1, max(0, marked - BEFORE_IN_TRACEBACK) - 1, -1)
    if any(_FRAME.match(_unprefixed(lines[index])) for index in near[:4]):
        for index in near:
            if _BEGINS in lines[index]:
                return index
    return max(0, marked - BEFORE)


def _of_error(text: str | None) -> Excerpt | None:
    if not text or not text.strip():
        return None
    return Excerpt(runid.ERROR, tuple(line.rstrip() for line in text.rstrip().split("\n")), 1)


def _telling_line(view: RunView) -> str:
    """The line that shows why, as far as it is known."""
    if view.explained is not None:
        return _bare(view.explained.cause.evidence.text.removesuffix("…"))
    return _bare(view.row.reason.removesuffix("…"))


def _bare(line: str) -> str:
    """A line without what a launcher puts before it, and not longer than what two excerpts of it have in common."""
    return one_line(_unprefixed(line)).strip()[:_KEPT_CHARS]


def _unprefixed(line: str) -> str:
    return _PREFIX.sub("", line)


def _bares(lines: Sequence[str]) -> list[str]:
    return [_bare(line) for line in lines]


def _merged(shown: Excerpt, tail: Excerpt) -> Excerpt | None:
    """Both as one, where they are of one file and meet."""
    if shown.file != tail.file or not shown.lines or not tail.lines or shown.marked is None:
        return None
    if shown.first_line is not None and tail.first_line is not None:
        ahead = tail.first_line - shown.first_line
    else:
        found = _meeting(shown.lines, tail.lines)
        if found is None:
            return None
        ahead = found
    if not -len(tail.lines) <= ahead <= len(shown.lines):
        return None
    start = min(0, ahead)
    length = max(len(shown.lines), ahead + len(tail.lines)) - start
    lines = [""] * length
    lines[-start : len(shown.lines) - start] = shown.lines
    lines[ahead - start : ahead - start + len(tail.lines)] = tail.lines
    known = shown.first_line if shown.first_line is not None else None
    first = known + start if known is not None else tail.first_line if ahead <= 0 else None
    return replace(tail, lines=tuple(lines), first_line=first, marked=shown.marked - start)


def _meeting(shown: Sequence[str], tail: Sequence[str]) -> int | None:
    """How many lines of ``shown`` stand before the first of ``tail``; less than none: it begins in the midst of it."""
    for index in range(len(tail)):
        if tuple(tail[index : index + len(shown)]) == tuple(shown[: len(tail) - index]):
            return -index
    for index in range(1, len(shown)):
        if tuple(shown[index:]) == tuple(tail[: len(shown) - index]):
            return index
    return None


def _tells(tail: Excerpt, error: Excerpt) -> bool:
    """Whether most of ``error`` stands in ``tail``, the exception among it."""
    has = _bares(tail.lines)
    wanted = [line for line in _bares(error.lines) if len(line) >= _SHORT_CHARS]
    told = [any(line in each for each in has) for line in wanted]
    return bool(told) and told[-1] and sum(told) >= _MOST_TOLD * len(told)


def _marked(excerpt: Excerpt, said: str) -> Excerpt:
    """The last line of it that says why."""
    if not said:
        return excerpt
    has = _bares(excerpt.lines)
    index = next((index for index in range(len(has) - 1, -1, -1) if has[index] and _same(has[index], said)), None)
    return excerpt if index is None else replace(excerpt, marked=index)


def _same(line: str, said: str) -> bool:
    return said in line or (len(line) >= 4 * _SHORT_CHARS and line in said)


def _once(error: Excerpt) -> Excerpt:
    """Without its first line, where a traceback ends in the same."""
    has = _bares(error.lines)
    if len(has) > 1 and has[0] and any(_same(line, has[0]) for line in has[1:] if line):
        start = next((index for index in range(1, len(has)) if has[index]), 1)
        return _part(error, start, len(error.lines))
    return error


def _rest(error: Excerpt, shown: Excerpt) -> Excerpt | None:
    """What ``_error`` says and ``shown`` does not."""
    has = _bares(shown.lines)
    # Excerpts of logs have the beginning of such a line.
    left = [
        line
        for line in error.lines
        if _bare(line) and (len(line) > LINE_LIMIT or not any(_bare(line) in each for each in has))
    ]
    if not left:
        return None
    whole = len(left) == len([line for line in error.lines if line.strip()])
    return error if whole else Excerpt(runid.ERROR, tuple(left), None, note=_ABOVE)


def _unshown_parts(tail: Excerpt, excerpts: Sequence[Excerpt]) -> Iterator[Excerpt]:
    """The end of a log without the lines of the failure that another file tells as well."""
    told = {_bare(line) for each in excerpts for line in _story(each)}
    left: list[list[int]] = []
    last_told = True
    for index, line in enumerate(_bares(tail.lines)):
        if not line or line in told:
            last_told = last_told or bool(line)
            continue
        if last_told:
            left.append([index, index + 1])
        left[-1][1], last_told = index + 1, False
    kept = sum(end - start for start, end in left)
    if kept == len(tail.lines) or len(left) > _MOST_PARTS:
        yield tail
        return
    for number, (start, end) in enumerate(left):
        note = _ABOVE if number == 0 and len(left) > 1 else tail.note or _ABOVE
        yield replace(_part(tail, start, end), note=note)


def _story(excerpt: Excerpt) -> Sequence[str]:
    """The lines of a failure itself."""
    return trimmed(excerpt)[0].lines


def _part(excerpt: Excerpt, start: int, end: int) -> Excerpt:
    marked = excerpt.marked - start if excerpt.marked is not None and start <= excerpt.marked < end else None
    first = excerpt.first_line + start if excerpt.first_line is not None else None
    return replace(excerpt, lines=excerpt.lines[start:end], first_line=first, marked=marked)
