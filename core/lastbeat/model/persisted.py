"""How a dataclass declares the way it is kept, for :mod:`lastbeat.model.codec`."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Final

from lastbeat.model.data import dataclass


@dataclass(frozen=True)
class Persisted:
    """Part of a document whose rewrite keeps what this version does not know.

    ``unknown`` holds that as JSON data: unknown fields, and entries of a list or mapping with an unknown word.
    ``dataclasses.replace`` carries it along, so a rewrite returns it unchanged.
    """

    unknown: Mapping[str, Any] = field(default_factory=dict, kw_only=True, compare=False, repr=False)


class Form(str, Enum):
    """The shape in which a dataclass is written, set in its class variable ``FORM``."""

    OBJECT = "object"
    ROW = "row"
    """A JSON array of the fields in order, for objects kept by the thousand. New fields are added at the end.
    Fields of one :func:`part` share an array within it."""
    SPARSE = "sparse"
    """An object without the fields that have their default value."""


class _NonFinite:
    """Marks a number that may be NaN or infinite."""

    def __get_pydantic_json_schema__(self, _schema: object, _handler: object) -> dict[str, Any]:
        """For :mod:`lastbeat.views.schemas`: JSON has no such numbers, so they are written as text."""
        return {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}


AnyFloat = Annotated[float, _NonFinite()]
"""A float from training, so it may be NaN, infinite, or of any size. Plain ``float`` fields are finite."""


class _InBase64:
    """Marks bytes that are written in base64."""


Base64 = Annotated[bytes, _InBase64()]
"""Arbitrary bytes, written in base64, a third longer. Plain ``bytes`` fields stay readable where they are ASCII, and
take six characters for every other byte."""


class _InUnixSeconds:
    """Marks a time that is written as a number."""


UnixTime = Annotated[datetime, _InUnixSeconds()]
"""A time written as seconds since 1970, a number: a third as long as text, and read in a fraction of the time."""


@dataclass(frozen=True)
class Columns:
    """Marks a mapping whose keys are known: ``Annotated[Mapping[str, X], Columns(names)]`` is an array of the values in
    the order of ``names``, with ``absent`` for keys that the mapping does not have."""

    names: tuple[str, ...]
    absent: int = 0


@dataclass(frozen=True)
class KeyedBy:
    """Marks a mapping that is written as an array of its objects, each with its key as the field ``name``."""

    name: str


def part(name: str) -> Mapping[str, str]:
    """Metadata of fields of a class in :attr:`Form.ROW`: neighbours with the same ``name`` are written as one array.
    New fields are added at the end of a part."""
    return {"part": name}


TRANSIENT: Final = {"transient": True}
"""Metadata of a field that is not written."""

OMITTED: Final = {"omitted": True}
"""Metadata of a field that is not written while it has its default value."""

FLAT: Final = {"flat": True}
"""Metadata of a field whose own fields are written among its parent's. If it is None, its required
fields are null."""
