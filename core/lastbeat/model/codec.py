"""Dataclasses ↔ JSON data: the one codec for everything that lastbeat keeps from one process to the next.

Strict: a field of the wrong type is damage, never a guess. Open: what this version does not know survives a rewrite,
see :class:`lastbeat.model.persisted.Persisted`. Each type's reader and writer are compiled once, from its annotations.

    datetime       ISO 8601 text, UTC; a number   Enum           its value
                   of seconds as UnixTime
    tuple, list    array                          bytes          text, a character a byte
    frozenset      sorted array
    Mapping        object; array of pairs where its keys are numbers; array of values as Columns, of objects as KeyedBy
    dataclass      object or array, see :class:`lastbeat.model.persisted.Form`

A dataclass checks rules of its own in ``__post_init__``: a ``ValueError`` from there is damage, too.
"""

import math
import re
import types
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime, timezone
from enum import Enum
from functools import cache
from itertools import groupby
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from lastbeat.model.json_values import json_number
from lastbeat.model.persisted import AnyFloat, Base64, Columns, Form, KeyedBy, UnixTime
from lastbeat.model.times import parse_time

T = TypeVar("T")
Json = Any
Skipped = list[str]
"""Collects the fields that hold entries which this version cannot read."""

_LARGEST: Final = 1e12
"""Larger than any number of ours, and small enough for time arithmetic."""
_DEEPEST: Final = 32
_SHOWN: Final = 40
_NONFINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class DamagedError(ValueError):
    """The data does not fit the type. ``str()`` names the place and what is wrong there."""

    def __init__(self, what: str, path: str = "") -> None:
        super().__init__(f"{path}: {what}" if path else what)
        self.what = what
        self.path = path

    def within(self, place: str) -> "DamagedError":
        """The same fault as seen from one level up, where the damaged part is at ``place``: a field's name, or
        ``[3]``."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return type(self)(self.what, f"{place}{dot}{self.path}")


class NewerError(DamagedError):
    """A word that this version does not know. A newer one must have added it."""


def without_schema(document: Json, newest: int, name: str = "it") -> dict[str, Json]:
    """A parsed document without its schema number; errors call it ``name``.

    Raises :class:`DamagedError` without such a number, and :class:`NewerError` if it is greater than ``newest``.
    """
    schema = document.pop("schema", None) if isinstance(document, dict) else None
    if not isinstance(document, dict) or schema.__class__ is not int:
        raise DamagedError("it is not a JSON object with a schema number")
    if schema > newest:
        raise NewerError(f"{name} has schema {schema}, written by a newer lastbeat; this one reads {newest}")
    return document


class Codec(Generic[T]):
    """Reads and writes one dataclass; :func:`codec` makes them."""

    def __init__(self, kind: type[T]) -> None:
        hashable: Any = kind
        self._type = _dataclass(hashable)

    def document(self, value: T) -> Json:
        """``value`` as data for :func:`json.dumps`."""
        return self._type.write(value) if self._type.write is not None else value

    def read(self, document: Json, skipped: Skipped | None = None) -> T:
        """The value in ``document``, which is JSON data. Fields with entries that this version cannot read are added to
        ``skipped``. Raises :class:`DamagedError`."""
        made: T = self._type.read(document, [] if skipped is None else skipped)
        return made


def codec(kind: type[T]) -> Codec[T]:
    """The codec of a dataclass, compiled at the first call. Raises ``TypeError`` for a type that cannot be kept."""
    made: Codec[T] | None = _COMPILED.get(kind)
    if made is None:
        made = _COMPILED[kind] = Codec(kind)
    return made


_COMPILED: "dict[type[Any], Codec[Any]]" = {}


class _Type(NamedTuple):
    """How values of one type are read and written."""

    read: Callable[[Json, Skipped], Any]
    write: Callable[[Any], Json] | None = None
    """None: the values are JSON already."""
    exact: frozenset[type] = frozenset()
    """JSON values of these classes need no ``read``."""
    split: "Callable[[Json, Skipped], tuple[Any, Json]] | None" = None
    """The entries of a collection that this version can read, and the JSON of those that it cannot."""
    merge: Callable[[Json, Json], Json] | None = None
    """Puts those entries back into the JSON of the others."""
    check: str = ""
    """For arrays, whose readers are compiled from source: the condition under which JSON's value, ``{0}``, has to be
    read. Empty: always."""
    checked: Callable[[Json, Skipped], Any] | None = None
    """Reads a value for which ``check`` holds; None: ``read`` does."""
    present: Callable[[Any], Json] | None = None
    """Writes a value that is not None; None: ``write`` does."""


def _type(hint: Any) -> _Type:
    """Compile the type of an annotation: scalars from the table below, collections and dataclasses from their parts."""
    found = _SCALARS.get(hint)
    if found is not None:
        return found
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated and isinstance(args[1], Columns):
        return _columns(_type(get_args(args[0])[1]), args[1])
    if origin is Annotated and isinstance(args[1], KeyedBy):
        key, item = get_args(args[0])
        return _keyed(args[1].name, _type(key), _type(item))
    if origin in {Union, types.UnionType}:
        return _optional(hint, [each for each in args if each is not types.NoneType])
    if origin is Literal:
        return _literal(args)
    if origin is tuple and args[1:] != (...,):
        return _fixed_array([_type(each) for each in args])
    if origin in {tuple, list, frozenset}:
        return _array(_type(args[0]), origin)
    if origin is not None and issubclass(origin, Mapping):
        return _object(_type(args[1])) if args[0] is str else _pairs(_type(args[0]), _type(args[1]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enumeration(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass(hint) if _form(hint) is Form.ROW else _late(hint)
    raise TypeError(f"{hint} cannot be kept")


# Scalars.


def _shown(value: Json) -> str:
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _text(value: Json, _: Skipped) -> str:
    if value.__class__ is not str:
        raise DamagedError(f"{_shown(value)} is no text")
    return str(value)


def _flag(value: Json, _: Skipped) -> bool:
    if value.__class__ is not bool:
        raise DamagedError(f"{_shown(value)} is neither true nor false")
    return bool(value)


def _whole(value: Json, _: Skipped) -> int:
    if value.__class__ is not int or not -(2**63) <= value < 2**63:
        raise DamagedError(f"{_shown(value)} is no whole number")
    return int(value)


def _real(value: Json, _: Skipped) -> float:
    if value.__class__ not in {float, int} or not -_LARGEST <= value <= _LARGEST:
        raise DamagedError(f"{_shown(value)} is no number that can be kept here")
    return float(value)


def _any_real(value: Json, _: Skipped) -> float:
    if value.__class__ is float or value.__class__ is int:
        try:
            return float(value)
        except OverflowError:
            raise DamagedError("a number is too large") from None
    if value.__class__ is str and value in _NONFINITE:
        return _NONFINITE[value]
    raise DamagedError(f"{_shown(value)} is no number")


def _time(value: Json, _: Skipped) -> datetime:
    if value.__class__ is str and value[-1:] == "Z":
        # The form we write. parse_time accepts more, and takes five times as long.
        try:
            return datetime.fromisoformat(value[:-1] + "+00:00")
        except ValueError:
            pass
    when = parse_time(value)
    if when is None:
        raise DamagedError(f"{_shown(value)} is not a time")
    return when


def _time_text(when: datetime) -> str:
    return when.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def _unix_time(value: Json, _: Skipped) -> datetime:
    try:
        return datetime.fromtimestamp(value if value.__class__ is float else _real(value, _), timezone.utc)
    except (OverflowError, ValueError, OSError) as fault:
        raise DamagedError(f"{_shown(value)} is not a time") from fault


def _bytes(value: Json, _: Skipped) -> bytes:
    try:
        return _text(value, _).encode("latin-1")
    except UnicodeEncodeError:
        raise DamagedError(f"{_shown(value)} has a character that is no byte") from None


def _base64(value: Json, _: Skipped) -> bytes:
    text = _text(value, _)
    try:
        made = a2b_base64(text)
    except ValueError:
        made = b""
    # a2b_base64 ignores characters that are not base64.
    if _base64_text(made) != text:
        raise DamagedError(f"{_shown(value)} is not base64")
    return made


def _base64_text(value: bytes) -> str:
    return b2a_base64(value, newline=False).decode("ascii")


def _json(value: Json, _: Skipped) -> Json:
    _check_plain(value)
    return value


_SCALARS: Final[dict[Any, _Type]] = {
    str: _Type(_text, exact=frozenset({str}), check="{0}.__class__ is not str"),
    bool: _Type(_flag, exact=frozenset({bool}), check="{0}.__class__ is not bool"),
    int: _Type(_whole, check="{0}.__class__ is not int or not -(2**63) <= {0} < 2**63"),
    float: _Type(_real, check=f"{{0}}.__class__ is not float or not -{_LARGEST!r} <= {{0}} <= {_LARGEST!r}"),
    AnyFloat: _Type(_any_real, json_number),
    datetime: _Type(_time, _time_text),
    UnixTime: _Type(_unix_time, datetime.timestamp),
    bytes: _Type(_bytes, lambda value: value.decode("latin-1")),
    Base64: _Type(_base64, _base64_text),
    Any: _Type(_json),
}


def _optional(hint: Any, rest: Sequence[Any]) -> _Type:
    if len(rest) != 1:
        raise TypeError(f"{hint} cannot be kept: the annotation must say which type a value has")
    inner = _type(rest[0])
    read, write = inner.read, inner.write
    return _Type(
        lambda value, skipped: None if value is None else read(value, skipped),
        None if write is None else lambda value: None if value is None else write(value),
        inner.exact | {types.NoneType},
        check=f"{{0}} is not None and ({inner.check})" if inner.check else "{0} is not None",
        checked=inner.checked or read,
        present=inner.present or write,
    )


def _literal(words: tuple[Any, ...]) -> _Type:
    def read(value: Json, _: Skipped) -> Any:
        if _text(value, _) not in words:
            raise _unknown_word(value, f"one of {', '.join(map(repr, words))}")
        return value

    return _Type(read)


def _unknown_word(value: Json, of: str) -> DamagedError:
    what = f"{_shown(value)} is not {of}"
    # Newer versions add words. Anything that is not a word is damage.
    return NewerError(what) if re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,39}", str(value)) else DamagedError(what)


def _enumeration(kind: type[Enum]) -> _Type:
    known: Mapping[Any, Enum] = {each.value: each for each in kind}

    def read(value: Json, skipped: Skipped) -> Enum:
        found = known.get(value) if value.__class__ is str else None
        if found is not None:
            return found
        try:
            # An enumeration may accept words that it does not know.
            return kind(_text(value, skipped))
        except ValueError as error:
            if isinstance(error, DamagedError):
                raise
            raise _unknown_word(value, kind.__name__) from None

    return _Type(read, lambda value: value.value)


# Collections. Entries with unknown words are set aside and put back in their places.


def _array(item: _Type, kind: Callable[[list[Any]], Any]) -> _Type:
    read_item, write_item, exact = item.read, item.write, item.exact

    def split(values: Json, skipped: Skipped) -> tuple[Any, Json]:
        if values.__class__ is not list:
            raise DamagedError(f"{_shown(values)} is no list")
        made: list[Any] = []
        aside: list[tuple[int, Json]] = []
        for index, value in enumerate(values):
            if value.__class__ in exact:
                made.append(value)
                continue
            try:
                made.append(read_item(value, skipped))
            except NewerError:
                _check_plain(value)
                aside.append((index, value))
            except DamagedError as fault:
                raise fault.within(f"[{index}]") from None
        return kind(made), aside

    def write(values: Any) -> Json:
        values = sorted(values) if kind is frozenset else values
        return list(values) if write_item is None else [write_item(each) for each in values]

    def merge(written: Json, aside: Json) -> Json:
        for index, value in aside:
            written.insert(index, value)
        return written

    return _Type(_all_of(split), write, split=split, merge=merge)


def _object(item: _Type) -> _Type:
    read_item, write_item, exact = item.read, item.write, item.exact

    def split(values: Json, skipped: Skipped) -> tuple[Any, Json]:
        if values.__class__ is not dict:
            raise DamagedError(f"{_shown(values)} is no object")
        made: dict[str, Any] = {}
        aside: dict[str, Json] = {}
        for key, value in values.items():
            if value.__class__ in exact:
                made[key] = value
                continue
            try:
                made[key] = read_item(value, skipped)
            except NewerError:
                _check_plain(value)
                aside[key] = value
            except DamagedError as fault:
                raise fault.within(f"[{_shown(key)}]") from None
        return made, aside

    def write(values: Any) -> Json:
        return dict(values) if write_item is None else {key: write_item(each) for key, each in values.items()}

    def merge(written: Json, aside: Json) -> Json:
        return {**aside, **written}

    return _Type(_all_of(split), write, split=split, merge=merge)


def _all_of(split: Callable[[Json, Skipped], tuple[Any, Json]]) -> Callable[[Json, Skipped], Any]:
    """Reads a collection in a place where nothing can be set aside, for example inside another collection."""

    def read(values: Json, skipped: Skipped) -> Any:
        made, aside = split(values, skipped)
        if aside:
            raise NewerError("it holds what this version does not know")
        return made

    return read


def _pairs(key: _Type, item: _Type) -> _Type:
    row = _fixed_array([key, item])

    def read(values: Json, skipped: Skipped) -> dict[Any, Any]:
        if values.__class__ is not list:
            raise DamagedError(f"{_shown(values)} is no list of pairs")
        return dict(row.read(each, skipped) for each in values)

    return _Type(read, lambda values: [_written(row, each) for each in values.items()])


def _keyed(name: str, key: _Type, item: _Type) -> _Type:
    def read(value: Json, skipped: Skipped) -> tuple[Any, Any]:
        if value.__class__ is not dict or name not in value:
            raise DamagedError(f"{_shown(value)} is no object with {name}")
        return key.read(value[name], skipped), item.read({k: v for k, v in value.items() if k != name}, skipped)

    rows = _array(_Type(read, lambda row: {name: _written(key, row[0]), **_written(item, row[1])}), dict)
    return rows._replace(write=lambda values: _written(rows, values.items()))


def _fixed_array(items: Sequence[_Type]) -> _Type:
    def slow(values: Json, skipped: Skipped) -> tuple[Any, ...]:
        if values.__class__ is not list or len(values) != len(items):
            raise DamagedError(f"{_shown(values)} is no list of {len(items)}")
        return tuple(item.read(value, skipped) for item, value in zip(items, values, strict=True))

    def write(values: Any) -> Json:
        return [_written(item, each) for item, each in zip(items, values, strict=True)]

    return _Type(_unpacking(items, slow), write if any(item.write for item in items) else list)


def _columns(item: _Type, columns: Columns) -> _Type:
    names, absent = columns.names, columns.absent

    def slow(values: Json, skipped: Skipped) -> dict[str, Any]:
        if values.__class__ is not list or len(values) > len(names):
            raise DamagedError(f"{_shown(values)} is no list of {len(names)}")
        made: dict[str, Any] = {}
        for name, value in zip(names, values, strict=False):
            if value.__class__ is int and value == absent:
                continue
            try:
                made[name] = item.read(value, skipped)
            except DamagedError as fault:
                raise fault.within(name) from None
        return made

    # An absent key is unusual unless it reads as a value.
    unpack = _no_value if _reads(item, absent) else _unpacking([item] * len(names), _no_value)

    def read(values: Json, skipped: Skipped) -> dict[str, Any]:
        found = unpack(values, skipped)
        return slow(values, skipped) if found is None else dict(zip(names, found, strict=True))

    if item.write is None or item.present is list:
        # json writes a tuple as an array; making so many lists of them costs a third of the writing.
        columns_held = ", ".join(f"get({name!r}, absent)" for name in names)
        source = f"def write(values):\n    get = values.get\n    return [{columns_held}]\n"
        return _Type(read, _compiled(source, {"absent": absent}))
    columns_written = ", ".join(
        f"None if (held := get({name!r}, absent)) is None else held if held is absent else write_one(held)"
        for name in names
    )
    source = f"def write(values):\n    get = values.get\n    return [{columns_written}]\n"
    return _Type(read, _compiled(source, {"absent": absent, "write_one": item.present or item.write}))


def _reads(item: _Type, value: Json) -> bool:
    try:
        item.read(value, [])
    except DamagedError:
        return False
    return True


def _no_value(_values: Json, _left: Skipped) -> None:
    """A ``slow`` for :func:`_unpacking` whose caller has one of its own."""


def _unpacking(items: Sequence[_Type], slow: Callable[[Json, Skipped], Any]) -> Callable[[Json, Skipped], Any]:
    """Reads a JSON array with a value for each of ``items`` into a tuple. ``slow`` reads anything unusual: it finds out
    what is wrong, and where.

    Compiled from source, which makes an index of 10,000 runs (a quarter of a million values) as quick to read as by
    hand; closures took half as long again.
    """
    held = [f"v{number}" for number in range(len(items))]
    checks = [
        f"        {f'if {item.check.format(name)}: ' if item.check else ''}{name} = read_{name}({name}, skipped)"
        for name, item in zip(held, items, strict=True)
    ]
    source = f"""
def read(values, skipped):
    if values.__class__ is not list or len(values) != {len(items)}:
        return slow(values, skipped)
    {", ".join(held)}, = values
    try:
{chr(10).join(checks)}
    except DamagedError:
        return slow(values, skipped)
    return {", ".join(held)},
"""
    readers = {f"read_{name}": item.checked or item.read for name, item in zip(held, items, strict=True)}
    return _compiled(source, {"slow": slow, **readers})


def _compiled(source: str, names: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that ``source`` defines. ``source`` is made of types of ours, never of data."""
    space: dict[str, Any] = {"DamagedError": DamagedError, **names}
    exec(source, space)  # noqa: S102 - see above
    made: Callable[..., Any] = space["read"] if "read" in space else space["write"]
    return made


def _written(kind: _Type, value: Any) -> Json:
    return value if kind.write is None else kind.write(value)


# Dataclasses.


class _Shape(NamedTuple):
    """A dataclass, field by field."""

    kind: type[Any]
    fields: "tuple[tuple[Field[Any], _Type], ...]"
    """Those that are written."""
    keeps_unknown: bool


def _shape(kind: type[Any]) -> _Shape:
    own = [each for each in fields(kind) if each.init and not each.metadata.get("transient")]
    hints: Mapping[str, Any] = {each.name: each.type for each in own}
    if any(isinstance(each.type, str) for each in own):
        hints = get_type_hints(kind, include_extras=True)
    return _Shape(
        kind,
        tuple((each, _type(hints[each.name])) for each in own if each.name != "unknown"),
        any(each.name == "unknown" for each in own),
    )


@cache
def _dataclass(kind: type[Any]) -> _Type:
    shape, form = _shape(kind), _form(kind)
    if form is Form.ROW:
        return _Type(_row_reader(shape), _row_writer(shape))
    return _Type(_object_reader(shape), _object_writer(shape, sparse=form is Form.SPARSE))


def _form(kind: type[Any]) -> Form:
    form: Form = getattr(kind, "FORM", Form.OBJECT)
    return form


def _late(kind: Any) -> _Type:
    """The type of a dataclass within another one: compiled when there is a value of it. Few runs have all parts."""

    def read(value: Json, skipped: Skipped) -> Any:
        return _dataclass(kind).read(value, skipped)

    def write(value: Any) -> Json:
        return _written(_dataclass(kind), value)

    return _Type(read, write)


def _object_reader(shape: _Shape) -> Callable[[Json, Skipped], Any]:
    """The reader of a JSON object, planned once:

    1. Read each field that the object has; a value of the exact class needs no call.
    2. Split collections: their entries with unknown words go to ``unknown``.
    3. Read the flat parts from the fields of the same object.
    4. Refuse an object without a required field.
    5. Keep fields that this version does not know in ``unknown``, if they can be written again.
    """
    plain = [(each, kind) for each, kind in shape.fields if not each.metadata.get("flat")]
    plan = [(each.name, kind.exact, kind.read) for each, kind in plain if not (kind.split and shape.keeps_unknown)]
    collections = [(each.name, kind.split) for each, kind in plain if kind.split and shape.keeps_unknown]
    flat = [(each.name, _flat_part(each)) for each, _ in shape.fields if each.metadata.get("flat")]
    known = {each.name for each, _ in plain}.union(*(part.names for _, part in flat))
    required = {each.name for each, _ in plain if each.default is MISSING and each.default_factory is MISSING}
    build = _builder(shape)

    def read(document: Json, skipped: Skipped) -> Any:
        if document.__class__ is not dict:
            raise DamagedError(f"{_shown(document)} is no object")
        values: dict[str, Any] = {}
        unknown: dict[str, Json] = {}
        name = ""
        try:
            for name, exact, read_field in plan:
                if name in document:
                    value = document[name]
                    values[name] = value if value.__class__ in exact else read_field(value, skipped)
            for name, split in collections:
                if name in document:
                    values[name], aside = split(document[name], skipped)
                    if aside:
                        unknown[name] = aside
                        skipped.append(name)
        except DamagedError as fault:
            raise fault.within(name) from None
        for name, part in flat:
            values[name] = part.read(document, skipped)
        if not required <= values.keys():
            raise DamagedError(f"{min(required - values.keys())} is missing")
        if shape.keeps_unknown:
            if not document.keys() <= known:
                more = {key: value for key, value in document.items() if key not in known}
                _check_plain(more)
                unknown.update(more)
            if unknown:
                values["unknown"] = unknown
        return build(values)

    return read


def _builder(shape: _Shape) -> Callable[[dict[str, Any]], Any]:
    """Makes an instance from the fields that were read; the others get their defaults."""
    kind = shape.kind
    if hasattr(kind, "__post_init__"):

        def checked(values: dict[str, Any]) -> Any:
            try:
                return kind(**values)
            except ValueError as fault:
                raise DamagedError(str(fault)) from None

        return checked
    if any("__slots__" in vars(each) for each in kind.__mro__[:-1]) or not all(each.init for each in fields(kind)):
        return lambda values: kind(**values)
    defaults = {each.name: each.default for each in fields(kind) if each.default is not MISSING}
    factories = [(each.name, each.default_factory) for each in fields(kind) if each.default_factory is not MISSING]

    def build(values: dict[str, Any]) -> Any:
        # What the dataclass's __init__ does, in a third of the time.
        made = object.__new__(kind)
        held = made.__dict__
        held.update(defaults)
        for name, factory in factories:
            if name not in values:
                held[name] = factory()
        held.update(values)
        return made

    return build


class _FlatPart(NamedTuple):
    """How a part is kept among the fields of its parent's object."""

    read: Callable[[Json, Skipped], Any]
    """Reads it from that object. A part that may be None is None if one of its required fields is null or missing."""
    write: Callable[[Any], dict[str, Json]]
    """The fields to add to it. Of a part that is None: null for those that are required, the defaults of the others."""
    names: frozenset[str]


@cache
def _flat_part(parent: "Field[Any]") -> _FlatPart:
    kind: Any = next((each for each in get_args(parent.type) if each is not types.NoneType), parent.type)
    shape, part = _shape(kind), _type(kind)
    usual = _defaults(shape)
    absent = {each.name: _written(how, usual[each.name]) if each.name in usual else None for each, how in shape.fields}
    decisive = [] if kind is parent.type else [name for name in absent if name not in usual]

    def read(document: Json, skipped: Skipped) -> Any:
        if any(document.get(name) is None for name in decisive):
            return None
        return part.read({name: document[name] for name in absent if name in document}, skipped)

    def write(value: Any) -> dict[str, Json]:
        return absent if value is None else dict(_written(part, value))

    return _FlatPart(read, write, frozenset(absent))


def _object_writer(shape: _Shape, *, sparse: bool) -> Callable[[Any], Json]:
    plan = [(each.name, kind.write) for each, kind in shape.fields]
    flat = {each.name: _flat_part(each).write for each, _ in shape.fields if each.metadata.get("flat")}
    merge = {each.name: kind.merge for each, kind in shape.fields if kind.merge is not None}
    omitted = {each.name for each, _ in shape.fields if sparse or each.metadata.get("omitted")}
    usual = {name: value for name, value in _defaults(shape).items() if name in omitted}

    def write(value: Any) -> Json:
        document: dict[str, Json] = {}
        unknown = value.unknown if shape.keeps_unknown else {}
        for name, write_field in plan:
            held = getattr(value, name)
            if name in flat:
                document.update(flat[name](held))
                continue
            if name in usual and _same(held, usual[name]) and name not in unknown:
                continue
            document[name] = held if write_field is None or held is None else write_field(held)
        for name, aside in unknown.items():
            document[name] = merge[name](document[name], aside) if name in merge else aside
        return document

    return write


def _same(one: Any, other: Any) -> bool:
    # 0, 0.0 and False are equal but not the same.
    return one.__class__ is other.__class__ and bool(one == other)


def _defaults(shape: _Shape) -> dict[str, Any]:
    made = {each.name: each.default for each, _ in shape.fields if each.default is not MISSING}
    return made | {each.name: each.default_factory() for each, _ in shape.fields if each.default_factory is not MISSING}


def _parts(shape: _Shape) -> list[tuple[str, list[tuple[Field[Any], _Type]]]]:
    """A row's columns: the fields of one part, under its name, or a single field without one."""
    if shape.keeps_unknown and any(each.metadata.get("part") for each, _ in shape.fields):
        raise TypeError(f"{shape.kind.__name__} cannot be kept: a row with parts carries nothing unknown along")
    # A field without a part is a group of its own, by its own name, which no part has.
    grouped = groupby(shape.fields, lambda each: each[0].metadata.get("part", f".{each[0].name}"))
    return [("" if name.startswith(".") else name, list(members)) for name, members in grouped]


def _row_reader(shape: _Shape) -> Callable[[Json, Skipped], Any]:
    """Rows with exactly their columns are read by compiled code, the others by a loop."""
    parts = _parts(shape)
    build = _builder(shape)
    fill = _filler([(name, members) for name, members in parts])

    def slow(row: Json, skipped: Skipped) -> Any:
        values: dict[str, Any] = {}
        fill(row, values, skipped)
        if shape.keeps_unknown and len(row) > len(parts):
            more = row[len(parts) :]
            _check_plain(more)
            values["unknown"] = {"": more}
        return build(values)

    kinds = [_fixed_array([kind for _, kind in members]) if name else members[0][1] for name, members in parts]
    held = [
        (each.name, f"found[{number}][{place}]" if name else f"found[{number}]")
        for number, (name, members) in enumerate(parts)
        for place, (each, _) in enumerate(members)
    ]
    positional = [each.name for each in fields(shape.kind) if each.init and not each.kw_only]
    if positional[: len(held)] == [name for name, _ in held] and "__slots__" in vars(shape.kind):
        stars = [f"{'*' if name else ''}found[{number}]" for number, (name, _) in enumerate(parts)]
        made = f"made({', '.join(stars)})"
    else:
        made = f"build({{{', '.join(f'{name!r}: {value}' for name, value in held)}}})"
    source = f"""
def read(row, skipped):
    found = unpack(row, skipped)
    return slow(row, skipped) if found is None else {made}
"""
    unpack = _unpacking(kinds, _no_value)
    return _compiled(source, {"unpack": unpack, "slow": slow, "build": build, "made": _made(shape)})


def _made(shape: _Shape) -> Callable[..., Any]:
    """Makes an instance as its class does, but for what a failed check of its own raises."""
    kind: Callable[..., Any] = shape.kind
    if not hasattr(kind, "__post_init__"):
        return kind

    def checked(*values: Any) -> Any:
        try:
            return kind(*values)
        except ValueError as fault:
            raise DamagedError(str(fault)) from None

    return checked


def _filler(
    columns: "Sequence[tuple[str, Sequence[tuple[Field[Any], _Type]]]]",
) -> Callable[[Json, dict[str, Any], Skipped], None]:
    """Reads an array of fields, and of parts that are arrays of fields, into ``values``. Fields with defaults may be
    missing at its end."""
    plan = [
        (members[0][0].name, members[0][1].read, _filler([("", [each]) for each in members]) if name else None)
        for name, members in columns
    ]
    least = sum(any(_is_required(each) for each, _ in members) for _, members in columns)

    def fill(row: Json, values: dict[str, Any], skipped: Skipped) -> None:
        if row.__class__ is not list or len(row) < least:
            raise DamagedError(f"{_shown(row)} is no list of {len(plan)}")
        for (name, read, fill_part), value in zip(plan, row, strict=False):
            if fill_part is not None:
                fill_part(value, values, skipped)
                continue
            try:
                values[name] = read(value, skipped)
            except DamagedError as fault:
                raise fault.within(name) from None

    return fill


def _is_required(each: "Field[Any]") -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _row_writer(shape: _Shape) -> Callable[[Any], Json]:
    """Compiled from source, as the reader is."""
    names: dict[str, Any] = {}
    columns = []
    for name, members in _parts(shape):
        written = []
        for each, kind in members:
            held = f"value.{each.name}"
            if kind.write is not None:
                names[f"write_{each.name}"] = kind.present or kind.write
                held = f"None if {held} is None else write_{each.name}({held})"
            written.append(held)
        columns.append(f"[{', '.join(written)}]" if name else written[0])
    write: Callable[[Any], Json] = _compiled(f"def write(value):\n    return [{', '.join(columns)}]\n", names)
    if not shape.keeps_unknown:
        return write
    return lambda value: write(value) + value.unknown.get("", []) if value.unknown else write(value)


def _check_plain(value: Json) -> None:
    """Raise :class:`DamagedError` for parsed JSON that cannot be written again: nested too deeply, or with a number
    that parsing made infinite (``1e999``)."""
    stack = [(value, 0)]
    while stack:
        each, depth = stack.pop()
        if depth > _DEEPEST:
            raise DamagedError("it is nested too deeply")
        if each.__class__ is float and not math.isfinite(each):
            raise DamagedError("a number in it is too large")
        if each.__class__ is dict:
            stack.extend((inner, depth + 1) for inner in each.values())
        elif each.__class__ is list:
            stack.extend((inner, depth + 1) for inner in each)
