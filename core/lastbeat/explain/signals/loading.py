"""Loads a :class:`Catalogue` by name, or from users' files.

Built-in catalogues come from ``catalog/compiled.json``, which ``signals.compiling`` makes of the YAML files beside it,
because ``--once`` has no time to read YAML. In a Lambda function's zip it may contain users' catalogues too. YAML is
read only for users' own files.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any, Final

from lastbeat.explain import signals
from lastbeat.explain.signals.composing import CHECKED, Draft, DraftEntry, compose, in_order
from lastbeat.model.file_fault import FileFault
from lastbeat.model.signal import Catalogue, Signal
from lastbeat.model.text import nearest

DEFAULT: Final = "default"
COMPILED: Final = Path(__file__).with_name("catalog") / "compiled.json"
MOST_FAULTS: Final = 50
"""Most faults that an error lists."""
_FILE_LIMIT_BYTES: Final = 4 << 20
_composing: Final = Lock()


class CatalogueError(ValueError):
    """An unusable catalogue: the text names each fault with file and line, one per line."""

    def __init__(self, faults: Sequence[FileFault]) -> None:
        self.faults = tuple(sorted(set(faults)))
        said = [str(fault) for fault in self.faults[:MOST_FAULTS]]
        if len(self.faults) > MOST_FAULTS:
            said.append(f"… and {len(self.faults) - MOST_FAULTS} more")
        super().__init__("\n".join(said))


def names() -> tuple[str, ...]:
    """The names of the built-in catalogues."""
    return tuple(_compiled())


def description(name: str) -> str:
    """The description of the built-in catalogue ``name``."""
    return _built_in(name).description


def extends(name: str) -> tuple[str, ...]:
    """The names of the catalogues that the built-in catalogue ``name`` extends."""
    return tuple(_built_in(name).extends or ())


def load(name: str) -> Catalogue:
    """The built-in catalogue ``name``, the same object for all threads: logs share the matcher of their catalogue."""
    with _composing:
        return _composed(name)


@cache
def _composed(name: str) -> Catalogue:
    if name not in _compiled():
        raise CatalogueError([_unknown(name, "LASTBEAT_SIGNALS", 0)])
    faults: list[FileFault] = []
    return compose(name, in_order([name], _built_in, faults), faults)


def load_setting(text: str, read: Callable[[str], str]) -> Catalogue:
    """The catalogue for the setting LASTBEAT_SIGNALS: names and files, comma separated. Each outranks those before it.

    An empty ``text`` means ``default``. A first file without ``extends`` extends ``default``. ``read`` returns a file's
    text; it may raise OSError or UnicodeDecodeError. Raises :class:`CatalogueError` with all faults.
    """
    wanted = wanted_of(text)
    if len(wanted) == 1 and not is_path(wanted[0]):
        return load(wanted[0])
    return drafts_of(wanted, read)[1]


def wanted_of(text: str) -> list[str]:
    """The names and paths that ``text`` lists."""
    return [part.strip() for part in text.split(",") if part.strip()] or [DEFAULT]


def drafts_of(wanted: Sequence[str], read: Callable[[str], str]) -> tuple[list[Draft], Catalogue]:
    """All drafts that ``wanted`` names and extends, as :func:`load_setting`, and the resulting catalogue."""
    faults: list[FileFault] = []
    files = _Files(read, wanted[0], faults)
    drafts = in_order(wanted, files.draft, faults)
    found = compose(", ".join(wanted), drafts, faults)
    if faults:
        raise CatalogueError(faults)
    return drafts, found


def read_file(name: str) -> str:
    """The text of the file ``name``, cut after 4 MiB."""
    with Path(name).expanduser().open("rb") as file:
        return file.read(_FILE_LIMIT_BYTES).decode("utf-8")


def is_path(name: str) -> bool:
    """Whether ``name`` is a file's path: it has a slash or ends like one."""
    return "/" in name or name.endswith((".yaml", ".yml"))


class _Files:
    """Drafts by name or path."""

    def __init__(self, read: Callable[[str], str], first: str, faults: list[FileFault]) -> None:
        self._read = read
        self._first = first
        self._faults = faults

    def draft(self, name: str) -> Draft | None:
        if not is_path(name):
            if name not in _compiled():
                self._faults.append(_unknown(name, "LASTBEAT_SIGNALS", 0))
                return None
            return _built_in(name)
        try:
            text = self._read(name)
        except UnicodeDecodeError as error:
            self._faults.append(FileFault(name, 0, f"it is not UTF-8 text ({error.reason}); save it as that"))
            return None
        except OSError as error:
            why = error.strerror or type(error).__name__
            self._faults.append(FileFault(name, 0, f"it cannot be read: {why}; check the path"))
            return None
        try:
            draft_of_file = signals.catalogue_files.draft_of_file
        except ModuleNotFoundError as missing:
            package = "PyYAML" if missing.name == "yaml" else missing.name
            what = f"{package} is not installed here, which a file of your own needs; name built-in catalogues alone"
            advice = "a Lambda function gets such a file with 'lastbeat deploy --signals FILE'"
            self._faults.append(FileFault(name, 0, f"{what} ({advice})"))
            return None
        found = draft_of_file(text, name, self._faults)
        extends: Mapping[str, int] = {DEFAULT: 0} if name == self._first else {}
        if found.extends is not None:
            extends = {_beside(name, base): line for base, line in found.extends.items()}
        for base, line in extends.items():
            if not is_path(base) and base not in _compiled():
                self._faults.append(_unknown(base, name, line))
        known = {base: line for base, line in extends.items() if is_path(base) or base in _compiled()}
        return found._replace(extends=known)


def _beside(file: str, base: str) -> str:
    """The path that ``file`` names as ``base``; a relative one is relative to ``file``."""
    if not is_path(base) or base.startswith(("/", "~")) or "://" in base:
        return base
    beside = str(PurePosixPath(file).parent / base)
    # "./x" names a file and "x" would not.
    return beside if is_path(beside) else f"./{beside}"


def _unknown(name: str, file: str, line: int) -> FileFault:
    known = names()
    what = f"there is no built-in catalogue {name[:60]!r}{nearest(name, known)}; there are {', '.join(known)}; "
    return FileFault(file, line, f"{what}a file's path has a slash or ends in .yaml")


@cache
def _compiled() -> Mapping[str, Mapping[str, Any]]:
    loader = __spec__.loader if __spec__ is not None else None
    # Read by the loader, so that a package in a zip works too.
    data = loader.get_data(str(COMPILED)) if hasattr(loader, "get_data") else COMPILED.read_bytes()  # type: ignore[union-attr]
    found: Mapping[str, Mapping[str, Any]] = json.loads(data)
    return found


@cache
def _built_in(name: str) -> Draft:
    said = _compiled()[name]

    def entries(key: str) -> dict[str, DraftEntry]:
        return {each: DraftEntry(fields) for each, fields in said.get(key, {}).items()}

    signals = said.get("signals", {}).items()
    return Draft(
        name,
        dict.fromkeys(said.get("extends", ()), CHECKED),
        said.get("description", ""),
        # A user's compiled catalogue may also change signals of others.
        {each: DraftEntry(fields) for each, fields in signals if "pattern" not in fields},
        {
            each: Signal(each, source=name, **{**fields, "literals": tuple(fields["literals"])})
            for each, fields in signals
            if "pattern" in fields
        },
        absences=entries("absences"),
        error_types=entries("error_types"),
        limits=said.get("limits", {}),
        silence=dict.fromkeys(said.get("silence", ()), CHECKED),
    )
