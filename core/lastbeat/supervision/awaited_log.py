"""Whether the log that a running job writes can be seen from here, and what is in its way."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path


def log_fault(outputs: Sequence[str]) -> str:
    """Why none of the files ``outputs``, which a launcher names, is there, for people; "": one is, or none is named."""
    named = [Path(output) for output in outputs if output.startswith("/")]
    if not named or any(_is_there(path) for path in named):
        return ""
    path, host = named[0], platform.node()
    folder = path.parent
    told = f"its log {path} does not appear"
    try:
        if not folder.is_dir():
            return f"{told}: there is no folder {folder} on {host}, and no scheduler makes one"
        if not os.access(folder, os.W_OK):
            return f"{told}: {folder} is not writable for the user of this watchdog on {host}"
    except OSError as error:
        return f"{told}: {folder} cannot be looked at on {host} ({error.strerror or error})"
    return f"{told} on {host}"


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False
