"""Converts values from training: Python's, numpy's, tensors of any framework and device, anything else.

Reading a value may run training's code (``__float__``, ``__str__``, …), which may hang, or raise anything, even
SystemExit. So no function here raises. A thread that must not hang reads only values that are :func:`safe_to_read`; the
rest goes through ``value_reader`` or ``timed_calls``. For a subclass of ``int``, ``float`` or ``str``, the value that C
code sees counts, even if its methods return another.
"""

import math
import sys
from typing import Any, Final

from lastbeat.model.numbers import json_number
from lastbeat.model.numbers import number as number_of

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
