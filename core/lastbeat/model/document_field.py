"""Fields of the documents of a run. Training writes them, and people do so by hand too.

A dataclass declares with :func:`document_field` what a field is called in the document, how it is read and what it
says. :func:`read_fields` reads all of them; each is usable where its neighbours are broken. The JSON Schemas and
docs/heartbeats.md are made from the same declarations.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, field, fields
from datetime import datetime, timedelta, timezone
from typing import Any, Final, TypeVar

from lastbeat.model.data import dataclass
from lastbeat.model.json_values import amount, finite, number, whole
from lastbeat.model.runid import METADATA, PROGRESS
from lastbeat.model.text import clean, fit, one_line, owner_name
from lastbeat.model.times import format_time, parse_time

RANK: Final = "ranks/{rank}.json"
HEARTBEATS: Final = (METADATA, PROGRESS)
PLAUSIBLE: Final = timedelta(days=3653)
"""No clock is off by ten years, and no span is that long, but placeholders are (year 1, 9999)."""
_LIMIT_MIN: Final = 30 * 24 * 60
"""Minutes. A longer limit of a run's own is a mistake."""
_TEXT_CHARS: Final = 200
_MARK_CHARS: Final = 200
NAME_CHARS: Final = 100
_MOST_TEXTS: Final = 20
"""How many items of a list of texts are read."""
_KEY: Final = "document_field"
_declared: dict[type[Any], Mapping[str, "DocumentField"]] = {}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading a document needs beside its values."""

    modified: datetime
    """When the store got the document."""
    mask: Callable[[str], str]
    """Hides secrets in its text. It comes before a cut, which could leave part of a secret behind."""
    shown: Callable[[str], str] = str
    """Makes text fit to be shown, once it is masked and cut."""

    def text(self, value: object) -> str | None:
        """``value``, a text or a number, as bounded text; None if nothing is left of it."""
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            return None
        return self.shown(self.mask(str(value))[:_TEXT_CHARS]) or None

    def name(self, value: object) -> str | None:
        """A text as a short name, or None if it is blank or no text."""
        return fit(self.mask(value), NAME_CHARS) if isinstance(value, str) and value.strip() else None

    def time(self, value: object) -> datetime | None:
        """``value`` as a time that is plausible for this document."""
        when = parse_time(value)
        return when if when is not None and abs(when - self.modified) < PLAUSIBLE else None


UNSTAMPED: Final = Reading(datetime.fromtimestamp(0, timezone.utc), str)
"""Ignores the time of the document, and leaves its text unmasked."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """How the values of a field are read, and what they look like where lastbeat writes them."""

    read: Callable[[Any, Reading], Any]
    """Returns None, or the field's empty value, for what makes no sense. Never raises."""
    schema: Mapping[str, Any]
    """JSON Schema of what lastbeat writes; ``read`` takes more than that."""


@dataclass(frozen=True, slots=True)
class DocumentField:
    """One field of a document, or of an object in it."""

    name: str
    """In the document."""
    type: FieldType
    says: str = ""
    """What it means, in a sentence or two. Empty where its name says it."""
    files: tuple[str, ...] = (METADATA,)
    """The documents that have it."""
    required: bool = False
    """An object without it makes no sense."""
    apart: bool = False
    """People see it in a place of its own, so it is left out where a document's other fields are listed as they are."""
    label: str = ""
    """Under this name people see it beside its document; empty if it has another place or none."""


def document_field(  # noqa: PLR0913 - a row of a table has as many columns as it needs
    name: str,
    type: FieldType,  # noqa: A002 - the field's word, as in DocumentField
    says: str = "",
    *,
    default: Any = None,
    files: tuple[str, ...] = (METADATA,),
    required: bool = False,
    apart: bool = False,
    label: str = "",
) -> Any:
    """Declare a field of a dataclass that is read from the document's ``name``; ``default`` is its value where the
    document does not have it."""
    about = {_KEY: DocumentField(name, type, says, files, required, apart, label)}
    if required or default is MISSING:
        return field(metadata=about)
    return field(default_factory=dict, metadata=about) if default == {} else field(default=default, metadata=about)


def declared(kind: type[Any]) -> Mapping[str, DocumentField]:
    """Attribute of ``kind`` → the field of a document that it is read from."""
    found = _declared.get(kind)
    if found is None:
        found = {each.name: each.metadata[_KEY] for each in fields(kind) if _KEY in each.metadata}
        _declared[kind] = found
    return found


def read_fields(kind: type[Any], document: Mapping[str, object], reading: Reading) -> dict[str, Any]:
    """Attribute of ``kind`` → its value, for the fields of ``document`` that make sense. Never raises."""
    return {
        attribute: value
        for attribute, each in declared(kind).items()
        if each.name in document and (value := each.type.read(document[each.name], reading)) is not None
    }


def read_object(kind: type[T], value: Mapping[str, object], reading: Reading, **absent: object) -> T | None:
    """A ``kind`` made of an object in a document, or None if a required field is missing or broken. ``absent`` are the
    values of other fields that have no default. Never raises."""
    known = read_fields(kind, value, reading)
    complete = all(attribute in known for attribute, each in declared(kind).items() if each.required)
    return kind(**{**absent, **known}) if complete else None


def written(value: object) -> dict[str, Any]:
    """The fields of a document that ``value`` declares; None for those that are unknown."""
    held = {each.name: getattr(value, attribute) for attribute, each in declared(type(value)).items()}
    return {name: format_time(each) if isinstance(each, datetime) else each for name, each in held.items()}


def objects(value: object, most: int) -> list[dict[str, Any]]:
    """The objects among the first ``most`` items of ``value``; none if that is no list."""
    return [each for each in value[:most] if isinstance(each, dict)] if isinstance(value, list) else []


def count(value: object) -> int | None:
    """``value`` as a whole number that is not negative."""
    found = whole(value)
    return found if found is not None and found >= 0 else None


# Schemas.


def array_of(items: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a list."""
    return {"type": "array", "items": items}


def row_of(*items: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a list of exactly these items."""
    return {"type": "array", "prefixItems": list(items), "minItems": len(items), "maxItems": len(items)}


def map_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of an object whose keys are names."""
    return {"type": "object", "additionalProperties": values}


def object_of(members: Iterable[DocumentField]) -> dict[str, Any]:
    """The JSON Schema of an object with ``members``, and perhaps others."""
    members = list(members)
    required = [each.name for each in members if each.required]
    return {
        "type": "object",
        "properties": properties(members),
        **({"required": required} if required else {}),
    }


def properties(members: Iterable[DocumentField]) -> dict[str, Any]:
    """Name → JSON Schema with its sentence."""
    return {each.name: {**each.type.schema, **({"description": each.says} if each.says else {})} for each in members}


def nullable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a value that may be unknown."""
    return {"anyOf": [schema, {"type": "null"}]}


# Types of fields.


def line_of(most: int) -> FieldType:
    """One line of text, at most ``most`` characters; empty for anything else."""
    return FieldType(
        lambda value, reading: fit(one_line(reading.mask(value)), most) if isinstance(value, str) else "",
        {"type": "string"},
    )


def text_of(most: int) -> FieldType:
    """Text that keeps its lines, at most ``most`` characters; empty for anything else."""
    return FieldType(
        lambda value, reading: fit(clean(reading.mask(value)).strip(), most) if isinstance(value, str) else "",
        {"type": "string"},
    )


def one_of(words: Iterable[str]) -> FieldType:
    """One of ``words``."""
    # An enumeration of texts is equal to them.
    known = {word: word for word in words}
    return FieldType(lambda value, _: known.get(value) if isinstance(value, str) else None, {"type": "string"})


def unread(schema: Mapping[str, Any]) -> FieldType:
    """The type of a field that no reader takes from the table."""
    return FieldType(lambda _, __: None, schema)


ANY_NUMBER: Final = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
"""JSON has no such numbers, so these three are written as text."""
_RUN_ID: Final = r"^(?!\.{1,2}$)(?!_)[A-Za-z0-9._+=@:-]{1,200}$"
_POSITIVE: Final = {"type": "number", "exclusiveMinimum": 0}


def _offset(value: object, _: Reading) -> float | None:
    offset_s = finite(value)
    return offset_s if offset_s is not None and abs(offset_s) < PLAUSIBLE.total_seconds() else None


def _span(value: object, _: Reading) -> float | None:
    span_s = finite(value)
    return span_s if span_s is not None and 0 < span_s < PLAUSIBLE.total_seconds() else None


def _age(value: object, _: Reading) -> float | None:
    age_s = finite(value)
    return age_s if age_s is not None and 0 <= age_s < PLAUSIBLE.total_seconds() else None


def _minutes(value: object, _: Reading) -> float | None:
    """Minutes as seconds, 60 at least: a smaller limit would have each look write."""
    span_min = finite(value)
    return max(span_min, 1.0) * 60 if span_min is not None and 0 < span_min <= _LIMIT_MIN else None


def _share(value: object, _: Reading) -> float | None:
    share = finite(value)
    return share if share is not None and 0 <= share <= 1 else None


def _texts(value: object, reading: Reading) -> tuple[str, ...]:
    texts = (reading.name(text) for text in (value[:_MOST_TEXTS] if isinstance(value, list) else ()))
    return tuple(text for text in texts if text is not None)


def _mark(value: object, _: Reading) -> str | None:
    return value if isinstance(value, str) and len(value) <= _MARK_CHARS else None


WHOLE: Final = FieldType(lambda value, _: whole(value), {"type": "integer"})
COUNT: Final = FieldType(lambda value, _: count(value), {"type": "integer", "minimum": 0})
NUMBER: Final = FieldType(lambda value, _: number(value), ANY_NUMBER)
"""May be NaN or infinite."""
AMOUNT: Final = FieldType(lambda value, _: amount(value), {"type": "number"})
"""Not negative, and finite."""
SHARE: Final = FieldType(_share, {"type": "number", "minimum": 0, "maximum": 1})
"""From 0 to 1."""
OFFSET: Final = FieldType(_offset, {"type": "number"})
SPAN: Final = FieldType(_span, _POSITIVE)
"""Seconds, more than 0."""
AGE: Final = FieldType(_age, {"type": "number", "minimum": 0})
"""Seconds, perhaps 0."""
MINUTES: Final = FieldType(_minutes, _POSITIVE)
TIME: Final = FieldType(lambda value, reading: reading.time(value), {"anyOf": [{"type": "string"}, {"type": "number"}]})
TEXT: Final = FieldType(lambda value, reading: reading.text(value), {"type": "string"})
WORD: Final = FieldType(
    lambda value, reading: reading.text(value) if isinstance(value, str) else None, {"type": "string"}
)
"""As TEXT, but a number is none."""
PERSON: Final = FieldType(lambda value, reading: owner_name(reading.text(value)), {"type": "string"})
"""A person's name or a team's."""
NAME: Final = FieldType(lambda value, reading: reading.name(value), {"type": "string"})
"""As TEXT, but shorter, and nothing else than text."""
TEXTS: Final = FieldType(_texts, array_of({"type": "string"}))
"""A list of texts."""
MARK: Final = FieldType(_mark, {"type": "string"})
"""Compared and never shown, so it is not masked."""
PLAIN_TIME: Final = FieldType(lambda value, _: parse_time(value), {"type": "string"})
"""As TIME, where the document's own time is unknown."""
FLAG: Final = FieldType(lambda value, _: value is True, {"type": "boolean"})
RUN_ID: Final = unread({"type": "string", "pattern": _RUN_ID})
"""A document's place says whose it is."""
