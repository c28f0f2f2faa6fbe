"""How a dataclass declares the way it is kept, for :mod:`lastbeat.codec`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Final


@dataclass(frozen=True)
class Persisted:
    """Part of a document that older and newer versions of lastbeat read and rewrite side by side.

    ``unknown`` holds the parts that this version does not know, as JSON data: fields of a newer version, and entries of
    a list or mapping with a word that a newer version added. ``dataclasses.replace`` carries it along, so a rewrite
    returns it unchanged.
    """

    unknown: Mapping[str, Any] = field(default_factory=dict, kw_only=True, compare=False, repr=False)


class Form(str, Enum):
    """The shape in which a dataclass is written, set in its class variable ``FORM``."""

    OBJECT = "object"
    ROW = "row"
    """A JSON array of the fields in order, for objects kept by the thousand. Newer versions add fields at the end."""
    SPARSE = "sparse"
    """An object without the fields that have their default value."""


class _NonFinite:
    """Marks a number that may be NaN or infinite."""

    def __get_pydantic_json_schema__(self, _schema: object, _handler: object) -> dict[str, Any]:
        """For :mod:`lastbeat.schemas`: JSON has no such numbers, so they are written as text."""
        return {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}


AnyFloat = Annotated[float, _NonFinite()]
"""A float from training, so it may be NaN, infinite, or of any size. Plain ``float`` fields are finite."""


class _InBase64:
    """Marks bytes that are written in base64."""


Base64 = Annotated[bytes, _InBase64()]
"""Arbitrary bytes, written in base64, a third longer. Plain ``bytes`` fields stay readable where they are ASCII, and
take six characters for every other byte."""

FLAT: Final = {"flat": True}
"""Metadata of a field whose own fields are written among its parent's."""
