"""Which commit this lastbeat is, and that commit's date. The build reads it by this module, too."""

import subprocess
from pathlib import Path
from typing import Final

FILE: Final = "built.txt"
"""What the build writes beside this module: ``COMMIT DATE``. A checkout has none."""
_LIMIT_S: Final = 2.0
"""Longest time that git may take, in seconds."""


def built() -> str:
    """``COMMIT DATE`` of this lastbeat, or an empty text if it is not known. Never raises."""
    try:
        return " ".join(Path(__file__).with_name(FILE).read_text("utf-8").split())
    except (OSError, ValueError):
        return of_checkout(Path(__file__).parents[2])


def of_checkout(root: Path) -> str:
    """``COMMIT DATE`` of the git checkout at ``root``, or an empty text if there is none or git does not say."""
    # Without this, git would answer for a repository around an unpacked archive.
    if not (root / ".git").exists():
        return ""
    commit = _git(root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    date = _git(root, "log", "-1", "--format=%cs")
    return f"{commit} {date}" if commit and date else ""


def _git(root: Path, *words: str) -> str:
    """What git prints, or an empty text if it fails."""
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)  # noqa: S603 - our own list
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
