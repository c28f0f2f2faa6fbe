"""Reports to the store the end of a process of training that left its run open.

Nothing that training or another attempt wrote is touched. ``_error`` is created, or replaces one that is older than
this attempt, and only while metadata.json belongs to this attempt. If a new attempt begins at that moment, it is
deleted again. One thing is moved: another rank's error after this one's end is a consequence, and goes to that rank's
own file.
"""

import logging
import os
import re
import signal
import stat
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from lastbeat import settings as configuration
from lastbeat.model import runid
from lastbeat.model.oom_kills import NONE_COUNTED
from lastbeat.model.runid import rank_error_key
from lastbeat.model.secrets import Redactor
from lastbeat.settings import opening, own_log
from lastbeat.stores.port import ConflictError, DeniedError, Store, StoreError
from lastbeat.training.exec.child.exit_reason import ChildExit, first_line
from lastbeat.training.sdk.documents import attempt_of, read_if_allowed, start_time_of
from lastbeat.training.sdk.first_error import is_leftover, retry_for, started_at, write_first_error, write_if_first
from lastbeat.training.sdk.flight_recorder import ship_rest
from lastbeat.training.sdk.run import CANCELLED

log = logging.getLogger("lastbeat")

_RETRY_S = 0.5
_PATIENCE_S = 8.0
"""Longest wait in s for rank 0, which is less than a guardian's total time."""
_START_S = 60.0
"""Longest time in s by which even a slow rank 0 begins later than another rank."""
_METADATA_BYTES = 64 * 1024
_ERROR_BYTES = 1024 * 1024
_PLACE = re.compile(rb"[^\n]*\nrank (\d{1,6}) of ")
"""The second line of a rank's ``_error``."""
_CORE = 0x80
_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
_FATAL = "Fatal Python error: "
_STDERR_BYTES = 64 * 1024
_TRACE_LINES = 120

Said = Mapping[str, Any]


def report(said: Said) -> None:
    """Write the end of one run to the store that its settings name. The caller ends this after a while.

    ``said`` has the reports of its process at its begin (see ``start.py``), whether it has ``begun``, how it is
    ``ending`` if it reported that, its ``wait_status`` if known, when it ended (``ended_monotonic``), and
    ``oom_kills``.
    """
    settings = configuration.load(said["settings"], dict(os.environ), Path(os.devnull), channels=False, training=True)
    own_log.begin_in_training(settings)
    store = opening.bare_store(settings, training=True)
    if said.get("dumps") and not store.traits.local:
        ship_rest(store, f"{said['run']}/", said["dumps"])
    settle(store, said, settings.redactor)


def settle(
    store: Store, said: Said, masked: Redactor, *, pause_s: float = _RETRY_S, patience_s: float = _PATIENCE_S
) -> None:
    """Write the end of the run, with retries after ``pause_s`` while the store does not answer. Waits for a rank 0 that
    has not begun yet, see ``first_error``."""
    ending = _ending(said, masked)
    while ending is not None:
        try:
            return _write(store, said, ending, patience_s)
        except StoreError as fault:
            if not fault.retryable:
                log.warning("the guardian of %s cannot write how it ended: %s", said["run"], fault)
                return None
        time.sleep(pause_s)
    return None


def _ending(said: Said, masked: Redactor) -> tuple[str, str] | None:
    """Sentinel and text, or None if there is nothing to report."""
    follows = said["rank"] > 0
    if "ending" in said:
        sentinel, text = said["ending"]
        # See ``FollowingRank.write_error``.
        if follows and (sentinel != runid.ERROR or text.startswith(CANCELLED)):
            return None
        return sentinel, text
    death = _death(said)
    if follows and death is not None and (death.succeeded or death.cancelled):
        # A stop of the whole run reaches rank 0 too, and only rank 0 completes a run.
        return None
    return runid.ERROR, masked(describe(said))


def _death(said: Said) -> ChildExit | None:
    status = said["wait_status"]
    if status is None:
        return None
    code = os.waitstatus_to_exitcode(status)
    return ChildExit(code, said["oom_kills"], (-code,) if code < 0 else ())


def describe(said: Said) -> str:
    """The text of ``_error`` if training did not report its end."""
    who, death = said["who"], _death(said)
    if death is None:
        message = (
            f"{who} ended without a word (killed by a signal such as SIGKILL, or os._exit); its exit status is unknown"
        )
        if said["oom_kills"]:
            message += "; the kernel's OOM killer (oom-kill) ended a process of its job: out of memory"
        elif said["oom_kills"] == 0:
            message += f"; {NONE_COUNTED}"
    else:
        message = first_line(death, who)
        if death.status >= 0:
            message += ", before its run had ended: os._exit, or a run without an end"
        if said["wait_status"] & _CORE:
            message += "; core dumped"
    crashed = death is not None and -death.status in _CRASHES
    trace = _fatal_error(said["stderr"]) if crashed and said["stderr"] else ""
    return f"{message}\n\n{trace}" if trace else f"{message}\n"


def _fatal_error(stderr: Said) -> str:
    """The report of Python's faulthandler in the file to which training's stderr goes."""
    try:
        descriptor = os.open(stderr["path"], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or [found.st_dev, found.st_ino] != stderr["file"]:
            return ""
        file.seek(max(stderr["size"], found.st_size - _STDERR_BYTES))
        text = file.read(_STDERR_BYTES).decode("utf-8", "replace")
    before, fatal, trace = text.rpartition(_FATAL)
    del before
    return "\n".join((fatal + trace).splitlines()[:_TRACE_LINES]) + "\n" if fatal else ""


def _write(store: Store, said: Said, ending: tuple[str, str], patience_s: float) -> None:
    (sentinel, text), run, rank = ending, said["run"], said["rank"]
    began = started_at(store, time.monotonic() - said["started_monotonic"])
    try:
        whose = _metadata(store, run)
    except DeniedError:
        # Some policies let training write but not read.
        whose = b""
    if rank == 0 and whose and start_time_of(whose) != said["start_time"]:
        log.info("the guardian of %s leaves it alone: metadata.json is another attempt's", run)
        return
    if whose is None and _is_gone(said):
        log.info("the guardian of %s leaves it alone: the run was removed", run)
        return
    if rank == 0 and sentinel == runid.ERROR and said.get("ending") is None and _completed(store, run, began):
        log.info("the guardian of %s leaves it alone: it has completed", run)
        return
    key = f"{run}/{sentinel}"
    body = _signed(text, said, whose).encode("utf-8", "replace")
    if rank:
        if _completed(store, run, began):
            return
        told = write_first_error(store, run, body, began, retry_for(patience_s))
        is_first = told.is_run_error or _moves_what_followed(store, key, body, said)
        if not (is_first and told.is_final):
            store.write(f"{run}/{rank_error_key(rank)}", body)
    else:
        is_first = write_if_first(store, key, body, began) or _moves_what_followed(store, key, body, said)
        if not is_first and said["world"] > 1 and sentinel == runid.ERROR:
            store.write(f"{run}/{rank_error_key(0)}", body)
    if is_first:
        _take_back_if_late(store, run, key, body, whose)


def _moves_what_followed(store: Store, key: str, body: bytes, said: Said) -> bool:
    """Put ``body`` in the place of another rank's error, if that came after this rank's silent end. Returns whether it
    did. The other rank reports a broken connection or a launcher's stop within milliseconds, before a store is open
    here."""
    death = _death(said)
    if said["world"] < 2 or "ending" in said or (death is not None and (death.cancelled or death.succeeded)):
        return False
    theirs = read_if_allowed(store, key, _ERROR_BYTES)
    # A stamp of whole seconds gives no order within its second, so the first error stays.
    if theirs is None or theirs.modified <= started_at(store, time.monotonic() - said["ended_monotonic"]):
        return False
    whose = _PLACE.match(theirs.body)
    if whose is None or int(whose[1]) == said["rank"]:
        return False
    store.write(f"{said['run']}/{rank_error_key(int(whose[1]))}", theirs.body)
    try:
        store.write(key, body, theirs.version)
    except ConflictError:
        return False
    return True


def _metadata(store: Store, run: str) -> bytes | None:
    blob = store.read(f"{run}/{runid.METADATA}", _METADATA_BYTES)
    return blob.body if blob is not None else None


def _is_gone(said: Said) -> bool:
    """Whether a run without metadata.json once had one, so that its files were removed."""
    lived_s = time.monotonic() - said["started_monotonic"]
    return said.get("begun", False) if said["rank"] == 0 else bool(lived_s > _START_S)


def _completed(store: Store, run: str, began: datetime) -> bool:
    """Whether rank 0 has completed the run, or ended it early, so that the death of a leaving rank is no failure."""
    found = (read_if_allowed(store, f"{run}/{name}", 0) for name in (runid.COMPLETE, runid.PREEMPTED))
    return any(blob is not None and not is_leftover(blob.modified, began) for blob in found)


def _signed(text: str, said: Said, whose: bytes | None) -> str:
    """``text`` with the rank that ended in its second line, as in :func:`lastbeat.training.sdk.ranks.with_rank`."""
    if said["world"] < 2 or text.startswith("{"):
        return text
    first, _, rest = text.partition("\n")
    attempt = attempt_of(whose) if whose else 0
    return f"{first}\n{said['place']}{f', attempt {attempt}' if attempt else ''}\n{rest}"


def _take_back_if_late(store: Store, run: str, key: str, body: bytes, whose: bytes | None) -> None:
    """Delete the error if a new attempt began while it was written, because that has not failed."""
    if not whose:
        return
    now = _metadata(store, run)
    if now is None or start_time_of(now) == start_time_of(whose):
        return
    there = store.read(key, len(body) + 1)
    if there is not None and there.body == body:
        store.delete(key)
