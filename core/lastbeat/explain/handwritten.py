"""Reads files that users write by hand: YAML → a pydantic model, or all faults, each with its line.

Only for users' own files, because importing PyYAML and pydantic would slow down every start of ``--once``.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import ErrorDetails
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.resolver import Resolver

from lastbeat.model.file_fault import FileFault
from lastbeat.model.text import nearest

SIZE_LIMIT: Final = 1_000_000
"""Most characters of a file."""
DEPTH_LIMIT: Final = 10
"""Deepest nesting of a file."""
NODES_LIMIT: Final = 100_000
"""Most keys and values of a file."""
MOST_FAULTS: Final = 200
"""Most reported faults of a file."""
TEXT_LIMIT: Final = 2000
"""Most characters of a text in a file."""

Place = tuple[str | int, ...]
"""A position in a document: keys, and indices of lists."""
M = TypeVar("M", bound=BaseModel)

UNSAID: Any = None
"""The default of a key that may be left out but must not be null."""

try:
    from yaml.cyaml import CParser as _Parser  # type: ignore[attr-defined]
except ImportError:  # PyYAML was built without libyaml: slower, but with the same events.
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner

    class _Parser(Reader, Scanner, Parser):  # type: ignore[no-redef]
        def __init__(self, text: str) -> None:
            Reader.__init__(self, text)
            Scanner.__init__(self)
            Parser.__init__(self)


# Types for the models of such files.


class HandwrittenModel(BaseModel):
    """Part of a file: only known keys, each with a value of exactly its type."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    def stated(self, *, without: Collection[str] = ()) -> dict[str, Any]:
        """The keys that the file has, in the order of the model."""
        fields = type(self).model_fields
        return {key: getattr(self, key) for key in fields if key in self.model_fields_set and key not in without}


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL; take it out")
    return text


def not_blank(text: str) -> str:
    """``text``, if it is not blank. Raises ``ValueError``."""
    if not text.strip():
        raise ValueError("is empty; write what it is to be, or remove the key")
    return _no_nul(text)


def _name(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", text) is None:
        raise ValueError(
            f"{_shown(text)} is no name; take letters, digits and _ . - (at most 100, a letter or digit first)"
        )
    return text


def _seconds(value: Any, inner: ValidatorFunctionWrapHandler) -> Any:
    try:
        return inner(value)
    except ValidationError:
        raise ValueError("has to be a number of seconds above 0, as 900") from None


Text = Annotated[str, Field(max_length=TEXT_LIMIT), AfterValidator(not_blank)]
MaybeBlank = Annotated[str, Field(max_length=TEXT_LIMIT), AfterValidator(_no_nul)]
Name = Annotated[str, AfterValidator(_name)]
Seconds = Annotated[float, Field(gt=0, le=10**9), WrapValidator(_seconds)]


# YAML → values. A file cannot choose which objects are built.


@dataclass(frozen=True)
class Document:
    """A file's values: text, numbers, booleans, None, lists, mappings with text keys."""

    file: str
    value: Any
    lines: Mapping[Place, tuple[int, int]]
    """Place → line of the key, line of the value."""
    named: frozenset[str] = frozenset()
    """Keys with named entries, each of which is usable as a whole or not at all."""

    def line(self, *place: str | int) -> int:
        """The line of the value at ``place``, or of what would contain it."""
        for end in range(len(place), -1, -1):
            if place[:end] in self.lines:
                key, value = self.lines[place[:end]]
                return value if end == len(place) else key
        return 0

    def key_line(self, *place: str | int) -> int:
        """The line of the key at ``place``."""
        return self.lines[place][0] if place in self.lines else self.line(*place)

    def unit(self, place: Place) -> Place:
        """The part that a fault at ``place`` makes unusable: the whole entry, if it is in a named one."""
        return place[:2] if place and place[0] in self.named else place


class _RefusedError(Exception):
    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line, self.what = line, what


class _Nodes(Composer, _Parser, Resolver):
    """Composes the nodes of one document, without aliases: a few lines of those can stand for a billion nodes."""

    def __init__(self, text: str, most_depth: int) -> None:
        _Parser.__init__(self, text)
        Composer.__init__(self)
        Resolver.__init__(self)
        self._most_depth = most_depth
        self._depth = 0
        self._count = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event: Any = self.peek_event()
        line = int(event.start_mark.line) + 1
        if isinstance(event, yaml.AliasEvent):
            raise _RefusedError(line, f"aliases (*{event.anchor}) are not taken; write it out")
        if self._depth >= self._most_depth:
            raise _RefusedError(line, f"nested more than {self._most_depth} levels deep; no such file needs that")
        self._count += 1
        if self._count > NODES_LIMIT:
            raise _RefusedError(line, f"more than {NODES_LIMIT:,} keys and values; no such file needs that")
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def read(
    text: str, file: str, faults: list[FileFault], *, named: Collection[str] = (), depth: int = DEPTH_LIMIT
) -> Document | None:
    """The document in ``text``, or None if it is no YAML that is accepted here. Faults are added to ``faults``.

    The keys ``named`` hold named entries: a mapping, or a list whose items have a ``name``.

    1. Refuse a file that is too large.
    2. Compose nodes, within bounds on depth and count and without aliases; explain what is not YAML.
    3. Turn nodes into values, each with its line. Refuse merge keys, keys given twice and tags.
    """
    if len(text) > SIZE_LIMIT:
        what = f"it has {len(text):,} characters, and {SIZE_LIMIT:,} is the most; is it the right file?"
        faults.append(FileFault(file, 0, what))
        return None
    try:
        node = _Nodes(text, depth).get_single_node()
    except _RefusedError as refused:
        faults.append(FileFault(file, refused.line, refused.what))
        return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        advice = "text with ': ', '#' or a leading * has to stand in '…'"
        if "escape" in what:
            advice = "in \"…\" a backslash has to be doubled, in '…' it stands for itself"
        faults.append(FileFault(file, mark.line + 1 if mark is not None else 0, f"not YAML: {what}; {advice}"))
        return None
    except yaml.YAMLError as error:
        faults.append(FileFault(file, 0, f"not YAML: {' '.join(str(error).split())[:200]}; save it as UTF-8 text"))
        return None
    values = _Values(file, frozenset(named), faults)
    return Document(file, None if node is None else values.of(node, (), _line(node)), values.lines, frozenset(named))


class _Values:
    def __init__(self, file: str, named: frozenset[str], faults: list[FileFault]) -> None:
        self._file = file
        self._named = named
        self._faults = faults
        self.lines: dict[Place, tuple[int, int]] = {}

    def of(self, node: Node, place: Place, key_line: int) -> Any:
        self.lines[place] = key_line, _line(node)
        tag = str(node.tag).removeprefix("tag:yaml.org,2002:")
        if isinstance(node, MappingNode) and tag == "map":
            return self._mapping(node, place)
        if isinstance(node, SequenceNode) and tag == "seq":
            if len(place) == 1 and place[0] in self._named:
                return self._by_name(node, place)
            return [self.of(item, (*place, index), _line(item)) for index, item in enumerate(node.value)]
        if isinstance(node, ScalarNode) and tag in _SCALARS:
            return _SCALARS[tag](str(node.value))
        return _Refused(tag)

    def _mapping(self, node: MappingNode, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            tag = str(key.tag).removeprefix("tag:yaml.org,2002:")
            if not isinstance(key, ScalarNode) or tag not in _SCALARS:
                what = {"merge": "<<, which is not taken: write it out"}.get(tag, _kind(_Refused(tag)))
                self._fault(_line(key), f"{_where(place)}a key has to be a name, not {what}")
            else:
                self._put(found, str(key.value), value, place, _line(key))
        return found

    def _by_name(self, node: SequenceNode, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for item in node.value:
            pairs = item.value if isinstance(item, MappingNode) else []
            names = [value for key, value in pairs if key.value == "name"]
            if not names or not isinstance(names[0], ScalarNode):
                self._fault(_line(item), f"{_where(place)}an item without a name; add 'name: …'")
                continue
            rest = MappingNode(item.tag, [pair for pair in pairs if pair[0].value != "name"], item.start_mark)
            self._put(found, str(names[0].value), rest, place, _line(item))
        return found

    def _put(self, found: dict[str, Any], key: str, value: Node, place: Place, line: int) -> None:
        inside = (*place, key)
        if key in found:
            before = self.lines[inside][0]
            self._fault(line, f"{_where(place)}{_shown(key)} stands twice (line {before}); rename or remove one")
        else:
            found[key] = self.of(value, inside, line)

    def _fault(self, line: int, what: str) -> None:
        if len(self._faults) < MOST_FAULTS:
            self._faults.append(FileFault(self._file, line, what))


@dataclass(frozen=True)
class _Refused:
    """A value of a type that is not accepted, by its YAML tag."""

    tag: str


def _number(text: str) -> float | str:
    # Only the usual notations of numbers; 0x10 and 1:30 stay text.
    if len(text) > 40 or re.fullmatch(r"[-+]?[\d_]*\.?[\d_]*(?:[eE][-+]?\d+)?", text, re.ASCII) is None:
        return text
    try:
        return int(text) if re.fullmatch(r"[-+]?[\d_]+", text, re.ASCII) else float(text)
    except ValueError:
        return text


_SCALARS: Final[Mapping[str, Any]] = {
    "str": str,
    "int": _number,
    "float": _number,
    "bool": lambda text: text.lower() in {"true", "yes", "on"},
    "null": lambda _: None,
    "timestamp": lambda _: _Refused("timestamp"),
}


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


# pydantic's errors → faults.

_WANTED: Final = {
    "string": "text, quoted if need be: '…'",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "list": "a list: [one, two]",
    "dict": "'name: …' lines, each with its fields",
}


def checked(model: type[M], document: Document, faults: list[FileFault]) -> tuple[M | None, frozenset[Place]]:
    """The document as a ``model``, and the places that were left out because of faults. None: nothing is left.

    1. Validate. On errors, add them to ``faults``.
    2. Leave out the faulty values, or the whole named entries around them, and validate the rest.
    3. Errors that only follow from what was left out are not reported. Try this twice.
    """
    value, left_out = document.value, frozenset[Place]()
    for reported in (False, True, True):
        try:
            return model.model_validate(value), left_out
        except ValidationError as invalid:
            errors = invalid.errors(include_url=False)
        if not reported:
            faults += [_fault(error, model, document) for error in errors[: max(0, MOST_FAULTS - len(faults))]]
        left_out |= {document.unit(error["loc"]) for error in errors}
        value = _prune(document.value, left_out, ())
    return None, left_out


def _prune(value: Any, left_out: Collection[Place], place: Place) -> Any:
    if isinstance(value, dict):
        parts = ((key, part, (*place, key)) for key, part in value.items())
        return {key: _prune(part, left_out, inside) for key, part, inside in parts if inside not in left_out}
    if isinstance(value, list):
        items = ((item, (*place, index)) for index, item in enumerate(value))
        return [_prune(item, left_out, inside) for item, inside in items if inside not in left_out]
    return value


def _fault(error: ErrorDetails, model: type[BaseModel], document: Document) -> FileFault:
    kind, value, place = error["type"], error["input"], error["loc"]
    context = error.get("ctx", {})
    line, where = document.line(*place), _where(place)
    if place and place[-1] == "[key]":
        place = place[:-1]
        line, where = document.key_line(*place), _where(place[:-1])
    elif isinstance(value, dict | list):
        line = document.key_line(*place)
    if kind == "extra_forbidden":
        known = _keys(_type_at(model, place[:-1]))
        near = nearest(str(place[-1]), known) or f"; there are: {', '.join(known)}"
        what = f"{_where(place[:-1])}unknown key {_shown(place[-1])}{near}"
        return FileFault(document.file, document.key_line(*place), what)
    what = error["msg"][:200]
    if kind == "value_error":
        what = str(context["error"])
    elif kind == "missing":
        what = "is missing; add it"
    elif kind == "literal_error":
        known = re.findall(r"'([^']*)'", context["expected"])
        what = f"is {_kind(value)}; it has to be one of {', '.join(known)}"
        if isinstance(value, str):
            what = f"{_shown(value)} is none of {', '.join(known)}{nearest(value, known)}"
    elif kind == "string_too_long":
        what = f"has {len(value):,} characters, and {context['max_length']:,} is the most; shorten it"
    elif kind == "model_type":
        keys = ", ".join(_keys(_type_at(model, place)))
        what = f"is {_kind(value)}; it has to be 'key: value' lines ({keys})"
    elif kind.removesuffix("_type") in _WANTED:
        what = f"is {_kind(value)}; it has to be {_WANTED[kind.removesuffix('_type')]}"
    return FileFault(document.file, line, _sentence(where, what))


def _sentence(where: str, what: str) -> str:
    """``what`` as a sentence about ``where``, which is empty or ends in a colon; some sentences omit the colon."""
    return f"{where.removesuffix(': ') or 'the file'} {what}" if what.startswith(("is ", "has ")) else where + what


def _type_at(annotation: Any, place: Place) -> Any:
    """The type at ``place`` in a value of the type ``annotation``."""
    for part in place:
        annotation = _plain(annotation)
        origin = get_origin(annotation)
        if origin is dict:
            annotation = get_args(annotation)[1]
        elif origin is list:
            annotation = get_args(annotation)[0]
        else:
            field = getattr(annotation, "model_fields", {}).get(part)
            annotation = field.annotation if field is not None else None
    return _plain(annotation)


def _plain(annotation: Any) -> Any:
    while get_origin(annotation) in {Annotated, Union, UnionType}:
        annotation = get_args(annotation)[0]
    return annotation


def _keys(model: Any) -> Iterable[str]:
    return tuple(getattr(model, "model_fields", {}))


def _where(place: Place) -> str:
    words = [part if isinstance(part, str) and re.fullmatch(r"[\w.-]{1,60}", part) else _shown(part) for part in place]
    return f"{'.'.join(words)}: " if words else ""


def _shown(value: object) -> str:
    if isinstance(value, str):
        return repr(value[:60])
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else _kind(value)


def _kind(value: object) -> str:
    """The kind of ``value``, in words."""
    if isinstance(value, _Refused):
        known = {"seq": "a list", "map": "a mapping", "timestamp": "a time"}
        return known.get(value.tag) or f"tagged {value.tag[:60]!r}, which is not taken"
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float) and math.isfinite(value):
        return "a number"
    return {dict: "a mapping", list: "a list", type(None): "empty"}.get(type(value), "no finite number")
