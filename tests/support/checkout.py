"""This checkout as the tests see it: its folder, its rooms, its text files."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = tuple(
    room
    for room in ("core", "cli", "lambda", "infra", "tests", "bench", "demo", "docs", ".ci")
    if (ROOT / room).is_dir()
)
TOP_FILES = (
    "Makefile", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".env.example", ".gitignore",
)  # fmt: skip


def folders() -> Iterator[Path]:
    """Every folder of every room, without what tools leave behind."""
    for room in ROOMS:
        yield ROOT / room
        for path in sorted((ROOT / room).rglob("*")):
            if path.is_dir() and not _left_behind(path):
                yield path


def files() -> Iterator[Path]:
    """Every file that belongs to the project."""
    for name in TOP_FILES:
        if (ROOT / name).is_file():
            yield ROOT / name
    for folder in folders():
        yield from (path for path in sorted(folder.iterdir()) if path.is_file() and path.suffix != ".pyc")


def documents() -> list[Path]:
    """README, CHANGELOG and the pages of docs/."""
    return [path for path in files() if path.suffix == ".md"]


def _left_behind(path: Path) -> bool:
    return any(part.startswith("__pycache__") or part.endswith("_cache") for part in path.parts)
