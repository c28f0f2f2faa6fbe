"""All that is known of a fleet's runs, and the rows that follow from it. Does no I/O; not thread-safe."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime, timezone
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final

from lastbeat.fleet.index import newest_of
from lastbeat.model import runid
from lastbeat.model.codec import DamagedError
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.policy import Policy
from lastbeat.model.runid import is_hardly_a_run
from lastbeat.model.status import UNWELL
from lastbeat.model.view import SPARK_POINTS, Row, WatchState
from lastbeat.stores.port import Blob, Entry, StoreError
from lastbeat.views.fleet_index import Index
from lastbeat.views.heartbeats import read_told
from lastbeat.views.known_run import (
    Content,
    DocumentRequest,
    KnownDocument,
    KnownRun,
    UnreadableDocument,
    gist_of,
    is_over,
    token,
)
from lastbeat.views.log_judge import AGAIN_S, JudgedRun, UnrecordedRun
from lastbeat.views.order import NEEDS_PEOPLE, need, sorted_rows
from lastbeat.views.rows import row, same_until, standing_of, unrecorded
from lastbeat.views.safe import Safe, shown
from lastbeat.views.standing import of_record
from lastbeat.watch.decide.leaving import still_out
from lastbeat.watch.observe.fleet import RunFiles
from lastbeat.watch.record.codec import decode_record
from lastbeat.watch.record.limits import FleetLimits

if TYPE_CHECKING:
    from lastbeat.watch.record.silences import Silenced

_told = attrgetter(*Row.__slots__)
_SHARE: Final = 0.75
"""The most that what goes first takes of a round, where other documents wait as well."""


class FleetState:
    """``at`` is the time of the last listing by the store's clock, ``listings`` how many there were. ``all_beats``:
    every document that changed is read, for reading costs nothing."""

    def __init__(
        self,
        policy: Policy,
        since_s: float,
        mask: Callable[[str], str],
        *,
        all_beats: bool,
        limits: FleetLimits | None = None,
    ) -> None:
        self.at: datetime | None = None
        self.listings = 0
        self.watching = WatchState()
        self.closed: dict[str, str] = {}
        """Folders that could not be looked into in this listing and are taken for no runs, and why."""
        self.table = Table()
        self._policy = policy
        self._limits = limits
        self._since_s = since_s
        self._mask = mask
        self._all_beats = all_beats
        self._runs: dict[str, KnownRun] = {}
        self._older: set[str] = set()
        self._over: dict[str, KnownDocument] = {}
        """Runs that only their records showed to be over long since → the record."""
        self._requests: dict[str, list[DocumentRequest]] = {}
        """What is to be read of runs of which something is."""
        self._due: dict[str, float] = {}
        """When (unix seconds) the row of a run may change though nothing of it is written."""
        self._touched: set[str] = set()
        """Runs that were written, or read, since their rows were made."""
        self._readings = 0
        """How often the index, and the fleet's limits, had been read when rows were last rebuilt."""
        self._silences: Silenced = ()
        self._listed: set[str] = set()
        self._explainable: set[str] = set()
        """Runs that no pass has recorded, and whose logs may say more of them."""

    @property
    def older(self) -> int:
        """Runs that are not shown."""
        return len(self._older)

    @property
    def unread(self) -> int:
        """Documents that rows lack."""
        return sum(request.first for requests in self._requests.values() for request in requests)

    def begin(self, at: datetime) -> None:
        """A listing begins at ``at``."""
        self.at = at
        self.listings += 1
        self._listed = set()
        self.closed = {}

    def see(self, found: Iterable[RunFiles], index: Index) -> None:
        """Take in these runs of the listing. A run that ended too long ago is dropped as soon as that is known; a new
        one is shown at once."""
        for run in found:
            run_id = run.run_id
            self._listed.add(run_id)
            if run.fault is not None:
                self._miss(run_id, shown(str(run.fault), self._mask), index)
                continue
            known = self._runs.get(run_id)
            if known is not None:
                if known.files != run.files or known.closed is not None:
                    known.see(run.files)
                    self._touched.add(run_id)
                continue
            known = KnownRun(run_id, read_at=self.listings)
            if run_id in self._over:
                known.documents[runid.RECORD] = self._over[run_id]
            known.see(run.files)
            if not self._shelved(known, index):
                self._runs[run_id] = known
                self._touched.add(run_id)

    def _miss(self, run_id: str, why: str, index: Index) -> None:
        """Note that the listing could not look at a run: what is known of it stands."""
        known = self._runs.get(run_id)
        if known is None:
            if run_id in self._older:
                return
            if is_hardly_a_run(run_id):
                self.closed[run_id] = why
                return
            known = KnownRun(run_id, read_at=self.listings)
            known.closed = why
            if self._shelved(known, index):
                return
            self._runs[run_id] = known
        elif known.closed == why:
            return
        known.closed = why
        self._touched.add(run_id)

    def end(self, *, complete: bool) -> None:
        """The listing is over. Unless it is ``complete``, what it did not come to stands as it was."""
        listed, self._listed = self._listed, set()
        if complete:
            for run_id in [run_id for run_id in self._runs if run_id not in listed]:
                self._drop(run_id)
            self._older &= listed
            self._over = {run_id: each for run_id, each in self._over.items() if run_id in listed}

    def recall(self, index: Index) -> None:
        """Take on what passes have left of heartbeats. What was written since is still to be read."""
        for run_id, left in index.gists.items():
            known = self._runs.get(run_id)
            if known is not None:
                known.indexed = index.lines.get(run_id) if known.is_recorded else None
                if known.recall(left):
                    self._touched.add(run_id)

    @property
    def outdated(self) -> tuple[int, float]:
        """How many runs that beat are shown by a heartbeat that was replaced since, and the age in s of the oldest."""
        if self.at is None:
            return 0, 0.0
        seen = (known.seen_at(runid.PROGRESS, self.at) for known in self._runs.values())
        ages = [(self.at - each).total_seconds() for each in seen if each < self.at]
        return len(ages), max(ages, default=0.0)

    def judge(self, index: Index) -> None:
        """Rebuild every row that may have changed, as of the last listing and with what ``index`` knows."""
        at = self.at
        if at is None:
            return
        self.watching = self._with_records(index.watching(at))
        readings = index.readings + (self._limits.readings if self._limits is not None else 0)
        all_of_them = (readings, index.silences) != (self._readings, self._silences)
        self._readings, self._silences = readings, index.silences
        for run_id, known in list(self._runs.items()):
            if all_of_them or run_id in self._touched or self._due[run_id] <= at.timestamp():
                self._judge(known, index)
        self._touched.clear()

    def _with_records(self, watching: WatchState) -> WatchState:
        """Single runs may be watched where no passes are made."""
        last = watching.last_pass_at
        if not watching.known or (last is not None and not watching.overdue):
            return watching
        records = (known.files[runid.RECORD] for known in self._runs.values() if runid.RECORD in known.files)
        written = max((entry.modified for entry in records if entry.fault is None), default=None)
        # A pass leaves its mark after the records that it wrote, or soon will have.
        late_s = 2 * (watching.interval_s or 0.0)
        if written is None or (last is not None and (written - last).total_seconds() <= late_s):
            return watching
        return replace(watching, recorded_at=written)

    def settle(self) -> None:
        """Rows as what was seen and read since makes them: not with every document, for many come at once."""
        for run_id in self._touched:
            known = self._runs.get(run_id)
            if known is not None:
                self._judge(known)
        self._touched.clear()

    def _shelved(self, known: KnownRun, index: Index | None) -> bool:
        """Whether it ended so long ago that it is not shown."""
        run_id, at, finished = known.run_id, self.at, None
        if at is None:
            return False
        if _is_left_out(known):
            if runid.RECORD in known.documents:
                self._over[run_id] = known.documents[runid.RECORD]
            self._drop(run_id)
            self._older.discard(run_id)
            return True
        if index is not None:
            line, finished = index.lines.get(run_id), index.finished.get(run_id)
            if line is not None and (known.is_recorded or known.closed is not None):
                known.indexed = line
        over = is_over(known, finished, at, self._since_s, self._policy_of(known).stale_s)
        known.undecided = over is None
        if over:
            record = known.documents.get(runid.RECORD)
            if record is not None and known.is_recorded and record.token == token(known.files[runid.RECORD]):
                self._over[run_id] = record
            self._drop(run_id)
            self._older.add(run_id)
        return bool(over)

    def _judge(self, known: KnownRun, index: Index | None = None) -> None:
        at = self.at
        if at is None or self._shelved(known, index):
            return
        run_id = known.run_id
        self._older.discard(run_id)
        policy = self._policy_of(known)
        known.seems = unrecorded(known, at, policy)
        if known.explainable:
            self._explainable.add(run_id)
        else:
            self._explainable.discard(run_id)
        shown = self._row(known, at, policy)
        if shown.stands_still and not known.stands_still:
            known.stands_still = True
            shown = self._row(known, at, policy)
        self.table.put(shown, at)
        self._due[run_id] = same_until(known, shown, at, policy, self._since_s)

    def _row(self, known: KnownRun, at: datetime, policy: Policy) -> Row:
        """Its row. Notes the documents that it still lacks."""
        requests = list(known.requests(self.listings, all_beats=self._all_beats))
        if requests:
            self._requests[known.run_id] = requests
        else:
            self._requests.pop(known.run_id, None)
        lacking = any(request.first for request in requests)
        return row(known, standing_of(known), at, policy, self.watching, unread=lacking, silences=self._silences)

    def _policy_of(self, known: KnownRun) -> Policy:
        """The limits for a run: its own as far as they are known, then the fleet's. They decide what is in doubt."""
        policy = self._policy
        policy = policy if self._limits is None else self._limits.known_policy(known.run_id, policy)
        gist = known.gist(runid.METADATA)
        return policy if gist is None else policy.of_run(gist.heartbeat.stale_s, gist.heartbeat.stall_s)

    def _drop(self, run_id: str) -> None:
        for known in (self._runs, self._requests, self._due):
            known.pop(run_id, None)
        self._explainable.discard(run_id)
        self.table.drop(run_id)

    def requests(
        self, most: float, wanted: Collection[str], *, extras: bool, newer: bool = True
    ) -> list[DocumentRequest]:
        """At most ``most`` documents that are to be read, the most urgent first. ``extras``: also such as rows can do
        without. ``newer``: also those of which an earlier writing is known."""
        self.settle()
        waiting = (
            (self._runs[run_id].documents, request) for run_id, each in self._requests.items() for request in each
        )
        return _chosen(
            (each for known, each in waiting if (extras or not each.extra) and (newer or each.name not in known)),
            most,
            wanted,
            self.table.needs,
            lambda run_id: self._runs[run_id].read_at,
        )

    def record_requests(self) -> int:
        """Records that are to be read."""
        self.settle()
        return sum(request.name == runid.RECORD for requests in self._requests.values() for request in requests)

    @property
    def unexplained(self) -> int:
        """Runs that failed or fell silent, that no pass has recorded, and whose logs were not read for this view."""
        return sum(
            known.explained is None and known.seems is not None and known.seems.status in UNWELL
            for known in map(self._runs.__getitem__, self._explainable)
        )

    def unread_runs(self) -> list[UnrecordedRun]:
        """The unrecorded runs whose logs are to be read, the most urgent first: those that failed or fell silent, the
        latest first. What was read a moment ago waits, and so does what the store refused."""
        self.settle()
        wanted: list[tuple[tuple[bool, bool, float, str], UnrecordedRun]] = []
        for run_id in self._explainable:
            known, at = self._runs[run_id], self.at
            seems, read_at = known.seems, known.looked_at
            if seems is None or at is None:
                continue
            if read_at is not None and (at - read_at).total_seconds() < AGAIN_S:
                continue
            beats = {name: beat for name, beat in known.beats.items() if _is_whole(beat, known.files.get(name))}
            run = UnrecordedRun(run_id, known.files, self._policy_of(known), seems.status, beats)
            if known.explained is None or known.explained.key != run.key:
                since = seems.since.timestamp() if seems.since is not None else 0.0
                wanted.append(((seems.status not in UNWELL, read_at is not None, -since, run_id), run))
        return [run for _, run in sorted(wanted, key=itemgetter(0))]

    def take_judged(self, run: UnrecordedRun, found: JudgedRun | None) -> None:
        """Its logs were read; None: the store did not answer."""
        known = self._runs.get(run.run_id)
        if known is not None:
            known.looked_at = self.at
            known.judged = found or known.judged
            self._touched.add(run.run_id)

    def take(self, request: DocumentRequest, content: Content, fault: str | None) -> None:
        """``request`` was read."""
        known = self._runs.get(request.run_id)
        entry = None if known is None else known.files.get(request.name)
        if known is None or entry is None or token(entry) != token(request.entry):
            # Listed again meanwhile.
            return
        known.read_at = self.listings
        known.take(request.name, entry, content, fault)
        self._touched.add(request.run_id)

    def refuse(self, request: DocumentRequest, error: StoreError) -> None:
        """``request`` cannot be read."""
        known = self._runs.get(request.run_id)
        if known is not None:
            why = shown(str(error), self._mask)
            known.refused[request.name] = UnreadableDocument(token(request.entry), why, self.listings, error.retryable)
            self._touched.add(request.run_id)

    def forgive(self) -> None:
        """The store does not answer: that is no fault of the runs that were asked about meanwhile."""
        for run_id, known in self._runs.items():
            lost = [name for name, refused in known.refused.items() if refused.again]
            for name in lost:
                del known.refused[name]
            if lost:
                self._touched.add(run_id)


def _is_left_out(known: KnownRun) -> bool:
    """Whether it was taken out of the fleet, and nothing was written since."""
    standing = known.standing
    if standing is None or standing.left_out is None or known.closed is not None:
        return False
    return still_out(standing.left_out, datetime.fromtimestamp(newest_of(known.files), tz=timezone.utc))


def _is_whole(beat: Heartbeat, entry: Entry | None) -> bool:
    """Whether ``beat`` is all that its file says, as ``entry`` lists it. Another reading may understand more of it."""
    return entry is not None and beat.fault is None and (beat.version, beat.modified) == (entry.version, entry.modified)


def understand(request: DocumentRequest, blob: Blob | None, mask: Callable[[str], str]) -> tuple[Content, str | None]:
    """What a document says, and why it could not be understood. None: it is gone, which the next listing will show."""
    if blob is None:
        return None, None
    if request.name == runid.ERROR:
        return Safe(mask).text(blob.body.decode("utf-8", "replace")), None
    if request.name != runid.RECORD:
        told = read_told(blob, mask, SPARK_POINTS, curve=request.judged)
        return gist_of(told), told.heartbeat.fault
    if blob.size_bytes > len(blob.body):
        return None, f"it is {blob.size_bytes:,} bytes long"
    try:
        return of_record(decode_record(blob.body), mask), None
    except DamagedError as error:
        return None, shown(str(error), mask)


class Table:
    """The rows of a fleet as they are, in the order of need."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._needs: dict[str, int] = {}
        self._sorted: tuple[Row, ...] | None = ()

    def put(self, row: Row, at: datetime | None) -> None:
        """``row`` as of ``at``. One that is as it was, in the same need, stays the very same object: by that others see
        what changed."""
        run_id, needs = row.run_id, need(row, at)
        known = self._rows.get(run_id)
        # As tuples, in which a NaN is equal to itself.
        if known is not None and self._needs[run_id] == needs and _told(known) == _told(row):
            return
        self._rows[run_id], self._needs[run_id] = row, needs
        self._sorted = None

    def drop(self, run_id: str) -> None:
        """It is not shown any more."""
        if self._rows.pop(run_id, None) is not None:
            del self._needs[run_id]
            self._sorted = None

    def needs(self, run_id: str) -> int | None:
        """How much a run needs people, see :func:`lastbeat.views.order.need`."""
        return self._needs.get(run_id)

    def rows(self, at: datetime | None) -> tuple[Row, ...]:
        """All of them in the order of need; ``at`` is what they were put in as of."""
        if self._sorted is None:
            self._sorted = sorted_rows(self._rows.values(), at)
        return self._sorted


def _chosen(
    requests: Iterable[DocumentRequest],
    most: float,
    wanted: Collection[str],
    needs: Callable[[str], int | None],
    read_at: Callable[[str], int],
) -> list[DocumentRequest]:
    """At most ``most`` of ``requests``: records first, then what people see right now, then the runs that need people,
    then those of which nothing is known yet; but a part is always for whatever has not been read for longest.

    ``needs`` tells how much a run needs people, ``read_at`` when something of it was last read, by whatever count."""

    def urgency(request: DocumentRequest) -> int:
        if request.extra:
            return 5
        if request.name == runid.RECORD:
            return 0
        if request.run_id in wanted:
            return 1
        need = needs(request.run_id)
        return 2 if need is not None and need <= NEEDS_PEOPLE else 3 if request.first else 4

    ordered = sorted(
        requests, key=lambda request: (urgency(request), read_at(request.run_id), request.run_id, request.name)
    )
    if len(ordered) <= most:
        return ordered
    room = max(0, int(most))
    ahead = ordered[: int(room * _SHARE)]
    rest = sorted(ordered[len(ahead) :], key=lambda request: (request.extra, read_at(request.run_id), urgency(request)))
    return ahead + rest[: room - len(ahead)]
