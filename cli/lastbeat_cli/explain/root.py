"""A fleet root named where one run was meant: which runs there are."""

from pathlib import Path
from typing import Final

from lastbeat.model import runid
from lastbeat_cli.explain.log_bytes import UnreadableLogError

_ENTRIES: Final = 5_000
"""So many entries of a folder are looked at."""
_SHOWN: Final = 5
_OF_A_RUN: Final = (runid.METADATA, runid.PROGRESS, runid.RECORD)


def refuse(path: Path) -> None:
    """Raise :class:`UnreadableLogError` if ``path`` holds several runs, for each has a cause of its own."""
    runs = _runs(path)
    if len(runs) < 2:
        return
    newest = sorted(runs, key=lambda name: runs[name], reverse=True)
    more = f", … ({len(runs)} in all)" if len(runs) > _SHOWN else ""
    raise UnreadableLogError(
        f"{path} is a fleet root, and each of its runs has a cause of its own: {', '.join(newest[:_SHOWN])}{more}",
        f"Name one: lastbeat explain {path / newest[0]}",
    )


def _runs(path: Path) -> dict[str, float]:
    """The runs whose folders lie in ``path``: name → when a heartbeat of it was last written."""
    if any((path / name).exists() for name in _OF_A_RUN):
        return {}
    found: dict[str, float] = {}
    try:
        for folder, _ in zip(path.iterdir(), range(_ENTRIES), strict=False):
            written = _written(folder) if _may_be_a_run(folder.name) else None
            if written is not None:
                found[folder.name] = written
    except OSError:
        return found
    return found


def _may_be_a_run(name: str) -> bool:
    try:
        runid.check_run_id(name)
    except runid.InvalidRunIdError:
        return False
    return True


def _written(folder: Path) -> float | None:
    """None where ``folder`` is no run's, as far as can be seen."""
    times = []
    for name in _OF_A_RUN:
        try:
            times.append((folder / name).stat().st_mtime)
        except OSError:  # not there, or not to be seen  # noqa: PERF203
            continue
    return max(times, default=None)
