"""``dataclass``: the standard library's, but a frozen class gets its methods when they are first used.

The standard library compiles six methods as it makes a frozen class, which takes half a millisecond. A look at a run
imports 170 such classes and uses a fifth of them. Fields, slots and what type checkers see are the standard library's.
A frozen subclass of such a class takes its ``dataclass`` from here, too.
"""

import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")


def _dataclass(
    bare: type[T] | None = None, /, *, frozen: bool = False, eq: bool = True, **options: Any
) -> type[T] | Callable[[type[T]], type[T]]:
    if not frozen:
        return dataclasses.dataclass(bare, eq=eq, **options)

    def made(kind: type[T]) -> type[T]:
        undocumented = kind.__doc__ is None
        # Else the standard library makes a docstring of the signature, which takes 3 ms the first time.
        kind.__doc__ = kind.__doc__ or kind.__name__
        kind = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(kind)
        kind.__doc__ = None if undocumented else kind.__doc__
        own = vars(kind)
        late = {"__init__": _init, "__repr__": _repr, **({"__eq__": _eq} if eq else {})}
        # Python sets ``__hash__`` to None where a class has an ``__eq__`` of its own.
        if eq and (own.get("__hash__") is None):
            late["__hash__"] = _hash
        for name, make in late.items():
            if name not in own or own[name] is None:
                setattr(kind, name, _LateMethod(kind, name, make))
        kind.__setattr__ = _refuse_to_set  # type: ignore[method-assign]
        kind.__delattr__ = _refuse_to_delete  # type: ignore[method-assign]
        if options.get("slots"):
            kind.__getstate__ = _state  # type: ignore[attr-defined]
            kind.__setstate__ = _set_state  # type: ignore[attr-defined]
        return kind

    return made if bare is None else made(bare)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - its type, for modules that import it from here
else:
    dataclass = _dataclass


class _LateMethod:
    """Stands in for a method of ``kind``, and is replaced by the method at its first use."""

    __slots__ = ("_kind", "_make", "_name")

    def __init__(self, kind: type[Any], name: str, make: Callable[[type[Any]], Callable[..., Any]]) -> None:
        self._kind, self._name, self._make = kind, name, make

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Callable[..., Any]:
        # Two threads may both make it: either one serves.
        method = self._make(self._kind)
        method.__qualname__ = f"{self._kind.__qualname__}.{self._name}"
        setattr(self._kind, self._name, method)
        bound: Callable[..., Any] = method.__get__(instance, owner)
        return bound


def _init(kind: type[Any]) -> Callable[..., Any]:
    names: dict[str, Any] = {"set_field": object.__setattr__, "MISSING": MISSING}
    parameters: list[str] = []
    keywords: list[str] = []
    body: list[str] = []
    has_slots = "__slots__" in vars(kind)
    for each in fields(kind):
        value = each.name
        if each.default_factory is not MISSING:
            names[f"make_{each.name}"] = each.default_factory
            value = f"make_{each.name}()" + (f" if {each.name} is MISSING else {each.name}" if each.init else "")
        elif each.default is not MISSING:
            names[f"default_{each.name}"] = each.default
            value = each.name if each.init else f"default_{each.name}"
        if not each.init and each.default_factory is MISSING and (each.default is MISSING or not has_slots):
            continue  # without slots, its default is the class's attribute
        body.append(f"set_field(self, {each.name!r}, {value})")
        if each.init:
            (keywords if each.kw_only else parameters).append(each.name + _default_of(each))
    if hasattr(kind, "__post_init__"):
        body.append("self.__post_init__()")
    signature = ", ".join(["self", *parameters, *(["*", *keywords] if keywords else [])])
    init = _compiled(kind, f"__init__({signature})", body or ["pass"], names)
    init.__annotations__ = {each.name: each.type for each in fields(kind) if each.init} | {"return": None}
    return init


def _default_of(each: "Field[Any]") -> str:
    if each.default_factory is not MISSING:
        return "=MISSING"
    return f"=default_{each.name}" if each.default is not MISSING else ""


def _repr(kind: type[Any]) -> Callable[..., Any]:
    shown = ", ".join(f"{each.name}={{self.{each.name}!r}}" for each in fields(kind) if each.repr)
    return _compiled(kind, "__repr__(self)", [f'return f"{{self.__class__.__qualname__}}({shown})"'])


def _eq(kind: type[Any]) -> Callable[..., Any]:
    compared = [each.name for each in fields(kind) if each.compare]
    body = [
        "if other.__class__ is self.__class__:",
        f"    return {_values('self', compared)} == {_values('other', compared)}",
        "return NotImplemented",
    ]
    return _compiled(kind, "__eq__(self, other)", body)


def _hash(kind: type[Any]) -> Callable[..., Any]:
    hashed = [each.name for each in fields(kind) if (each.compare if each.hash is None else each.hash)]
    return _compiled(kind, "__hash__(self)", [f"return hash({_values('self', hashed)})"])


def _values(of: str, names: Iterable[str]) -> str:
    return f"({''.join(f'{of}.{name}, ' for name in names)})"


def _compiled(
    kind: type[Any], head: str, body: Iterable[str], names: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The method ``head`` in the module of ``kind``. The source is made of field names, never of data."""
    lines = "\n".join(f"  {line}" for line in body)
    made: dict[str, Any] = {}
    source = f"def make({', '.join(names or ())}):\n def {head}:\n{lines}\n return {head.partition('(')[0]}\n"
    exec(source, vars(sys.modules[kind.__module__]), made)  # noqa: S102 - see above
    method: Callable[..., Any] = made["make"](**(names or {}))
    return method


def _refuse_to_set(self: object, name: str, value: object) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: object, name: str) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(self: object, name: str) -> bool:
    """A subclass that is no dataclass may have attributes of its own."""
    kind: Any = type(self)
    return "__dataclass_fields__" in vars(kind) or name in kind.__dataclass_fields__


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: Iterable[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
