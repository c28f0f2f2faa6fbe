"""A sweep watches a fleet, pass after pass. The command line and the Lambda function both call it."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from lastbeat.alerts.port import Channel
from lastbeat.fleet.context import SweepContext
from lastbeat.fleet.deadlines import PassTimes, half_until
from lastbeat.fleet.digest import DailyDigest
from lastbeat.fleet.index import FleetIndex
from lastbeat.fleet.mark import MarkWriter
from lastbeat.fleet.one_pass import Pass, Progress
from lastbeat.fleet.ping import Ping, ping_pass
from lastbeat.fleet.scan_plan import choose, split
from lastbeat.model.codec import DamagedError
from lastbeat.model.fleet import WHOLE, PassReport, Shard
from lastbeat.model.group import LEDGER, Ledger
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.runid import SWEEP_MARK
from lastbeat.model.status import Status
from lastbeat.model.text import counted
from lastbeat.stores.counting import Tally
from lastbeat.stores.port import Store, StoreError
from lastbeat.stores.volatile import VolatileStore
from lastbeat.watch.decide.first_look import goes_on
from lastbeat.watch.effects.blindness import FLEET, RUN, SOME_RUNS, BlindnessAlert, Subject, state_key
from lastbeat.watch.effects.message import RunLocation
from lastbeat.watch.record.codec import LEDGER_LIMIT_BYTES, decode
from lastbeat.watch.record.repository import RecordRepository
from lastbeat.watch.watchdog import WatchContext

log = logging.getLogger(__name__)

_SINGLE_LIMIT = 10
"""Most unobservable runs that get an alert each; more share one."""
_FLEET = "_fleet"
_SOME = "_some"


class PageWriter(Protocol):
    """Writes the page of the fleet: ``lastbeat.views.page.writing.PageOfFleet``."""

    def write(self, report: PassReport, until: float) -> PassReport:
        """Write the page if it is due, before ``until``; never raises."""
        ...


class PassViews(PageWriter, Protocol):
    """What a pass leaves for views, the page among it: ``lastbeat.views.left_gists.LeftForViews``."""

    @property
    def store(self) -> Store:
        """The store that the pass has to use, for this to see what it reads."""
        ...


class Sweep:
    """Watches a fleet, or a shard of it: each :meth:`run` is one pass.

    Its state only saves requests between passes; a restart loses nothing. ``tally`` counts the requests to the store.
    ``mark``, ``ping`` and ``views`` publish the outcome after the pass itself.
    """

    def __init__(  # noqa: PLR0913 - every output of a pass by its name
        self,
        context: WatchContext,
        fleet: FleetPolicy,
        *,
        shard: Shard = WHOLE,
        tally: Tally | None = None,
        mark: MarkWriter | None = None,
        ping: Ping | None = None,
        views: PageWriter | None = None,
    ) -> None:
        self._tally = tally or Tally()
        self._mark = mark
        self._ping = ping
        self._views = views
        self._clock = context.clock
        self._routing = context.routing
        self._context = SweepContext(context, fleet, shard)
        self._blindness = FleetBlindness(context, self._context.channels)
        # The first part of a split fleet sends the digest of all of it.
        daily = fleet.digest if not shard.after else None
        self._digest = DailyDigest(context, self._context.channels, daily) if daily is not None else None

    def run(self, *, deadline: float | None = None, progress: Progress | None = None) -> PassReport:
        """Make one pass and return its report. Never raises for a fault of the store, a channel, a run or the ping.

        1. Sweep the fleet. Ping the beginning once the store has answered.
        2. Leave the mark that a watchdog is active.
        3. Ping the outcome of the pass.
        4. Leave what views need, and write the page if it is due. It comes last because it may fail; its requests go
           into the mark.

        A blind pass ends after step 1, because it has watched nothing.

        The pass ends by ``deadline``, a time of ``time.monotonic()``, even if a call hangs, and the next continues
        there. Part of the time is reserved for each later step.
        """
        ends = float("inf") if deadline is None else deadline
        times = PassTimes(ends, self._mark is not None, self._ping is not None, self._views is not None)
        on_sight = self._ping.start if self._ping is not None else None
        report = self._sweep(times.sweep, progress, on_sight)
        if report.blind is not None:
            return report
        if self._mark is not None:
            report = self._mark.write(report, times.mark)
        if self._ping is not None:
            ping_pass(self._ping, report, within_s=times.left_s)
        if self._views is not None:
            report = self._views.write(report, times.page)
            if self._mark is not None:
                report = self._mark.amend(report, times.deadline)
        return report

    def _sweep(self, ends: float, progress: Progress | None, on_sight: Callable[[], None] | None) -> PassReport:
        """Make the pass itself.

        1. Load the index of the fleet, and choose how to find changes.
        2. Work on the runs that need it.
        3. Group related alerts, and report.
        4. Save the index. This precedes step 5, so that an unobservable run gets another look before its alert.
        5. Alert about runs that could not be observed for long.
        6. Send the digest if it is due.
        """
        began, asked, on = time.monotonic(), self._tally.counts, self._context
        until = PassTimes(ends).looks
        on.timely.until = until
        current: Pass | None = None
        try:
            index, now = on.index_store.load_for_pass(), on.timely.clock()
            plan = choose(index, now.timestamp(), on.fleet, free=on.store.traits.prices.free)
            first_look = self._first_look(index, now)
            current = Pass(on, index, now, until, progress, on_sight, first_look=first_look)
            current.run(plan)
        except StoreError as error:
            if current is not None:
                current.give_up()
            return self._blind(error, began, asked, ends)
        report = current.close(ends)
        if on.dry_run:
            return _timed(report, began, self._tally.since(asked), report.notes)
        on.timely.until = half_until(ends)
        notes = [*report.notes, *on.index_store.save(index, now)]
        identities = [channel.identity for channel in on.channels]
        on.calls.call("registering the channels", lambda: self._routing.register(identities, now), half_until(ends))
        if on.failures is not None:
            on.calls.call("remembering failures", on.failures.save, half_until(ends))
        blind = on.calls.call("alerting about blindness", lambda: self._alert_blindness(current, report), ends)
        if blind is None:
            # Reporting twice that a run can be observed does no harm.
            with index.lock:
                on.late.seen_again.extend(current.results.seen_again)
        digest = self._digest
        told = on.calls.call("the digest", lambda: digest.send(ends), ends) if digest is not None else ()
        return _timed(report, began, self._tally.since(asked), [*notes, *(blind or ()), *(told or ())])

    def _first_look(self, index: FleetIndex, now: datetime) -> datetime | None:
        """Start of the first pass over this fleet, while no pass has completed since; None once one has.

        A fleet was never watched if it has no index, mark or ledger. While that cannot be determined, runs that had
        ended before wait for a pass that can.
        """
        store, new = self._context.timely, self._context.index_store.is_new
        if not new and not index.cursor:
            return None
        try:
            blob = store.read(LEDGER, LEDGER_LIMIT_BYTES)
            if blob is not None:
                known = decode(blob.body, Ledger).first_look
                return known.began_at if known is not None and goes_on(known, now) else None
            return now if new and store.read(SWEEP_MARK, 1) is None else None
        except (StoreError, DamagedError) as error:
            log.info("whether this fleet was watched before is not known: %s", error)
            return now if new and isinstance(error, StoreError) and error.retryable else None

    def _alert_blindness(self, current: Pass, report: PassReport) -> tuple[str, ...]:
        for run_id in current.results.seen_again:
            self._blindness.regained(run_id)
        return self._blindness.after(report, self._context.index_store.load().unseen_since)

    def _blind(self, error: StoreError, began: float, asked: dict[str, int], ends: float) -> PassReport:
        if not self._context.dry_run:
            self._context.calls.call("alerting about blindness", lambda: self._blindness.lost(str(error)), ends)
        report = PassReport(self._clock(), blind=str(error), advice=error.advice, complete=False)
        return _timed(report, began, self._tally.since(asked), ())

    def shards(self, *, deadline: float | None = None) -> tuple[Shard, ...]:
        """Shards of about ``fanout_runs`` active runs each; a single one if the fleet is small, or its last whole
        listing is too old. Raises :class:`StoreError`, also if the index could not be read by ``deadline``, a time of
        ``time.monotonic()``."""
        on = self._context
        on.timely.until = float("inf") if deadline is None else deadline
        return split(on.index_store.load(), on.timely.clock().timestamp(), on.fleet, on.shard)


class FleetBlindness:
    """Alerts when passes have not observed the fleet, or some of its runs, for ``policy.blind_s``: once for the fleet,
    not once per run."""

    def __init__(self, context: WatchContext, channels: Sequence[Channel]) -> None:
        self._url = context.store.url
        self._channels = channels
        self._policy = context.policy
        self._clock = context.clock
        self._routing = context.routing
        self._state = context.state or VolatileStore(context.clock)
        self._token = os.urandom(6).hex()
        self._fleet = self._alert(_FLEET, FLEET)
        # Separate from the fleet's alert: even if many runs are closed for good, a blind fleet needs an alert.
        self._some = self._alert(_SOME, SOME_RUNS)
        self._runs: dict[str, BlindnessAlert] = {}

    def lost(self, reason: str) -> None:
        """Note that a pass could not observe the fleet at all."""
        self._fleet.lost(self._url, reason)

    def after(
        self, report: PassReport, since: Callable[[str], datetime | None] = lambda _run_id: None
    ) -> tuple[str, ...]:
        """Note that a pass observed the fleet except ``report.unreadable``. ``since`` returns since when a run cannot
        be observed. Returns notes."""
        if report.unreadable_count > _SINGLE_LIMIT:
            # Which run is named must not depend on which look ended first.
            first, why = min(report.unreadable.items())
            reason = f"{counted(report.unreadable_count, 'run')} could not be observed, {first} among them: {why}"
            if any(count for status, count in report.statuses.items() if status != Status.UNKNOWN.value):
                self._fleet.regained(self._url)
                self._some.lost(self._url, reason)
            else:
                self._fleet.lost(self._url, reason)
            return (reason,)
        self._fleet.regained(self._url)
        self._some.regained(self._url)
        for run_id, why in report.unreadable.items():
            if run_id not in self._runs:
                self._runs[run_id] = self._alert(run_id)
            began = since(run_id)
            # Converted to this alert's clock, which may differ from the store's.
            ours = None if began is None else self._clock() - (report.at - began)
            self._runs[run_id].lost(run_id, why, ours)
        return ()

    def regained(self, run_id: str) -> None:
        """Note that a run was observed again."""
        (self._runs.pop(run_id, None) or self._alert(run_id)).regained(run_id)

    def _alert(self, run_id: str, subject: Subject = RUN) -> BlindnessAlert:
        repository = RecordRepository(self._state, state_key("blind", self._url, run_id), self._token)
        place = RunLocation(f"{self._url.rstrip('/')}/{run_id + '/' if subject is RUN else ''}")
        return BlindnessAlert(
            repository, self._channels, self._policy, place, self._clock, subject=subject, routing=self._routing
        )


def _timed(report: PassReport, began: float, requests: dict[str, int], notes: Sequence[str]) -> PassReport:
    return replace(report, seconds=time.monotonic() - began, requests=requests, notes=tuple(notes))
