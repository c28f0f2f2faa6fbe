"""The text of ``_error`` and ``_complete``: an exception, or a message from training."""

import traceback
from typing import TYPE_CHECKING, Final

from lastbeat.training.sdk.timed_calls import call_with_timeout
from lastbeat.training.sdk.values import as_text, plain_str, safe_to_read, type_name, value_label

if TYPE_CHECKING:
    from types import TracebackType

TEXT_LIMIT = 200_000
"""Most characters of a sentinel."""
_LIMIT_S: Final = 3.0
"""Time limit for formatting an exception. Its text may ask a node that has died, and its traceback reads source code
from a file system that may hang."""
_FRAMES: Final = 200


def error_text(error: object) -> str:
    """The message, then the traceback with chained causes. Never raises; takes at most ``_LIMIT_S``."""
    if issubclass(type(error), str):
        return _truncated(plain_str(error))
    return call_with_timeout(lambda: _formatted(error), _LIMIT_S, "") or _without_text(error)


def short_text(value: object) -> str:
    """``value`` as short text. Never raises; takes at most ``_LIMIT_S``."""
    text = as_text(value) if safe_to_read(value) else call_with_timeout(lambda: as_text(value), _LIMIT_S, None)
    return value_label(value) if text is None else text


def _formatted(error: object) -> str:
    if not isinstance(error, BaseException):
        return f"{type_name(error)}: {as_text(error)}"
    message = "".join(traceback.format_exception_only(type(error), error)).rstrip()
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    # People read the first line. A SyntaxError's message begins with source code, which is indented.
    first = next((line for line in message.splitlines() if line and not line[0].isspace()), type_name(error))
    return _truncated(f"{first[: TEXT_LIMIT // 4]}\n\n{trace}")


def _without_text(error: object) -> str:
    """The type of an exception that cannot be formatted, and where it was raised."""
    lines = [f"{type_name(error)} (its text could not be read)"]
    if issubclass(type(error), BaseException):
        trace: TracebackType | None = BaseException.__dict__["__traceback__"].__get__(error)
        places = []
        while trace is not None:
            code = trace.tb_frame.f_code
            places.append(f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}')
            trace = trace.tb_next
        lines += ["", "Traceback (most recent call last):", *places[-_FRAMES:]]
    return _truncated("\n".join(lines))


def _truncated(whole_text: str) -> str:
    """The two ends of a text that is too long: the message is at the start, the raising frame at the end."""
    if len(whole_text) <= TEXT_LIMIT:
        return whole_text
    half = TEXT_LIMIT // 2
    return f"{whole_text[:half]}\n… {len(whole_text) - 2 * half} characters left out …\n{whole_text[-half:]}"
