"""Has PyTorch record the last collectives of each rank, and ships the dumps that it writes when one times out.

PyTorch does all of it, by environment variables that it reads when training makes its first process group. Whatever
training or its user has set of them stays.
"""

import logging
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from lastbeat.stores.port import Store
from lastbeat.training.sdk.beat_tasks import Beat, BeatTask, RunStart
from lastbeat.training.sdk.safe_log import fault_text, safe_log
from lastbeat.training.sdk.threads import start_thread

FOLDER: Final = "flight/"
"""Folder of dumps within the run's."""
_PREFIX: Final = "rank_"
"""Beginning of a dump's name; PyTorch adds the rank."""
_ENTRIES: Final = "2000"
"""How many calls each rank keeps: PyTorch's own advice."""
_SIZES: Final = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
"""The variable, and its name before PyTorch 2.8. Later ones print a warning where the old name is set."""
_FILES: Final = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_ON_TIMEOUT: Final = "TORCH_NCCL_DUMP_ON_TIMEOUT"
_VERSION_CHARS: Final = 4096
"""Most characters that are read of PyTorch's file with its version."""
_MOST_DUMPS: Final = 256
"""Most dumps of one process or command."""
_DUMP_LIMIT_BYTES: Final = 32 << 20
"""Larger dumps are not shipped: heartbeats wait meanwhile."""
_GUARDIAN_S: Final = 5.0
"""Longest wait in s of the guardian for the dumps, before it reports the end."""


def record(environ: MutableMapping[str, str], run_folder: str | None, version: str | None = None) -> str | None:
    """Set in ``environ`` what is not set, and return the folder for dumps; None if they go where the user wants them.

    ``run_folder`` is the run's own, if that is a directory; else a new folder on this machine takes them. ``version``
    is PyTorch's, if known: only one before 2.8 gets the old names. May raise OSError.
    """
    names = 2 if _is_old(version or "") else 1
    if not any(name in environ for name in _SIZES):
        environ.update(dict.fromkeys(_SIZES[:names], _ENTRIES))
    environ.setdefault(_ON_TIMEOUT, "1")
    if any(name in environ for name in _FILES):
        return None
    folder = f"{run_folder}/{FOLDER}" if run_folder is not None else f"{tempfile.mkdtemp(prefix='lastbeat-flight-')}/"
    environ.update(dict.fromkeys(_FILES[:names], f"{folder}{_PREFIX}"))
    return folder


def torch_version(command: str | None = None) -> str | None:
    """The version of the PyTorch that this process has loaded or would load, without loading it; None if unknown.

    With ``command``, that of the environment in whose ``bin`` the command lies: a Python, ``torchrun``, …
    """
    loaded = getattr(sys.modules.get("torch"), "__version__", None)
    if command is None and loaded is not None:
        return str(loaded)
    for site in sys.path if command is None else _sites_of(command):
        with suppress(OSError, ValueError), open(f"{site}/torch/version.py", encoding="utf-8") as file:  # noqa: PTH123
            found = re.search(r"^__version__ = ['\"]([^'\"]+)", file.read(_VERSION_CHARS), re.MULTILINE)
            return found[1] if found is not None else None
    return None


def _sites_of(command: str) -> Iterator[Path]:
    found = shutil.which(command)
    return Path(found).parent.parent.glob("lib/python3*/site-packages") if found is not None else iter(())


def _is_old(version: str) -> bool:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return major.isdecimal() and minor.isdecimal() and (int(major), int(minor)) < (2, 8)


class FlightDumps(BeatTask):
    """Makes the folder for dumps if it is the run's own, else ships what appears in it."""

    purpose = "ship the dumps of flight recorders"

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._ships = False
        self._seen: dict[str, tuple[int, int]] = {}
        self._shipped: dict[str, tuple[int, int]] = {}

    def begin(self, start: RunStart) -> None:
        self._ships = not start.environment.store.traits.local
        # PyTorch does not make it. In the beat thread, because a file system may hang.
        self._folder.mkdir(0o700 if self._ships else 0o777, parents=True, exist_ok=True)

    def write(self, beat: Beat) -> None:
        self._ship(beat.store, beat.folder, ending=beat.ending is not None)

    def follow(self, beat: Beat) -> None:
        self._ship(beat.store, beat.folder, ending=beat.ending is not None)

    def close(self) -> None:
        with suppress(OSError):
            for name in self._shipped:
                (self._folder / name).unlink()
        with suppress(OSError):
            # Only if it is empty.
            self._folder.rmdir()

    def _ship(self, store: Store, run: str, *, ending: bool) -> None:
        if not self._ships:
            return
        for name, mark in _dumps(self._folder).items():
            # A dump that has grown since the last beat is still being written.
            whole = ending or self._seen.get(name) == mark
            self._seen[name] = mark
            if whole and self._shipped.get(name) != mark:
                _write(store, run, self._folder, name)
                self._shipped[name] = mark


def ship_rest(store: Store, run: str, folder: str) -> None:
    """Ship the dumps in ``folder`` to the folder ``run`` of the store, for a process that has ended. Waits a few
    seconds for that, and never raises."""

    def ship() -> None:
        here = Path(folder)
        try:
            for name in _dumps(here):
                _write(store, run, here, name)
                (here / name).unlink()
            here.rmdir()
        except FileNotFoundError:
            # Its process has shipped them, and removed the folder.
            return
        except Exception as fault:  # noqa: BLE001 - the end of the process is to be reported all the same
            safe_log(logging.WARNING, "lastbeat could not ship the dumps in %s: %s", folder, fault_text(fault))

    thread = start_thread("lastbeat-flight", ship)
    if thread is not None:
        thread.join(_GUARDIAN_S)


def _dumps(folder: Path) -> dict[str, tuple[int, int]]:
    """Name of each dump → when it was written, in ns, and its size."""
    found: dict[str, tuple[int, int]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            about = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(about.st_mode) and about.st_size <= _DUMP_LIMIT_BYTES and len(found) < _MOST_DUMPS:
                found[entry.name] = (about.st_mtime_ns, about.st_size)
    return found


def _write(store: Store, run: str, folder: Path, name: str) -> None:
    with (folder / name).open("rb") as file:
        store.write(f"{run}{FOLDER}{name}", file.read(_DUMP_LIMIT_BYTES))
