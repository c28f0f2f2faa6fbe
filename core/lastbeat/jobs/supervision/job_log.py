"""The log that a run's job writes: whether it can be seen from here; and where the job runs elsewhere, brought into its
run's folder: there every watcher reads it, and it stays when the job's machine is gone."""

import logging
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lastbeat.jobs.launchers.port import Launcher, LauncherError
from lastbeat.model.job import JobMemory, JobReport, JobState
from lastbeat.model.secrets import mask_tokens
from lastbeat.stores.port import Store, StoreError

log = logging.getLogger(__name__)

MOST_BYTES: Final = 1 << 20
"""The window of a log that is copied. It moves: watchers have read what it has lost."""


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


class BroughtLog:
    """Brings what a run's present job has written, once for each change."""

    def __init__(self, run_id: str, store: Store, launcher: Launcher) -> None:
        self._run_id = run_id
        self._store = store
        self._launcher = launcher
        self._kept: tuple[str, bytes] | None = None
        """Key, and what lies there."""
        self._complete = ""
        """Key of a log to which nothing comes any more."""

    def bring(self, job: JobMemory, report: JobReport) -> str:
        """Write ``logs/JOB.log`` below the run if the job has written more. Returns why that is not possible, for
        people; "": it is, or the launcher's jobs write files of their own. Never raises."""
        key = f"{self._run_id}/logs/{job.name}.log"
        if report.state in {JobState.PENDING, JobState.UNKNOWN, JobState.GONE} or self._complete == key:
            return ""
        try:
            text = self._launcher.output(job.id, MOST_BYTES)
            if text is None:
                return ""
            if self._kept is None or self._kept[0] != key:
                # What is stored again looks new to watchers.
                known = self._store.read(key, MOST_BYTES)
                self._kept = key, known.body if known is not None else b""
            text = mask_tokens(text.decode("utf-8", "replace")).encode("utf-8")
            if text and text != self._kept[1]:
                self._store.write(key, text)
                self._kept = key, text
        except LauncherError as error:
            why = f"its log cannot be had: {error.told}"
        except StoreError as error:
            why = f"its log cannot be written to {self._store.url}/{key}: {error}"
        else:
            self._complete = key if report.state.ended else ""
            return ""
        log.info("%s: job %s: %s", self._run_id, job.id, why)
        return why
