"""JSON Schema of the documents that others write or read: a run's heartbeats, its record, a catalogue, limits.

The types in the code are the source, so they cannot say anything else. For heartbeats, which any program may write,
the table of their fields says what lastbeat reads; it reads far worse documents than these.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, Final, get_args

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from lastbeat.explain.signals.catalogue_files import CatalogueFile
from lastbeat.model.document_field import nullable, object_of
from lastbeat.model.figures import Figures
from lastbeat.model.persisted import Persisted
from lastbeat.model.record import SCHEMA, Record
from lastbeat.model.runid import METADATA, PROGRESS
from lastbeat.model.state import State
from lastbeat.views.heartbeats import fields_of
from lastbeat.watch.record.fleet_document import SCHEMA as LIMITS_SCHEMA
from lastbeat.watch.record.limits_file import FileOfLimits

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
# Types → schemas.


class _Generator(GenerateJsonSchema):
    """With the docstrings of the fields, without the titles that pydantic makes up."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's face
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        return {key: value for key, value in made.items() if (key, value) != ("default", None)}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _described(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _described(super().dataclass_schema(schema), schema["cls"])


class _RecordGenerator(_Generator):
    """The form in which :mod:`lastbeat.model.codec` writes."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        made = super().dataclass_schema(schema)
        # What is not known is not said: any further field may be there.
        properties = {name: value for name, value in made["properties"].items() if name != "unknown"}
        return {**made, "properties": properties}


def _flattened(definitions: Mapping[str, Any]) -> dict[str, Any]:
    """``definitions`` with the fields of flat parts moved to their parents. Those of a part that may be None are
    optional there."""
    flat = [
        (kind.__name__, each)
        for kind in Persisted.__subclasses__()
        for each in fields(kind)
        if each.metadata.get("flat") and kind.__name__ in definitions
    ]
    made = {name: dict(definition) for name, definition in definitions.items()}
    for parent, field in flat:
        kinds: tuple[Any, ...] = get_args(field.type)
        part = made[(*kinds, field.type)[0].__name__]
        needed = part.get("required", [])
        optional = set(needed) if kinds else set()
        members = {name: nullable(value) if name in optional else value for name, value in part["properties"].items()}
        own = made[parent]["properties"]
        made[parent]["properties"] = {
            name: value
            for known, whole in own.items()
            for name, value in (members.items() if known == field.name else [(known, whole)])
        }
        required = [name for name in made[parent].get("required", []) if name != field.name]
        made[parent]["required"] = [*([] if kinds else needed), *required]
    return made


def _described(made: JsonSchemaValue, cls: type[Any]) -> JsonSchemaValue:
    said = {name: text for each in reversed(cls.__mro__) for name, text in _sentences(each)}
    properties = {
        name: {**value, "description": said[name]} if name in said else value
        for name, value in made.get("properties", {}).items()
    }
    whole = _text(cls.__doc__ or "")
    return {**made, **({"description": whole} if whole else {}), **({"properties": properties} if properties else {})}


def _sentences(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """Field → its docstring, for one of our classes."""
    if not cls.__module__.startswith("lastbeat."):
        return
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)  # noqa: S101 - what the source of a class is
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            yield field.target.id, _text(below.value.value)


def _text(docstring: str) -> str:
    return " ".join(docstring.replace("``", "`").split())


def _heartbeat(file: str, says: str) -> dict[str, Any]:
    # Unknown fields are left alone.
    return {"description": says, **object_of(fields_of(file)), "additionalProperties": True}


def _record() -> dict[str, Any]:
    made = TypeAdapter(Record).json_schema(schema_generator=_RecordGenerator)
    version = {"type": "integer", "minimum": 1, "description": f"Version of the format; this is of {SCHEMA}."}
    definitions = _flattened({**made["$defs"], Record.__name__: made})
    record = definitions.pop(Record.__name__)
    for part in (State, Figures):
        del definitions[part.__name__]
    return {
        **record,
        "description": "_watchdog.json: the watchdog's whole memory of one run, written by the watchdog alone.",
        "properties": {"schema": version, **record["properties"]},
        "required": ["schema", *record["required"]],
        "$defs": definitions,
    }


def _catalogue() -> dict[str, Any]:
    return CatalogueFile.model_json_schema(schema_generator=_Generator)


def _limits() -> dict[str, Any]:
    made = FileOfLimits.model_json_schema(schema_generator=_Generator)
    version = {"type": "integer", "minimum": 1, "description": f"Version of the format; this is of {LIMITS_SCHEMA}."}
    required = ["schema", *made["required"]]
    return {**made, "properties": {"schema": version, **made["properties"]}, "required": required}


def _answer() -> dict[str, Any]:
    text = {"type": "string", "minLength": 1}
    error = {"message": text, "advice": {**text, "type": ["string", "null"]}}
    properties: dict[str, Any] = {
        "schema": {"const": 1, "description": "Version of this envelope."},
        "version": {**text, "description": "The version of lastbeat that answers."},
        "data": {
            "type": ["object", "null"],
            "description": "The answer; null if there is none. Its keys stand beside `data`, too.",
        },
        "errors": {
            "type": "array",
            "description": "What was wrong, and what to do about it.",
            "items": {"type": "object", "properties": error, "required": list(error)},
        },
    }
    says = (
        "What commands print with --json, except for `watch`, `logs`, `agent` and documents with a schema of their own."
    )
    return {"description": says, "type": "object", "properties": properties, "required": list(properties)}


SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "metadata": partial(
        _heartbeat, METADATA, "metadata.json: a run's liveness heartbeat, written every so often by training."
    ),
    "progress": partial(_heartbeat, PROGRESS, "progress.json: a run's progress heartbeat, optional."),
    "record": _record,
    "catalogue": _catalogue,
    "limits": _limits,
    "answer": _answer,
}
"""Document → its schema's maker."""


def schema(name: str) -> dict[str, Any]:
    """The schema of one of :data:`SCHEMAS`."""
    return {"$schema": DIALECT, **SCHEMAS[name](), "title": f"lastbeat: {name}"}
