"""Writes a file so that no reader ever sees half of it."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

TEMPORARY: Final = ".tmp"
"""Suffix of a file that is not yet in its place."""


def prefix(path: Path) -> str:
    """What the names of temporary files for ``path`` begin with: hidden, in the same folder."""
    return f".{path.name}."


def replace(path: Path, data: bytes, mode: int) -> None:
    """Write ``data`` to ``path`` with the permissions ``mode``. Raises OSError, and leaves what was there."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=prefix(path), suffix=TEMPORARY)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(number, mode)
            os.fsync(number)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
