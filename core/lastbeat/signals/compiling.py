"""``python -m lastbeat.signals.compiling``: the YAML files of the built-in catalogues → ``catalog/compiled.json``.

For people who change a catalogue. A test holds that both say the same.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lastbeat.signals import checking
from lastbeat.signals.composing import compose, in_order
from lastbeat.signals.drafts import Draft, Entry, Fault
from lastbeat.signals.loading import COMPILED, CatalogueError


def drafts_of(folder: Path) -> dict[str, Draft]:
    """Every catalogue in ``folder`` by name; raises with all faults of all of them."""
    faults: list[Fault] = []
    drafts = {
        path.stem: checking.draft(path.read_text("utf-8"), path.name, faults) for path in sorted(folder.glob("*.yaml"))
    }
    for name, draft in drafts.items():
        for base, line in (draft.extends or {}).items():
            if base not in drafts:
                faults.append(Fault(draft.file, line, f"there is no {base}.yaml in {folder.name}"))
        if not draft.description and not any(fault.file == draft.file for fault in faults):
            faults.append(Fault(draft.file, 1, "it has no description; say what it is for"))
        compose(name, in_order([name], drafts.get, faults), faults)
    if faults:
        raise CatalogueError(faults)
    return drafts


def compiled(folder: Path) -> str:
    """The text of ``compiled.json`` for the YAML files in ``folder``."""
    said = {name: _document(draft) for name, draft in drafts_of(folder).items()}
    return "{\n" + ",\n".join(f"{_short(name)}: {_lines(document)}" for name, document in said.items()) + "\n}\n"


def _lines(document: Mapping[str, Any]) -> str:
    """A signal a line: so a change can be read, and the file is as small as it need be."""
    parts = []
    for key, value in document.items():
        rows = (
            ",\n".join(f"  {_short(name)}: {_short(fields)}" for name, fields in value.items())
            if key == "signals"
            else ""
        )
        parts.append(f" {_short(key)}: {{\n{rows}\n }}" if rows else f" {_short(key)}: {_short(value)}")
    return "{\n" + ",\n".join(parts) + "\n}"


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _document(draft: Draft) -> dict[str, Any]:
    whole = {
        "extends": list(draft.extends or ()),
        "description": draft.description,
        "signals": _fields(draft.signals),
        "absences": _fields(draft.absences),
        "error_types": _fields(draft.error_types),
        "limits": dict(draft.limits),
        "silence": list(draft.silence),
    }
    return {key: value for key, value in whole.items() if value}


def _fields(entries: Mapping[str, Entry]) -> dict[str, Any]:
    return {
        name: {key: value for key, value in entry.fields.items() if value is not None}
        for name, entry in entries.items()
    }


def main() -> None:
    """Write ``compiled.json`` anew."""
    COMPILED.write_text(compiled(COMPILED.parent), "utf-8")


if __name__ == "__main__":
    main()
