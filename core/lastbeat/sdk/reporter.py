"""The beat thread: writes what training said, and keeps what could not be written until it can."""

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from lastbeat.model import runid
from lastbeat.sdk.attempts import attempt_of, next_attempt
from lastbeat.sdk.documents import Identity, Pace, encode, metadata
from lastbeat.sdk.run import Run
from lastbeat.stores.port import ConflictError, Expect, Store, StoreError

log = logging.getLogger("lastbeat")

_RETRY_S = 1.0
_RETRY_CAP_S = 30.0
_METADATA_LIMIT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run reports to and from."""

    store: Store
    instance_id: str
    restarts: int = 0
    """How often a scheduler has restarted this job."""
    beat_s: float = 30.0
    version: str = ""
    """Of lastbeat."""


class Reporter:
    """Beats for one run, from a daemon thread of its own. Every failure is logged, once an outage, and tried again.

    ``prepare`` is called in that thread, for it reads settings, connects and may ask the machine who it is.
    """

    def __init__(self, prepare: Callable[[], Surroundings]) -> None:
        self._prepare = prepare
        self._surroundings: Surroundings | None = None
        self._wake = threading.Event()
        self._written = False
        self._thread: threading.Thread | None = None
        self._identity: Identity | None = None
        self._begun = False
        self._failing = False
        self._progress_of: object = None
        self._pace = Pace()
        self._failures = 0

    def start(self, run: Run) -> None:
        """Begin to beat for ``run``; returns at once."""
        self._began = time.time()
        self._thread = threading.Thread(target=self._beat_on, args=(run,), name="lastbeat", daemon=True)
        self._thread.start()

    def finish(self, wait_s: float) -> bool:
        """Write the sentinel now; whether that was done within ``wait_s``."""
        self._wake.set()
        # Polled: a signal handler may interrupt the very wait that it would then deadlock with.
        deadline = time.monotonic() + wait_s
        while not self._written and time.monotonic() < deadline and self._alive():
            time.sleep(0.005)
        return self._written

    def _alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _beat_on(self, run: Run) -> None:
        process = os.getpid()
        while not self._written and os.getpid() == process:
            began = time.monotonic()
            ended = self._beat(run)
            if ended and self._written:
                return
            self._wake.clear()
            if run.ending is not None and not ended:
                # It ended while this beat was under way.
                continue
            spent = time.monotonic() - began
            self._wake.wait(self._pause(run, spent))

    def _pause(self, run: Run, spent_s: float) -> float:
        if self._failures and (run.ending is not None or not self._begun):
            return min(_RETRY_S * 2.0 ** min(self._failures - 1, 10), _RETRY_CAP_S)
        beat_s = self._surroundings.beat_s if self._surroundings is not None else _RETRY_CAP_S
        return max(0.05, beat_s - spent_s)

    def _beat(self, run: Run) -> bool:
        """One beat; whether it was the last one, the one that writes the sentinel."""
        ending = run.ending
        try:
            self._write(run, ending)
        except StoreError as error:
            self._failed(f"{error}")
        except Exception as error:  # noqa: BLE001 - whatever it is, training must not feel it and beating goes on
            self._failed(f"{type(error).__name__}: {error}")
        else:
            if self._failing:
                log.info("lastbeat can write again")
            self._failing, self._failures = False, 0
            self._written = ending is not None
        return ending is not None

    def _failed(self, what: str) -> None:
        self._failures += 1
        if not self._failing:
            log.warning("lastbeat cannot write its heartbeat and keeps trying: %s", what)
        self._failing = True

    def _write(self, run: Run, ending: tuple[str, str] | None) -> None:
        if self._surroundings is None:
            self._surroundings = self._prepare()
        store, first = self._surroundings.store, not self._begun
        who = self._begin(run, self._surroundings) if self._identity is None or first else self._identity
        now = time.time()
        folder = f"{run.run_id}/"
        if not first or ending is not None:
            store.write(folder + runid.METADATA, encode(metadata(run, who, now)))
        if run.latest is not self._progress_of:
            latest = run.latest
            document = self._pace.document(run, now)
            if document is not None:
                store.write(folder + runid.PROGRESS, encode(document))
            self._progress_of = latest
        if ending is not None:
            self._end(store, folder, ending)

    def _begin(self, run: Run, around: Surroundings) -> Identity:
        """A new attempt: its number follows the last one's, and the last one's sentinels go."""
        store, key = around.store, f"{run.run_id}/{runid.METADATA}"
        if self._identity is None:
            # Once, also if what follows has to be tried again: our own metadata is not the last attempt's.
            blob = store.read(key, _METADATA_LIMIT_BYTES)
            before = attempt_of(blob.body) if blob is not None else None
            number = next_attempt(before, around.restarts)
            self._identity = Identity(run.run_id, number, self._began, around.instance_id, os.getpid(), around.version)
        # The start time first: from then on the old sentinels are older than the attempt, deleted or not.
        store.write(key, encode(metadata(run, self._identity, time.time())))
        for name in (runid.ERROR, runid.COMPLETE):
            store.delete(f"{run.run_id}/{name}")
        self._begun = True
        return self._identity

    def _end(self, store: Store, folder: str, ending: tuple[str, str]) -> None:
        name, body = ending
        try:
            # Create only: of several errors the first one is the cause.
            store.write(folder + name, body.encode("utf-8", "replace"), Expect.NOTHING)
        except ConflictError:
            log.debug("%s is there already", name)
