"""Catalogues by name or from users' files → :class:`Catalogue`.

Built-in ones come from ``catalog/compiled.json``, which ``signals.compiling`` makes of the YAML files beside it: a
watchdog that looks once a minute has no time to read YAML. YAML is read for users' own files.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

from lastbeat.model.signal import Catalogue, Signal
from lastbeat.signals.composing import compose, in_order
from lastbeat.signals.drafts import BUILT_IN, Draft, Entry, Fault, nearest

DEFAULT: Final = "default"
COMPILED: Final = Path(__file__).with_name("catalog") / "compiled.json"
MOST_FAULTS: Final = 50


class CatalogueError(ValueError):
    """A catalogue that cannot be used: its text names each fault with file and line, one a line."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(sorted(set(faults)))
        said = [str(fault) for fault in self.faults[:MOST_FAULTS]]
        if len(self.faults) > MOST_FAULTS:
            said.append(f"… and {len(self.faults) - MOST_FAULTS} more")
        super().__init__("\n".join(said))


def names() -> tuple[str, ...]:
    """The built-in catalogues."""
    return tuple(_compiled())


def description(name: str) -> str:
    """What the built-in catalogue ``name`` is for."""
    return _built_in(name).description


def extends(name: str) -> tuple[str, ...]:
    """The catalogues that the built-in catalogue ``name`` stands on."""
    return tuple(_built_in(name).extends or ())


@cache
def load(name: str) -> Catalogue:
    """The built-in catalogue ``name``."""
    if name not in _compiled():
        raise CatalogueError([_unknown(name, "LASTBEAT_SIGNALS", 0)])
    faults: list[Fault] = []
    return compose(name, in_order([name], _built_in, faults), faults)


def load_setting(text: str, read: Callable[[str], str]) -> Catalogue:
    """The catalogue that ``text`` (LASTBEAT_SIGNALS) names: built-in ones and files, comma separated, each on top of
    those before it; nothing is ``default``. A file without ``extends`` stands on what is named before it, or on
    ``default``. ``read`` gives a file's text and may raise OSError or UnicodeDecodeError.
    """
    wanted = [part.strip() for part in text.split(",") if part.strip()] or [DEFAULT]
    if len(wanted) == 1 and not is_path(wanted[0]):
        return load(wanted[0])
    faults: list[Fault] = []
    files = _Files(read, wanted[0], faults)
    found = compose(", ".join(wanted), in_order(wanted, files.draft, faults), faults)
    if faults:
        raise CatalogueError(faults)
    return found


def is_path(name: str) -> bool:
    """Whether ``name`` is a file's path: it has a slash or ends like one."""
    return "/" in name or name.endswith((".yaml", ".yml"))


class _Files:
    """Drafts by name or path."""

    def __init__(self, read: Callable[[str], str], first: str, faults: list[Fault]) -> None:
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
            self._faults.append(Fault(name, 0, f"it is not UTF-8 text ({error.reason}); save it as that"))
            return None
        except OSError as error:
            why = error.strerror or type(error).__name__
            self._faults.append(Fault(name, 0, f"it cannot be read: {why}; check the path"))
            return None
        try:
            from lastbeat.signals import checking  # noqa: PLC0415 - imports yaml, for users' own files alone
        except ModuleNotFoundError:
            what = "PyYAML is not installed here, as in the Lambda function's zip; name built-in catalogues alone"
            self._faults.append(Fault(name, 0, what))
            return None
        found = checking.draft(text, name, self._faults)
        extends: Mapping[str, int] = {DEFAULT: 0} if name == self._first else {}
        if found.extends is not None:
            extends = {_beside(name, base): line for base, line in found.extends.items()}
        for base, line in extends.items():
            if not is_path(base) and base not in _compiled():
                self._faults.append(_unknown(base, name, line))
        known = {base: line for base, line in extends.items() if is_path(base) or base in _compiled()}
        return found._replace(extends=known)


def _beside(file: str, base: str) -> str:
    """What ``file`` names as ``base``: a relative path is relative to it."""
    if not is_path(base) or base.startswith(("/", "~")) or "://" in base:
        return base
    beside = str(PurePosixPath(file).parent / base)
    # "./x" names a file and "x" would not.
    return beside if is_path(beside) else f"./{beside}"


def _unknown(name: str, file: str, line: int) -> Fault:
    known = names()
    what = f"there is no built-in catalogue {name[:60]!r}{nearest(name, known)}; there are {', '.join(known)}; "
    return Fault(file, line, f"{what}a file's path has a slash or ends in .yaml")


@cache
def _compiled() -> Mapping[str, Mapping[str, Any]]:
    loader = __spec__.loader if __spec__ is not None else None
    # The loader's, so that a package in a zip works as well.
    data = loader.get_data(str(COMPILED)) if hasattr(loader, "get_data") else COMPILED.read_bytes()  # type: ignore[union-attr]
    found: Mapping[str, Mapping[str, Any]] = json.loads(data)
    return found


@cache
def _built_in(name: str) -> Draft:
    said = _compiled()[name]

    def entries(key: str) -> dict[str, Entry]:
        return {each: Entry(fields) for each, fields in said.get(key, {}).items()}

    signals = {
        each: Signal(each, source=name, **{**fields, "literals": tuple(fields["literals"])})
        for each, fields in said.get("signals", {}).items()
    }
    return Draft(
        name,
        dict.fromkeys(said.get("extends", ()), BUILT_IN),
        said["description"],
        made=signals,
        absences=entries("absences"),
        error_types=entries("error_types"),
        limits=said.get("limits", {}),
        silence=dict.fromkeys(said.get("silence", ()), BUILT_IN),
    )
