"""Files of the kernel (/proc, /sys) as text, tables and numbers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

LIMIT_BYTES: Final = 64 * 1024
_DEPTH: Final = 32
"""Most cgroups that are examined, from this process's own outwards."""


def read_file(path: Path) -> str:
    """The beginning of one of the kernel's files; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(LIMIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def whole_number(text: str) -> int | None:
    """``text`` as a number; None if it is not one, or has more digits than any counter."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def table(text: str) -> dict[str, int]:
    """Name → number, from a file with ``name number`` on each line."""
    rows = (line.split() for line in text.splitlines())
    found = ((row[0], whole_number(row[1])) for row in rows if len(row) > 1)
    return {name: number for name, number in found if number is not None}


def cgroup_folders(controller: str, cgroups: Path, processes: Path) -> Iterator[tuple[int, Path]]:
    """The version (1 or 2) and the folder of each cgroup that may limit this process by ``controller``: its own and the
    enclosing ones. ``cgroups`` is where cgroups are mounted, ``processes`` is /proc."""
    for line in read_file(processes / "self" / "cgroup").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers == "":
            for root in (cgroups, cgroups / "unified"):
                yield from ((2, folder) for folder in _outwards(root, path))
        elif controller in controllers.split(","):
            # In a container the path may be the host's, while the mount has the container's own cgroup as its root.
            yield from ((1, folder) for folder in _outwards(cgroups / controller, path))


def _outwards(root: Path, path: str) -> Iterator[Path]:
    parts = [part for part in path.removesuffix(" (deleted)").split("/") if part and part != ".."]
    for length in range(len(parts), max(-1, len(parts) - _DEPTH), -1):
        yield root.joinpath(*parts[:length])
