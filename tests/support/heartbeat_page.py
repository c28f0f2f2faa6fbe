"""docs/heartbeats.md, made from the table of the fields of heartbeats."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lastbeat.model.document_field import ANY_NUMBER, HEARTBEATS, RANK, TIME, properties
from lastbeat.views.heartbeats import fields_of
from support.checkout import ROOT

PAGE = ROOT / "docs" / "heartbeats.md"
_HEAD = """\
# Fields of heartbeats

For people who write heartbeats themselves, or read them in a program.

Every field is optional, and each is used where its neighbours are broken. Documents may be hand-made: a number may be
text, and a time ISO 8601 or an epoch number. Fields of your own are left alone, and the run's page shows the first few.
`lastbeat report schema metadata` and `lastbeat report schema progress` print these tables as JSON Schema.
"""
_WHAT = {
    "metadata.json": "A run's liveness heartbeat.",
    "progress.json": "Its progress heartbeat.",
    RANK: "One rank's heartbeat, in a distributed training.",
}
_WORDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}


def page() -> str:
    """The text of docs/heartbeats.md."""
    return "\n".join([_HEAD, *(line for file in (*HEARTBEATS, RANK) for line in _table(file))])


def _table(file: str) -> Iterator[str]:
    yield from (f"## {file}", "", _WHAT[file], "", "| field | type | what it says |", "|---|---|---|")
    for name, schema in properties(fields_of(file)).items():
        yield from _rows(name, schema)
    yield ""


def _rows(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """The row of a field, and one for each field of the objects in it."""
    yield f"| `{name}` | {_type(schema)} | {schema.get('description', '')} |"
    known = _not_null(schema)
    item, path = (known["items"], f"{name}[]") if known.get("type") == "array" else (known, name)
    for member, each in item.get("properties", {}).items():
        yield from _rows(f"{path}.{member}", each)


def _not_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without null."""
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return kinds[0] if len(kinds) == 1 else schema


def _type(schema: Mapping[str, Any]) -> str:
    known = _not_null(schema)
    if known.get("anyOf") == ANY_NUMBER["anyOf"]:
        return "number, also `NaN`, `Infinity` or `-Infinity`"
    if known.get("anyOf") == TIME.schema["anyOf"]:
        return "time"
    if known["type"] == "array" and "items" in known:
        return f"list of {_type(known['items'])}"
    return _WORDS.get(known["type"], {"array": "row", "object": "object"}.get(known["type"], ""))


def written() -> dict[Path, str]:
    """The page → its text."""
    return {PAGE: page()}
