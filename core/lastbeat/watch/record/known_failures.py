"""Which runs of a fleet failed with which fingerprint: one small document beside the runs, by compare-and-set.

No decision depends on it, and it may be lost: alerts then lack similar failures for some time. Any fault in it costs an
alert that line and a few seconds at most.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import ClassVar, Final

from lastbeat.model import runid
from lastbeat.model.codec import DamagedError, codec
from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Form, Persisted, UnixTime
from lastbeat.model.record import Record
from lastbeat.model.similar import KNOWN_FAILURES, SimilarFailure
from lastbeat.model.text import fit, one_line
from lastbeat.stores.limited import LimitedStore
from lastbeat.stores.port import Blob, Store, StoreError, UnreachableError
from lastbeat.watch.record import fleet_document
from lastbeat.watch.record.codec import RECORD_LIMIT_BYTES, decode_record
from lastbeat.watch.record.fleet_document import GOOD_FOR_S, LIMIT_BYTES, Remembered, encode

log = logging.getLogger(__name__)

MOST_RUNS: Final = 12
"""At most this many runs of one fingerprint are named, the latest; earlier ones are counted."""
ANSWER_S: Final = 3.0
"""Seconds that an alert waits for the document. All alerts together wait as long for records, in each period for
which an answer is good."""
_WRITE_S: Final = 10.0
_SETTLES: Final = timedelta(minutes=10)
"""A failure younger than this has no aftermath yet. If many runs fail at once, none of their records is read."""
_ASKED_RUNS: Final = 8
"""At most this many runs' records are read for their aftermath, in each period for which an answer is good."""
_UNSAVED: Final = 1000
"""At most this many failures, the latest, wait while the document cannot be written."""
_FINGERPRINTS: Final = 2000
"""Limit of the fingerprints in the document: more than it has room for."""
_CLOCKS: Final = timedelta(hours=1)
_KEPT: Final = LIMIT_BYTES - 2048

Aftermath = Callable[[Record, int, str], str]
"""Record, attempt, fingerprint → a word of ``model.similar``."""


@dataclass(frozen=True)
class FailedRun(Persisted):
    """The last time that a run failed with this fingerprint."""

    FORM: ClassVar = Form.ROW

    run_id: str
    at: UnixTime
    attempt: int = 1


@dataclass(frozen=True)
class KnownFailure(Persisted):
    """The runs that failed with one fingerprint."""

    fingerprint: str
    error_type: str
    runs: tuple[FailedRun, ...] = ()
    """Each run once, the latest last."""
    earlier: int = 0
    """How many more runs there were before these."""

    def with_run(self, run: FailedRun) -> "KnownFailure":
        """The same failure after ``run`` failed like this, too."""
        known = next((each for each in self.runs if each.run_id == run.run_id), None)
        if known is not None and known.at >= run.at:
            return self
        runs = sorted((*(each for each in self.runs if each is not known), run), key=lambda each: each.at)
        gone = max(0, len(runs) - MOST_RUNS)
        return replace(self, runs=tuple(runs[gone:]), earlier=self.earlier + gone)


@dataclass(frozen=True)
class FailuresDocument(Persisted):
    """The document."""

    failures: tuple[KnownFailure, ...] = ()


class KnownFailures:
    """Reads on the first question and remembers; writes new failures on request. Thread-safe; never raises."""

    def __init__(
        self, store: Store, answer_s: float = ANSWER_S, *, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._answer_s = answer_s
        self._steady = steady
        self._reading = LimitedStore(store, answer_s)
        self._writing = LimitedStore(store, _WRITE_S)
        self._read: Remembered[None] = Remembered(None, self._renewed)
        self._judging = threading.Lock()
        """Guards the questions about a run's aftermath; taken before the other lock."""
        self._lock = threading.Lock()
        """Guards the fields below."""
        self._known: dict[str, KnownFailure] = {}
        self._new: dict[tuple[str, str], tuple[str, FailedRun]] = {}
        """Failures that the store does not have yet: fingerprint and run → error type, and the failure."""
        self._became: dict[tuple[str, int], str] = {}
        self._left_s = answer_s
        """Seconds left for reading records."""
        self._unanswered = False
        """The store did not answer the last request for the document: one alert has waited, and no other does."""

    def similar(
        self, fingerprint: str, run_id: str, attempt: int, now: datetime, judge: Aftermath
    ) -> SimilarFailure | None:
        """The latest failure with ``fingerprint`` before attempt ``attempt`` of ``run_id``, or None if none is known or
        the store did not answer in time. ``judge`` returns its aftermath."""
        if not fingerprint:
            return None
        self._read.at(now)
        with self._lock:
            known = self._known.get(fingerprint)
        if known is None:
            return None
        earlier = [each for each in known.runs if each.run_id != run_id and each.at <= now + _CLOCKS]
        own = next((each for each in known.runs if each.run_id == run_id and each.attempt < attempt), None)
        latest = earlier[-1] if earlier else own
        if latest is None:
            return None
        found = SimilarFailure(
            latest.run_id,
            min(latest.at, now),
            latest.attempt,
            own=latest is own,
            runs=len(earlier) + 1 + known.earlier,
        )
        return found if latest is own else replace(found, aftermath=self._aftermath(latest, fingerprint, now, judge))

    def saw(self, fingerprint: str, error_type: str, run_id: str, attempt: int, at: datetime) -> None:
        """Note a failed run; :meth:`save` writes it."""
        if not fingerprint:
            return
        run = FailedRun(run_id, at.replace(microsecond=0), attempt)
        with self._lock:
            self._new.pop((fingerprint, run_id), None)
            self._new[fingerprint, run_id] = error_type, run
            while len(self._new) > _UNSAVED:
                del self._new[next(iter(self._new))]
            self._known = _with(self._known, ((fingerprint, error_type, run),))
            while len(self._known) > _FINGERPRINTS:
                del self._known[next(iter(self._known))]

    def save(self) -> None:
        """Write the noted failures. A failed write is retried at the next call."""
        with self._lock:
            new = dict(self._new)
        if not new:
            return
        added = [(fingerprint, error_type, run) for (fingerprint, _), (error_type, run) in new.items()]

        def changed(blob: Blob | None) -> FailuresDocument | None:
            held = _decoded(blob)
            before = {each.fingerprint: each for each in held.failures}
            after = _with(before, added)
            return None if after == before else _fitted(replace(held, failures=tuple(after.values())))

        try:
            fleet_document.change(self._writing, KNOWN_FAILURES, changed, "remove it: it is rebuilt")
        except StoreError as error:
            log.info("similar failures are not known to other watchers: %s", error)
            return
        with self._lock:
            self._new = {key: each for key, each in self._new.items() if new.get(key) != each}

    def _renewed(self) -> tuple[None, float]:
        """Read into ``_known``. A store that does not answer is asked again no sooner than one that does."""
        try:
            held = _decoded(self._reading.read(KNOWN_FAILURES, LIMIT_BYTES))
        except StoreError as error:
            log.info("whether others failed like this is not known: %s", error)
            return None, GOOD_FOR_S
        with self._judging, self._lock:
            self._became.clear()
            self._left_s = self._answer_s
            self._unanswered = False
            new = [(fingerprint, error_type, run) for (fingerprint, _), (error_type, run) in self._new.items()]
            self._known = _with({each.fingerprint: each for each in held.failures}, new)
        return None, GOOD_FOR_S

    def _aftermath(self, run: FailedRun, fingerprint: str, now: datetime, judge: Aftermath) -> str:
        key = run.run_id, run.attempt
        with self._judging:
            known = self._became.get(key)
            spent = self._left_s <= 0 or len(self._became) >= _ASKED_RUNS
            if known is not None or now - run.at < _SETTLES or spent or self._unanswered:
                return known or ""
            self._became[key] = ""
            begun = self._steady()
            try:
                records = LimitedStore(self._store, self._left_s)
                blob = records.read(f"{run.run_id}/{runid.RECORD}", RECORD_LIMIT_BYTES)
                record = decode_record(blob.body) if blob is not None else None
            except (StoreError, DamagedError) as error:
                log.info("what became of %s is not known: %s", run.run_id, error)
                self._unanswered = isinstance(error, UnreachableError)
                return ""
            finally:
                self._left_s -= self._steady() - begun
            if record is not None and record.run_id == run.run_id:
                self._became[key] = judge(record, run.attempt, fingerprint)
            return self._became[key]


def _with(known: dict[str, KnownFailure], added: Iterable[tuple[str, str, FailedRun]]) -> dict[str, KnownFailure]:
    """``known`` with the failures of ``added``; the latest failure comes last."""
    after = dict(known)
    for fingerprint, error_type, run in added:
        before = after.get(fingerprint) or KnownFailure(fingerprint, fit(one_line(error_type), 60))
        longer = before.with_run(run)
        if longer != before:
            after.pop(fingerprint, None)
            after[fingerprint] = longer
    return after


def _fitted(document: FailuresDocument) -> FailuresDocument:
    """``document`` without the oldest failures that it has no room for."""
    while len(encode(document)) > _KEPT and document.failures:
        document = replace(document, failures=document.failures[max(1, len(document.failures) // 10) :])
    return document


def _decoded(blob: Blob | None) -> FailuresDocument:
    """The usable content of the document. A damaged one counts as empty, and is rewritten. Raises :class:`StoreError`
    for one of a newer version, which is left unchanged."""
    if blob is None:
        return FailuresDocument()
    try:
        document = fleet_document.parse(blob, KNOWN_FAILURES, '{"schema": 1, "failures": […]}')
        held = codec(FailuresDocument).read(document)
    except DamagedError as fault:
        log.info("%s is damaged (%s); it is rebuilt", KNOWN_FAILURES, fault)
        return FailuresDocument()
    return replace(held, failures=tuple(map(_checked, held.failures)))


def _checked(known: KnownFailure) -> KnownFailure:
    # Any user with write access to the store may have written this, and alerts show it.
    runs = tuple(each for each in known.runs[-MOST_RUNS:] if runid.is_run_id(each.run_id))
    return replace(known, runs=runs, earlier=min(max(0, known.earlier), 10**6))
