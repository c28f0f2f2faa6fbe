"""Judges runs that no pass has recorded by their logs, as ``show`` does, a few of them at a time.

Reading logs costs far more than a listing, so a look at a fleet reads those of a few runs: what has failed or fallen
silent goes first, and each look goes on where the last one stopped. What was found is kept in the state directory, so
that the next command does not read the same logs again.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from datetime import datetime
from typing import ClassVar, Final

from lastbeat.model.codec import DamagedError, codec
from lastbeat.model.data import dataclass
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.persisted import FLAT, Form, Persisted
from lastbeat.model.policy import Policy
from lastbeat.model.state import HasShownState, ShownState
from lastbeat.model.status import UNWELL, Status
from lastbeat.model.version import __version__
from lastbeat.stores.port import Entry, Store, StoreError
from lastbeat.views.file_cache import FileCache, FilePiece
from lastbeat.views.judging import Judge, documents
from lastbeat.views.standing import Standing, shown_state
from lastbeat.watch.observe.log_files import is_log
from lastbeat.watch.observe.log_observer import LogSettings
from lastbeat.watch.observe.logs import DEFAULT as LOG_LIMITS

log = logging.getLogger(__name__)

LOOK_S: Final = 5.0
"""Opening a fleet begins no further run after this time; one that was begun is read to its end."""
ROUND_S: Final = 1.0
"""The same for each later look."""
LOOK_BYTES: Final = 128 << 20
"""Log bytes that one look reads at most."""
AGAIN_S: Final = 60.0
"""The logs of a run that goes on writing are read again after this time at the earliest."""
_THREADS: Final = 8
_MOST_REQUESTS: Final = 6
"""Requests that one run counts for at most."""
_KEPT: Final = 400
"""Runs that the state directory remembers, the latest."""
_LIMIT_BYTES: Final = 1 << 20
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class UnrecordedRun:
    """A run of which no pass has made a record."""

    run_id: str
    files: Mapping[str, Entry]
    policy: Policy
    """The limits for it."""
    seems: Status
    """What it is by everything but its logs."""
    beats: Mapping[str, Heartbeat] = field(default_factory=dict)
    """Its heartbeats, by name, as far as they were read; the others are read again."""

    @property
    def documents(self) -> Mapping[str, FilePiece]:
        """What is still to be read of it, besides its logs."""
        return {name: piece for name, piece in documents(self.files).items() if name not in self.beats}

    @property
    def key(self) -> str:
        """The same as long as a look at it finds the same."""
        told = [(name, each.version, each.modified.timestamp()) for name, each in sorted(self.files.items())]
        limits = (self.policy.stale_s, self.policy.stall_s, self.policy.start_grace_s)
        return hashlib.sha256(repr((str(self.seems), limits, told)).encode()).hexdigest()[:24]

    @property
    def requests(self) -> int:
        """How many it takes to look at it, about: a log is read from its end, and further back. One with many logs
        counts for no more than an interval may ask for, or no interval would come to it."""
        return min(_MOST_REQUESTS, len(self.documents) + 2 * sum(map(is_log, self.files)))

    @property
    def log_bytes(self) -> int:
        """How much of its logs is read at most."""
        sizes = (each.size_bytes for name, each in self.files.items() if is_log(name))
        most = LOG_LIMITS.look_bytes + LOG_LIMITS.deep_bytes
        return min(most, sum(min(size, LOG_LIMITS.file_bytes + LOG_LIMITS.deep_file_bytes) for size in sizes))


@dataclass(frozen=True)
class JudgedRun(HasShownState, Persisted):
    """What a look that reads logs decided of a run, in texts that may be shown."""

    FORM: ClassVar = Form.SPARSE

    run_id: str
    key: str
    seems: Status
    """What the run was by everything but its logs."""
    state: ShownState = field(metadata=FLAT)

    def applied(self, seems: Standing) -> Standing:
        """``seems`` with what the logs say. They do not tell since when it is so, so ``since`` stands."""
        spans = seems.spans
        if spans and self.status is not seems.status:
            spans = (*spans[:-1], replace(spans[-1], status=self.status))
        return replace(seems, state=self.state, spans=spans)


@dataclass(frozen=True)
class JudgedRuns(Persisted):
    """What the state directory keeps of one fleet."""

    stamp: str
    """Version and catalogues of signals; results of other ones are not used."""
    runs: tuple[JudgedRun, ...] = ()
    """The latest last."""


class LogJudge:
    """Looks at runs that no pass has recorded, within limits. Not for two threads at once; never raises for a store.

    ``mask`` hides the secrets of who looks, ``catalogue`` says what is looked for in logs, ``state`` is the state
    directory.
    """

    def __init__(
        self,
        store: Store,
        mask: Callable[[str], str],
        catalogue: LogSettings,
        state: Store | None = None,
        *,
        threads: int = _THREADS,
        log_bytes: int = LOOK_BYTES,
    ) -> None:
        self._store = store
        self._mask = mask
        self._catalogue = catalogue
        self._state = state
        self._threads = threads
        self._log_bytes = log_bytes
        self._held: dict[str, JudgedRun] | None = None

    def look(
        self,
        runs: Sequence[UnrecordedRun],
        at: datetime,
        take: Callable[[UnrecordedRun, JudgedRun | None], None],
        *,
        seconds: float = LOOK_S,
        requests: float = float("inf"),
    ) -> None:
        """Look at ``runs`` in their order, as of ``at`` by the store's clock, until ``seconds`` have passed or about
        ``requests`` were made. ``take`` gets what was found, or None if the store did not answer."""
        held = self._load()
        due: list[UnrecordedRun] = []
        for run in runs:
            known = held.get(run.run_id)
            if known is not None and known.key == run.key:
                take(run, known)
            else:
                due.append(run)
        chosen = list(_affordable(due, requests, self._log_bytes))
        if not chosen:
            return
        until, news = time.monotonic() + seconds, False

        def one(run: UnrecordedRun) -> tuple[UnrecordedRun, JudgedRun | None] | None:
            return (run, self._one(run, at)) if time.monotonic() < until else None

        with ThreadPoolExecutor(min(self._threads, len(chosen)), "lastbeat-logs") as pool:
            try:
                for run, found in filter(None, pool.map(one, chosen)):
                    # The files of a run that lives are others by the time of the next command.
                    if found is not None and run.seems in UNWELL:
                        held.pop(run.run_id, None)
                        held[run.run_id], news = found, True
                    take(run, found)
            finally:
                # Whatever ended this, Ctrl-C perhaps: no other run is begun.
                until = 0.0
        if news:
            self._save()

    def _one(self, run: UnrecordedRun, at: datetime) -> JudgedRun | None:
        cache = FileCache(self._store, threads=1)
        cache.fetch(run.documents)
        judge = Judge(cache, run.run_id, self._mask, self._catalogue)
        for name, heartbeat in run.beats.items():
            judge.know(name, heartbeat)
        try:
            judged = judge.judge(run.files, at, run.policy)
        except StoreError as error:
            log.info("%s could not be looked at in depth: %s", run.run_id, error)
            return None
        return JudgedRun(run.run_id, run.key, run.seems, shown_state(judged.state, self._mask))

    # ---- in the state directory ------------------------------------------------------------------------------------

    @property
    def _file(self) -> str:
        return f"judged/{hashlib.sha256(self._store.url.encode()).hexdigest()[:16]}.json"

    @property
    def _stamp(self) -> str:
        return f"{_VERSION} {__version__} {self._catalogue.stamp}"

    def _load(self) -> dict[str, JudgedRun]:
        if self._held is None:
            self._held = {}
            try:
                blob = self._state.read(self._file, _LIMIT_BYTES) if self._state is not None else None
                kept = codec(JudgedRuns).read(json.loads(blob.body)) if blob is not None else None
            except (StoreError, DamagedError, ValueError, RecursionError) as error:
                log.info("what earlier looks at this fleet found cannot be used: %s", type(error).__name__)
                kept = None
            if kept is not None and kept.stamp == self._stamp:
                self._held = {each.run_id: each for each in kept.runs}
        return self._held

    def _save(self) -> None:
        """Keep what was found. Of two that look at the same fleet the last one wins."""
        held = self._load()
        for run_id in list(held)[: max(0, len(held) - _KEPT)]:
            del held[run_id]
        if self._state is None:
            return
        document = codec(JudgedRuns).document(JudgedRuns(self._stamp, tuple(held.values())))
        body = json.dumps(document).encode()
        try:
            if len(body) <= _LIMIT_BYTES:
                self._state.write(self._file, body)
        except StoreError as error:
            log.debug("what this look found could not be kept: %s", error)


def _affordable(runs: Sequence[UnrecordedRun], requests: float, log_bytes: int) -> Iterator[UnrecordedRun]:
    """The first of ``runs`` that fit into these limits."""
    for run in runs:
        requests -= run.requests
        log_bytes -= run.log_bytes
        if requests < 0 or log_bytes < 0:
            return
        yield run
