"""Restart policies by name, or from users' files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lastbeat.explain.signals import loading as catalogues
from lastbeat.jobs.restarts import files
from lastbeat.jobs.restarts.names import KnownNames
from lastbeat.model.file_fault import FileFault
from lastbeat.model.restart import RestartPolicy
from lastbeat.model.text import nearest

FOLDER: Final = Path(__file__).with_name("shipped")
RECOMMENDED: Final = "megatron_transient"
_SIZE_LIMIT: Final = 1_000_000


class RestartPolicyError(ValueError):
    """An unusable policy: the text names each fault with file and line, one per line."""

    def __init__(self, faults: Sequence[FileFault]) -> None:
        self.faults = tuple(sorted(set(faults)))
        super().__init__("\n".join(map(str, self.faults)))


def names() -> tuple[str, ...]:
    """The policies that come with lastbeat."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def description(name: str) -> str:
    """What the shipped policy ``name`` is for."""
    return files.description(shipped_text(name), f"{name}.yaml")


def shipped_text(name: str) -> str:
    """The file of the shipped policy ``name``, as it would be copied to begin a policy of one's own."""
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def load(name_or_path: str, known: KnownNames | None = None) -> RestartPolicy:
    """The policy that is called so, or lies in the file of that path. ``known`` are the names of the catalogue in use.

    Raises :class:`RestartPolicyError`.
    """
    shipped = name_or_path in names()
    file = f"{name_or_path}.yaml" if shipped else name_or_path
    return load_text(text_of(name_or_path), file, Path(file).stem, known)


def text_of(name_or_path: str) -> str:
    """The file of that policy. Raises :class:`RestartPolicyError`."""
    return shipped_text(name_or_path) if name_or_path in names() else _read(name_or_path)


def load_text(text: str, file: str, name: str, known: KnownNames | None = None) -> RestartPolicy:
    """The policy in ``text``, which stood in ``file``. Raises :class:`RestartPolicyError`."""
    known = known or KnownNames.of(catalogues.load(catalogues.DEFAULT))
    faults: list[FileFault] = []
    found = files.policy(text, file, name, known, faults)
    if found is None or faults:
        raise RestartPolicyError(faults)
    return found


def _read(path: str) -> str:
    if "/" not in path and not path.endswith((".yaml", ".yml")):
        there = f"{nearest(path, names())}; there are: {', '.join(names())}; or give the path of a file: ./{path}"
        raise RestartPolicyError([FileFault(path, 0, f"there is no such restart policy{there}")])
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_SIZE_LIMIT + 1)
    except OSError as error:
        raise RestartPolicyError(
            [FileFault(path, 0, f"cannot be read: {error.strerror or error}; check the path")]
        ) from None
    if len(raw) > _SIZE_LIMIT:
        raise RestartPolicyError([FileFault(path, 0, f"has over {_SIZE_LIMIT:,} bytes; is it the right file?")])
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise RestartPolicyError([FileFault(path, 0, "is no UTF-8 text; save it as UTF-8")]) from None
