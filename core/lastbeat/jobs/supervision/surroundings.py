"""The environment in which a run was begun, kept for its later jobs, whose supervisor may have another one.

It may hold secrets, so it is never recorded beside the run. It lies on this machine, in a file that its user alone can
read, until the run is over; where it is missing (on a machine that does not share LASTBEAT_STATE_DIR), jobs get the
environment of the process that starts them.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

_LIMIT_BYTES: Final = 8 << 20
"""Linux hands no larger environment to a program than a quarter of its stack's limit."""


def keep(state: Path, root: str, run_id: str, begun_at: datetime, environment: Mapping[str, str]) -> None:
    """Keep ``environment`` for the jobs of the run below the fleet root ``root`` that was begun at ``begun_at``; an
    earlier one goes. Raises ``OSError``."""
    path = _path(state, root, run_id)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    document = {"begun_at": begun_at.isoformat(), "environment": dict(environment)}
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
            json.dump(document, file)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def kept(state: Path, root: str, run_id: str, begun_at: datetime | None) -> dict[str, str] | None:
    """The environment of that beginning; None: it is not known here."""
    if begun_at is None:
        return None
    try:
        with _path(state, root, run_id).open("rb") as file:
            known = json.loads(file.read(_LIMIT_BYTES))
        if known["begun_at"] != begun_at.isoformat():
            return None
        return {str(name): str(text) for name, text in known["environment"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def forget(state: Path, root: str, run_id: str) -> None:
    """Forget it, because the run is over."""
    with suppress(OSError):
        _path(state, root, run_id).unlink()


def _path(state: Path, root: str, run_id: str) -> Path:
    digest = hashlib.sha256(f"{root}\n{run_id}".encode()).hexdigest()[:16]
    return state / "environments" / f"{run_id[:100]}-{digest}.json"
