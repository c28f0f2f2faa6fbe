"""The text of ``_error``: what ended a training, in its own words."""

import traceback
from typing import TYPE_CHECKING, Final

from lastbeat.sdk.aside import once
from lastbeat.sdk.values import at_hand, plain_text, shown, text, type_name

if TYPE_CHECKING:
    from types import TracebackType

TEXT_LIMIT = 200_000
"""Characters of a sentinel, at most."""
_LIMIT_S: Final = 3.0
"""How long an exception may take to say what it is: it may ask a node that has died, or read source code from a file
system that hangs."""
_FRAMES: Final = 200


def describe(error: object) -> str:
    """The message in the first line, then the trace with chained causes. Never raises, and soon comes to an end."""
    if issubclass(type(error), str):
        return _bounded(plain_text(error))
    return once(lambda: _described(error), _LIMIT_S, "") or _bare(error)


def described_shortly(value: object) -> str:
    """What ``value`` says, in a few words. Never raises, and soon comes to an end."""
    said = text(value) if at_hand(value) else once(lambda: text(value), _LIMIT_S, None)
    return shown(value) if said is None else said


def _described(error: object) -> str:
    if not isinstance(error, BaseException):
        return f"{type_name(error)}: {text(error)}"
    message = "".join(traceback.format_exception_only(type(error), error)).rstrip()
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    # The first line of _error is what people read. A SyntaxError's message begins with the source, which is indented.
    first = next((line for line in message.splitlines() if line and not line[0].isspace()), type_name(error))
    return _bounded(f"{first[: TEXT_LIMIT // 4]}\n\n{trace}")


def _bare(error: object) -> str:
    """Without a word of its own: what it is and where it was raised."""
    told = [f"{type_name(error)} (its text could not be had)"]
    if issubclass(type(error), BaseException):
        trace: TracebackType | None = BaseException.__dict__["__traceback__"].__get__(error)
        places = []
        while trace is not None:
            code = trace.tb_frame.f_code
            places.append(f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}')
            trace = trace.tb_next
        told += ["", "Traceback (most recent call last):", *places[-_FRAMES:]]
    return _bounded("\n".join(told))


def _bounded(whole_text: str) -> str:
    """Both ends of a text that is too long: the message stands first, what raised stands last."""
    if len(whole_text) <= TEXT_LIMIT:
        return whole_text
    half = TEXT_LIMIT // 2
    return f"{whole_text[:half]}\n… {len(whole_text) - 2 * half} characters left out …\n{whole_text[-half:]}"
