"""Values as no training should hand them over, and some do: each method raises, lies or never ends.

They are named, so that a test that fails can say which it was: many of them cannot be printed.
"""

import enum
import functools
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

METHODS = [
    "__float__", "__int__", "__index__", "__str__", "__repr__", "__format__", "__bool__", "__len__", "__iter__",
    "__eq__", "__ne__", "__lt__", "__contains__", "__getitem__", "__getattr__", "__fspath__", "__array__", "__round__",
    "__add__", "__sub__", "__abs__", "__hash__", "__complex__", "item", "strip", "encode", "startswith", "is_integer",
]  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A value by its name, for whatever prints it."""

    name: str

    def __call__(self) -> Any:
        return (VALUES.get(self.name) or EXCEPTIONS[self.name])()


def plainly(test: Callable[..., None]) -> Callable[..., None]:
    """``test``, whose failure is told as a text: pytest would print the values, and so call them."""

    @functools.wraps(test)
    def told(*args: Any, **kwargs: Any) -> None:
        try:
            test(*args, **kwargs)
        except BaseException:  # noqa: BLE001 - whatever it is, it is told
            failed = traceback.format_exc(limit=-10)
        else:
            return
        pytest.fail(failed, pytrace=False)

    return told


class Panic(BaseException):
    """What a library in Rust raises when it panics."""


def _raising(error: Callable[[], BaseException], base: type = object) -> type:
    """A class all of whose methods raise, ``__class__`` among them."""

    def method(*_: object, **__: object) -> Any:
        raise error()

    return type("Hostile", (base,), {**dict.fromkeys(METHODS, method), "__class__": property(method)})


def _answering(answer: object, base: type = object) -> type:
    """A class all of whose methods return ``answer``."""
    return type("Lying", (base,), {**dict.fromkeys(METHODS, lambda *_, **__: answer), "__hash__": base.__hash__})


class _Meta(type):
    """Says of its classes what raises."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise SystemExit("a class without a name")

    @property
    def __module__(cls) -> str:  # type: ignore[override]
        raise SystemExit("a class from nowhere")

    def __instancecheck__(cls, instance: object) -> bool:
        raise SystemExit("nobody's instance")

    def __subclasscheck__(cls, subclass: type) -> bool:
        raise SystemExit("nobody's subclass")


class _OfMeta(metaclass=_Meta):
    pass


class _NumpysOwn:
    """Says that it is numpy's."""

    __module__ = "numpy"

    @property
    def dtype(self) -> Any:
        raise SystemExit("no dtype")

    __int__ = __float__ = item = lambda self: exec("raise KeyboardInterrupt")


class _Phase(str, enum.Enum):
    TRAIN = "train"


class _Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "x" * 5_000_000


def _recursive_list() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def _recursive_dict() -> dict[Any, Any]:
    found: dict[Any, Any] = {1: "one", (2, 3): "pair", None: b"bytes"}
    found["itself"] = found
    return found


def _objects() -> Any:
    found = np.empty((), dtype=object)
    found[()] = VALUES["an object whose methods raise SystemExit"]()
    return found


_ERRORS: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("no value"),
    "AttributeError": lambda: AttributeError("no attribute"),
    "RecursionError": lambda: RecursionError("too deep"),
    "MemoryError": MemoryError,
    "StopIteration": StopIteration,
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "a panic": lambda: Panic("index out of bounds"),
}

VALUES: dict[str, Callable[[], Any]] = {
    **{f"an object whose methods raise {name}": _raising(error) for name, error in _ERRORS.items()},
    **{
        f"a text whose methods raise {name}": functools.partial(_raising(error, str), "7")
        for name, error in _ERRORS.items()
    },
    "an int whose methods raise": lambda: _raising(_ERRORS["SystemExit"], int)(7),
    "a float whose methods raise": lambda: _raising(_ERRORS["KeyboardInterrupt"], float)(7.0),
    "an object whose methods return None": _answering(None),
    "an object whose methods return itself": _answering(...),
    "an object whose methods return a text without end": _answering("9" * 2_000_000),
    "an object whose methods return a number beyond all sense": _answering(10**5000),
    "an object whose methods return -1": _answering(-1),
    "an int whose methods lie": lambda: _answering(10**400, int)(7),
    "a text whose str() is endless": lambda: _Text("short"),
    "an object whose class has no name": _OfMeta,
    "an object that says it is numpy's": _NumpysOwn,
    "a class": lambda: _OfMeta,
    "a function": lambda: len,
    "an enum of texts": lambda: _Phase.TRAIN,
    "a recursive list": _recursive_list,
    "a recursive dict with odd keys": _recursive_dict,
    "a generator": lambda: (n for n in range(3)),
    "a lock": threading.Lock,
    "bytes": lambda: b"5000",
    "a surrogate": lambda: "half a \ud83d pair",
    "a text with controls": lambda: "a\x00b\x1b[31m\r\n\u202ec",
    "a text of a number": lambda: "5000",
    "a text of too many digits": lambda: "9" * 5000,
    "an empty text": str,
    "10 ** 400": lambda: 10**400,
    "-10 ** 5000": lambda: -(10**5000),
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "a complex number": lambda: 1 + 2j,
    "a Decimal that is no number": lambda: Decimal("sNaN"),
    "a Decimal beyond all floats": lambda: Decimal("1e5000"),
    "numpy's int64": lambda: np.int64(2**62),
    "numpy's float16 that is no number": lambda: np.float16("nan"),
    "numpy's longdouble": lambda: np.longdouble("1e4000"),
    "numpy's text": lambda: np.str_("5000"),
    "numpy's time": lambda: np.datetime64("2026-01-01"),
    "an array without dimensions": lambda: np.array(5000),
    "an array of one": lambda: np.array([5000]),
    "an array of two": lambda: np.array([1, 2]),
    "an array of none": lambda: np.array([]),
    "an array of objects": _objects,
    "a list": lambda: [5],
    "None": lambda: None,
}
"""What it is → how it is made."""


class _MuteError(Exception):
    def __str__(self) -> str:
        raise SystemExit("not a word")

    __repr__ = __str__


def _with(error: BaseException, **facts: Any) -> BaseException:
    for name, value in facts.items():
        setattr(error, name, value)
    return error


def _chained(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__, cause.__context__ = cause, error
    return error


EXCEPTIONS: dict[str, Callable[[], BaseException]] = {
    **{f"one whose methods raise {name}": _raising(error, Exception) for name, error in _ERRORS.items()},
    "an exit whose methods raise": _raising(_ERRORS["ValueError"], SystemExit),
    "an exit with an odd status": lambda: SystemExit(VALUES["an object whose methods raise SystemExit"]()),
    "an exit with a status that lies": lambda: SystemExit(VALUES["an int whose methods lie"]()),
    "one that is mute": _MuteError,
    "one whose cause is mute": lambda: _chained(ValueError("bad"), _MuteError()),
    "one that is its own cause": lambda: _chained(ValueError("bad"), RuntimeError("worse")),
    "one with odd notes": lambda: _with(
        ValueError("bad"), __notes__=VALUES["an object whose methods raise SystemExit"]()
    ),
    "one with notes that are no texts": lambda: _with(ValueError("bad"), __notes__=[7, _recursive_list()]),
    "a SyntaxError that lies": lambda: _with(SyntaxError("bad"), filename=7, lineno="x", text=[], offset=-5),
    "an error of decoding": lambda: UnicodeDecodeError("utf-8", b"\xff" * 10, 0, 1, "\ud83d"),
    "one with a text without end": lambda: ValueError("x" * 3_000_000),
    "one with a surrogate": lambda: ValueError("half a \ud83d pair"),
    "Ctrl-C": KeyboardInterrupt,
    "an exit": lambda: SystemExit(0),
}
