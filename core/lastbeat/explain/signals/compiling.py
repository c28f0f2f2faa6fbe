"""YAML files of catalogues → ``compiled.json``, which loads fast, without PyYAML and pydantic.

``python -m lastbeat.explain.signals.compiling`` makes ``catalog/compiled.json`` of the built-in catalogues.
Run it after changing one; a test checks that both agree. With ``--own NAMES-OR-PATHS --out FILE`` it adds users'
files, for a place where only JSON can be read (``infra/package.sh``).
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from lastbeat.explain.signals import catalogue_files
from lastbeat.explain.signals.composing import Draft, DraftEntry, compose, in_order
from lastbeat.explain.signals.loading import COMPILED, CatalogueError, drafts_of, is_path, names, read_file, wanted_of
from lastbeat.model.file_fault import FileFault


class UserCatalogues(NamedTuple):
    """Users' catalogues, compiled."""

    setting: str
    """The value of LASTBEAT_SIGNALS for :attr:`text` as ``compiled.json``: names instead of paths."""
    text: str
    """The built-in and the users' catalogues, as text of ``compiled.json``."""


def compile_user_catalogues(setting: str, read: Callable[[str], str] = read_file) -> UserCatalogues:
    """Compile the catalogues that ``setting`` (as LASTBEAT_SIGNALS) names. A file becomes a catalogue with its name,
    without folder and ending. Raises :class:`CatalogueError` with all faults."""
    wanted = wanted_of(setting)
    drafts = [draft for draft in drafts_of(wanted, read)[0] if is_path(draft.file)]
    called: dict[str, str] = {}
    faults: list[FileFault] = []
    for draft in drafts:
        name = PurePosixPath(draft.file).stem.lower()
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in names() or name in called.values():
            what = (
                f"its name, {name!r}, cannot be a catalogue's: rename it to lower-case letters, digits and _, a letter"
            )
            faults.append(FileFault(draft.file, 0, f"{what} first, and to what no other catalogue has"))
        called[draft.file] = name
    if faults:
        raise CatalogueError(faults)
    documents: dict[str, Mapping[str, Any]] = json.loads(COMPILED.read_bytes())
    for draft in drafts:
        document = _document(draft)
        bases = [called.get(base, base) for base in draft.extends or ()]
        documents[called[draft.file]] = {**document, **({"extends": bases} if bases else {})}
    return UserCatalogues(",".join(called.get(name, name) for name in wanted), _text(documents))


def built_in(folder: Path) -> dict[str, Draft]:
    """Name → catalogue for each file in ``folder``. Raises :class:`CatalogueError` with the faults of all files."""
    faults: list[FileFault] = []
    drafts = {
        path.stem: catalogue_files.draft_of_file(path.read_text("utf-8"), path.name, faults)
        for path in sorted(folder.glob("*.yaml"))
    }
    for name, draft in drafts.items():
        for base, line in (draft.extends or {}).items():
            if base not in drafts:
                faults.append(FileFault(draft.file, line, f"there is no {base}.yaml in {folder.name}"))
        if not draft.description and not any(fault.file == draft.file for fault in faults):
            faults.append(FileFault(draft.file, 1, "it has no description; say what it is for"))
        compose(name, in_order([name], drafts.get, faults), faults)
    if faults:
        raise CatalogueError(faults)
    return drafts


def compiled(folder: Path) -> str:
    """The text of ``compiled.json`` for the YAML files in ``folder``."""
    return _text({name: _document(draft) for name, draft in built_in(folder).items()})


def _text(said: Mapping[str, Mapping[str, Any]]) -> str:
    return "{\n" + ",\n".join(f"{_short(name)}: {_lines(document)}" for name, document in said.items()) + "\n}\n"


def _lines(document: Mapping[str, Any]) -> str:
    """``document`` as JSON with a signal on each line, so that changes are readable and the file is small."""
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


def _fields(entries: Mapping[str, DraftEntry]) -> dict[str, Any]:
    return {
        name: {key: value for key, value in entry.fields.items() if value is not None}
        for name, entry in entries.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command, see the module's docstring. Returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--own", metavar="NAMES-OR-PATHS", help="users' catalogues, as LASTBEAT_SIGNALS names them")
    parser.add_argument("--out", type=Path, default=COMPILED)
    args = parser.parse_args(arguments)
    try:
        text = compiled(COMPILED.parent) if args.own is None else compile_user_catalogues(args.own).text
    except CatalogueError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command for people
        return 1
    args.out.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
