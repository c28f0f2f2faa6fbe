"""What training hands over, read: Python's values, numpy's, tensors of any framework on any device, and anything else.

Reading may run code of training's (``__float__``, ``__str__``, …), which may raise anything, even SystemExit, or hang.
So nothing here raises, and a thread that must go on reads only what is :func:`at_hand`: all else is left to ``reading``
and ``aside``. Of a subclass of ``int``, ``float`` or ``str`` the value counts that C code sees, whatever its methods
say.
"""

import math
import sys
from typing import Any, Final

from lastbeat.model.numbers import json_number
from lastbeat.model.numbers import number as number_of

LIMIT_CHARS = 200
_LARGEST: Final = 2**64
"""Beyond it no number is a count of anything; and JSON's readers differ in what they make of it."""
_MOST_PROCESSES: Final = 10**9
_DIGITS: Final = 21
_SHOWN_CHARS: Final = 60
_HEAP_TYPE: Final = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: set in each class that is written in Python."""
_BYTES: Final = (bytes, bytearray, memoryview)


def at_hand(value: object) -> bool:
    """Whether reading ``value`` waits for nothing and runs no code of training's."""
    kind = type(value)
    return value is None or issubclass(kind, (int, float, str, *_BYTES)) or _is_numpys(value)


def _is_numpys(value: object) -> bool:
    """Whether it is a number or an array of numpy's own, and not one that holds objects."""
    kind = type(value)
    # As C sees the class: what a metaclass says of it is training's code.
    if type.__dict__["__flags__"].__get__(kind) & _HEAP_TYPE:
        return False
    if type.__dict__["__module__"].__get__(kind) != "numpy":
        return False
    try:
        numpy = sys.modules["numpy"]
        return issubclass(kind, (numpy.generic, numpy.ndarray)) and value.dtype.kind != "O"  # type: ignore[attr-defined]
    except (KeyError, AttributeError, TypeError):  # Somebody has put something else in its place.
        return False


def _plain(value: object) -> object:
    """``value`` as one of Python's own numbers, or whatever it is."""
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


def plain_text(value: Any) -> str:
    """A text, of whatever class, as one of Python's own."""
    return str.__str__(value)


def number(value: object) -> float | str | None:
    """``value`` as JSON can hold it; a non-finite one is ``"NaN"``, ``"Infinity"`` or ``"-Infinity"``. A text that is a
    number is one.

    A tensor is synchronised with its device here, so never call this in the training thread. None for what is no
    number.
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
    except BaseException:  # noqa: BLE001 - a tensor on a lost device may raise anything, and so may training's code
        return None


def whole(value: object) -> int | None:
    """``value`` as a whole number, what comes after the point cut off; None for what is no number, and for what no
    count reaches."""
    if value is None or issubclass(type(value), bool):
        return None
    try:
        plain = _plain(value)
        # As a float it would lose digits beyond 2 ** 53.
        if _is_numpys(plain) and plain.dtype.kind in "iu":  # type: ignore[attr-defined]
            plain = plain.item()  # type: ignore[attr-defined]
        elif isinstance(plain, str) and plain.isascii() and plain.isdigit() and len(plain) < _DIGITS:
            plain = int(plain)
        found = plain if isinstance(plain, int) else number(plain)
        return int(found) if isinstance(found, (int, float)) and abs(found) < _LARGEST else None
    except BaseException:  # noqa: BLE001 - as above
        return None


def count(value: object) -> int | None:
    """The same, where it may count the processes of a training."""
    found = whole(value)
    return found if found is not None and 0 <= found < _MOST_PROCESSES else None


def counted(value: object) -> int | None:
    """A whole number that can be had at once, in the training thread: an int, of whatever class, or numpy's."""
    kind = type(value)
    if issubclass(kind, int):
        return None if kind is bool else int.__int__(value)  # type: ignore[arg-type]
    if not _is_numpys(value) or value.dtype.kind not in "iuf":  # type: ignore[attr-defined]
        return None
    try:
        return int(value.item())  # type: ignore[attr-defined]
    except (ValueError, OverflowError):  # An array of two, NaN or infinity.
        return None


def text(value: object) -> str | None:
    """``value`` as a bounded text, or None."""
    if value is None:
        return None
    try:
        # A bool is an int, too, and would be a 1.
        return _start(str(value if value is True or value is False else _plain(value)), LIMIT_CHARS)
    except BaseException:  # noqa: BLE001 - as above
        return None


def truth(value: object) -> bool | None:
    """Whether ``value`` says yes, or None where it says neither."""
    try:
        return bool(_plain(value))
    except BaseException:  # noqa: BLE001 - an array of two, for example
        return None


def seconds(value: object, otherwise: float) -> float:
    """How long somebody wants to wait, infinitely long too; ``otherwise`` for what is no number at hand."""
    if not at_hand(value) or value is None:
        return otherwise
    found = number(value)
    plain = number_of(found) if isinstance(found, str) else found
    return otherwise if plain is None or math.isnan(plain) else plain


def type_name(value: object) -> str:
    """The name of its type."""
    name = str.__str__(type.__dict__["__name__"].__get__(type(value)))[:_SHOWN_CHARS]
    return name if name.isprintable() else ascii(name)


def shown(value: object) -> str:
    """What ``value`` is, for a line in a log: of a short text or number itself, of all else its type."""
    name = type_name(value)
    if not issubclass(type(value), (int, float, str)):
        return f"a value of type {name}"
    try:
        said = repr(value if value is True or value is False else _plain(value))
    except ValueError:  # Python writes no number of so many digits.
        said = "a number of thousands of digits"
    return f"{said if len(said) <= _SHOWN_CHARS else said[:_SHOWN_CHARS] + '…'} (type {name})"
