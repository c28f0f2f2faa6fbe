"""Reads what training passes, as numbers and text: Python's values, numpy's, tensors of any device, exceptions.

Reading a value may run training's code (``__float__``, ``__str__``, …), which may hang, or raise anything, even
SystemExit. So no function here raises. A thread that must not hang reads only values that are :func:`safe_to_read`; the
rest goes through :class:`ValueReader` or ``timed_calls``. For a subclass of ``int``, ``float`` or ``str``, the value
that C code sees counts, even if its methods return another.
"""

import math
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from lastbeat.model.json_values import json_number
from lastbeat.model.json_values import number as number_of
from lastbeat.stores.timed_calls import CallThread, call_with_timeout

if TYPE_CHECKING:
    from types import TracebackType

    from lastbeat.training.sdk.safe_log import WarnOnce

LIMIT_CHARS = 200
_LARGEST: Final = 2**64
"""Bound of whole numbers. Larger ones count nothing real, and JSON readers disagree about them."""
_MOST_PROCESSES: Final = 10**9
_DIGITS: Final = 21
_SHOWN_CHARS: Final = 60
_HEAP_TYPE: Final = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: set in every class that is written in Python."""
_BYTES: Final = (bytes, bytearray, memoryview)


def safe_to_read(value: object) -> bool:
    """Whether reading ``value`` never waits and runs none of training's code."""
    kind = type(value)
    return value is None or issubclass(kind, (int, float, str, *_BYTES)) or _is_numpy(value)


def _is_numpy(value: object) -> bool:
    """Whether ``value`` is numpy's own scalar or array, of anything but objects."""
    kind = type(value)
    # The class as C sees it: a metaclass would be training's code.
    if type.__dict__["__flags__"].__get__(kind) & _HEAP_TYPE:
        return False
    if type.__dict__["__module__"].__get__(kind) != "numpy":
        return False
    try:
        numpy = sys.modules["numpy"]
        return issubclass(kind, (numpy.generic, numpy.ndarray)) and value.dtype.kind != "O"  # type: ignore[attr-defined]
    except (KeyError, AttributeError, TypeError):  # Something else has replaced the module.
        return False


def _plain(value: object) -> object:
    """An int, float or str as Python's own class, the str truncated; any other value unchanged."""
    kind = type(value)
    if issubclass(kind, int):
        return int.__int__(value)  # type: ignore[arg-type]
    if issubclass(kind, float):
        return float.__float__(value)  # type: ignore[arg-type]
    if issubclass(kind, str):
        return _start(value, LIMIT_CHARS)
    return value


def _start(value: Any, limit: int) -> str:
    return str.__getitem__(value, slice(0, limit))


def plain_str(value: Any) -> str:
    """An instance of any subclass of ``str`` as a plain ``str``."""
    return str.__str__(value)


def as_number(value: object) -> float | str | None:
    """``value`` as JSON can hold it; NaN and infinity become ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.

    Text that is a number counts as one. None if it is not a number. Never call this in the training thread, because it
    synchronises a tensor with its device.
    """
    if value is None or issubclass(type(value), (bool, *_BYTES)):
        return None
    try:
        plain = _plain(value)
        if isinstance(plain, (int, float, str)):
            return json_number(number_of(plain))
        item = getattr(plain, "item", None)
        plain = _plain(item() if callable(item) else plain)
        if plain is None or issubclass(type(plain), _BYTES):
            return None
        return json_number(number_of(plain) if isinstance(plain, str) else float(plain))  # type: ignore[arg-type]
    except BaseException:  # noqa: BLE001 - a tensor on a lost device, like any of training's code, may raise anything
        return None


def as_int(value: object) -> int | None:
    """``value`` as an int, truncated towards zero; None if it is not a number, or too large to count anything."""
    if value is None or issubclass(type(value), bool):
        return None
    try:
        plain = _plain(value)
        # Through a float it would lose digits beyond 2 ** 53.
        if _is_numpy(plain) and plain.dtype.kind in "iu":  # type: ignore[attr-defined]
            plain = plain.item()  # type: ignore[attr-defined]
        elif isinstance(plain, str) and plain.isascii() and plain.isdigit() and len(plain) < _DIGITS:
            plain = int(plain)
        found = plain if isinstance(plain, int) else as_number(plain)
        return int(found) if isinstance(found, (int, float)) and abs(found) < _LARGEST else None
    except BaseException:  # noqa: BLE001 - as above
        return None


def as_process_count(value: object) -> int | None:
    """``value`` as a rank or a world size; None outside 0 to 999,999,999."""
    found = as_int(value)
    return found if found is not None and 0 <= found < _MOST_PROCESSES else None


def immediate_int(value: object) -> int | None:
    """An int of any class, or a number of numpy's, as an int; None for anything else. Never waits, so it is safe in
    the training thread."""
    kind = type(value)
    if issubclass(kind, int):
        return None if kind is bool else int.__int__(value)  # type: ignore[arg-type]
    if not _is_numpy(value) or value.dtype.kind not in "iuf":  # type: ignore[attr-defined]
        return None
    try:
        return int(value.item())  # type: ignore[attr-defined]
    except (ValueError, OverflowError):  # An array of two, NaN or infinity.
        return None


def as_text(value: object) -> str | None:
    """``value`` as text of at most ``LIMIT_CHARS``, or None."""
    if value is None:
        return None
    try:
        # A bool is an int as well, and would become 1.
        return _start(str(value if value is True or value is False else _plain(value)), LIMIT_CHARS)
    except BaseException:  # noqa: BLE001 - as above
        return None


def as_bool(value: object) -> bool | None:
    """Whether ``value`` is true; None if it is None, or cannot be read."""
    if value is None:
        return None
    try:
        return bool(_plain(value))
    except BaseException:  # noqa: BLE001 - an array of two, for example
        return None


def as_seconds(value: object, default: float) -> float:
    """A time to wait, possibly infinite; ``default`` if ``value`` is not a number that is safe to read."""
    if not safe_to_read(value) or value is None:
        return default
    found = as_number(value)
    plain = number_of(found) if isinstance(found, str) else found
    return default if plain is None or math.isnan(plain) else plain


def type_name(value: object) -> str:
    """The name of the value's type, printable and short."""
    name = str.__str__(type.__dict__["__name__"].__get__(type(value)))[:_SHOWN_CHARS]
    return name if name.isprintable() else ascii(name)


def value_label(value: object) -> str:
    """``value`` for a log line: a number or short text with its type; for anything else only the type."""
    name = type_name(value)
    if not issubclass(type(value), (int, float, str)):
        return f"a value of type {name}"
    try:
        said = repr(value if value is True or value is False else _plain(value))
    except ValueError:  # Python refuses to print a number with thousands of digits.
        said = "a number of thousands of digits"
    return f"{said if len(said) <= _SHOWN_CHARS else said[:_SHOWN_CHARS] + '…'} (type {name})"


_READ_LIMIT_S: Final = 2.0
"""Time limit for the values of one read that may hang."""
ReadAs = Callable[[object], Any]
"""One of the ``as_…`` functions."""
_REASONS: dict[ReadAs, str] = {
    as_number: "is not a number",
    as_int: "is not a whole number",
    as_process_count: "is not a whole number from 0 to 999,999,999",
    as_text: "cannot be turned into text",
    as_bool: "is neither true nor false",
}


def read_within(value: object, read_as: ReadAs, limit_s: float) -> Any:
    """Read one value; None if it cannot be read within ``limit_s``. Safe in signal handlers."""
    return read_as(value) if safe_to_read(value) else call_with_timeout(lambda: read_as(value), limit_s, None)


class ValueReader:
    """Reads values from training. Values that may hang are read in another thread, with a time limit.

    Reading a tensor waits for everything that its device has queued before it. If a collective hangs, that wait never
    ends, and this is when heartbeats are needed most. At most one thread of this reader ever waits.
    """

    def __init__(self, limit_s: float = _READ_LIMIT_S, warnings: "WarnOnce | None" = None) -> None:
        self._limit_s = limit_s
        self._thread: CallThread[None] = CallThread("lastbeat-numbers")
        self._warnings = warnings

    def read(self, asked: Sequence[tuple[str, object, ReadAs]]) -> list[Any]:
        """Read each (name, value, function). The result is None for a value that cannot be read, or not in time.

        1. Values that are safe to read are read at once.
        2. The others are read in the other thread, in order, until the time is up.
        3. Each name whose value is left out gets one line in the log.
        """
        found: list[Any] = [read_as(value) if safe_to_read(value) else None for _, value, read_as in asked]
        slow = [index for index, (_, value, _) in enumerate(asked) if not safe_to_read(value)]
        answers, timeout_reason = self._read_slowly([asked[index][1:] for index in slow]) if slow else ([], "")
        for index, answer in zip(slow, answers, strict=False):
            found[index] = answer
        late = set(slow[len(answers) :])
        for index, (name, value, read_as) in enumerate(asked):
            if found[index] is None and value is not None and self._warnings is not None:
                reason = timeout_reason if index in late else _REASONS.get(read_as, "cannot be read")
                if name and reason:
                    self._warnings.warn(name, "lastbeat leaves %s out: %s %s", name, value_label(value), reason)
        return found

    def close(self) -> None:
        self._thread.close()

    def _read_slowly(self, asked: Sequence[tuple[object, ReadAs]]) -> tuple[list[Any], str]:
        """The values that could be read in time, from the first on, and the reason why the rest is missing."""
        answers: list[Any] = []

        def read() -> None:
            for value, read_as in asked:
                answers.append(read_as(value))

        try:
            self._thread.call(read, self._limit_s)
        except TimeoutError:
            return list(answers), f"could not be read within {self._limit_s:g} s"
        except RuntimeError:
            # No thread can start: the process is at its limit, or ends.
            return [], ""
        return answers, ""


# The text of _error and _complete.

TEXT_LIMIT = 200_000
"""Most characters of a sentinel."""
_FORMAT_LIMIT_S: Final = 3.0
"""Time limit for formatting an exception. Its text may ask a node that has died, and its traceback reads source code
from a file system that may hang."""
_FRAMES: Final = 200


def error_text(error: object) -> str:
    """The message, then the traceback with chained causes. Never raises; takes at most ``_FORMAT_LIMIT_S``."""
    if issubclass(type(error), str):
        return _truncated(plain_str(error))
    return call_with_timeout(lambda: _formatted(error), _FORMAT_LIMIT_S, "") or _without_text(error)


def short_text(value: object) -> str:
    """``value`` as short text. Never raises; takes at most ``_FORMAT_LIMIT_S``."""
    text = read_within(value, as_text, _FORMAT_LIMIT_S)
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
