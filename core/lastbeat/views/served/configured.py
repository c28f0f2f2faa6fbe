"""Settings → the application that serves a fleet."""

import secrets
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone

from lastbeat.model.document import masked
from lastbeat.settings import Settings, opening, own_log
from lastbeat.stores import clock
from lastbeat.stores.counting import Tally
from lastbeat.views.acting.stopping import Lives, none_lives
from lastbeat.views.documents import Delta, fleet_document
from lastbeat.views.fleet_losses import LOSSES_SINCE_S, LossReader, losses_document
from lastbeat.views.one_run import run_watch
from lastbeat.views.page.assembling import page
from lastbeat.views.run_document import run_document
from lastbeat.views.served.answer import Response
from lastbeat.views.served.app import App, DataSources
from lastbeat.views.served.changes import StoredChanges
from lastbeat.views.served.door import Door
from lastbeat.views.served.fleet import DocumentQuery, FleetLook
from lastbeat.views.served.losses import LossLooks
from lastbeat.views.served.runs import RunLooks
from lastbeat.views.served.slack import LIMIT_S, SlackConsole
from lastbeat.views.watching import fleet_watch
from lastbeat.watch.record.limits import LISTED_FOR_S, FleetLimits

_LOSSES_S = 120.0
"""Longest time, in seconds, that one request may read records for what failures cost."""
_MOST_RECORDS = 2000
"""Most records that one request reads for what failures cost. The next request reads the rest."""


def served(  # noqa: PLR0913 - each says what it is
    settings: Settings,
    door: Door,
    interval_s: float,
    asked: Tally,
    *,
    metrics: Callable[[str], Response],
    lives: Lives = none_lives,
    by_request: bool = False,
    left_s: Callable[[], float] = lambda: LIMIT_S,
) -> tuple[App, FleetLook]:
    """The application behind ``door``, and what reads the fleet for it once an interval. ``asked`` counts its requests
    to the store; ``metrics`` answers scrapes. ``by_request``: no thread reads, but a request does if an interval is
    over; the process may be frozen between two of them, and the logs of runs that no pass has recorded are not read.
    ``left_s`` returns the time in s for the answer to Slack's present request."""
    # The monotonic clock stands still in a frozen process.
    steady = clock.steady if by_request else time.monotonic
    at, at_runs, at_acts = (opening.store(settings, tally=asked) for _ in range(3))
    limits = FleetLimits(at, LISTED_FOR_S)
    watch = fleet_watch(settings, at=at, limits=limits, explains=not by_request)
    runs = RunLooks(
        lambda run_id: run_watch(settings, run_id, at=at_runs, limits=limits),
        lambda view: run_document(view, _now()),
        interval_s=interval_s,
        reads_an_interval=None if at.traits.prices.free else lambda: watch.pages,
        steady=steady,
    )

    def query_document(query: DocumentQuery) -> Mapping[str, object]:
        snapshot = query.snapshot
        changed = [snapshot.rows[run_id] for run_id in query.changed]
        return fleet_document(
            snapshot.view,
            made_at=_now(),
            live=True,
            interval_s=interval_s,
            stale_s=settings.policy.stale_s,
            seq=snapshot.seq,
            epoch=query.epoch,
            delta=None if query.since is None else Delta(query.since, changed, query.gone),
            keys=query.keys,
        )

    fleet = FleetLook(
        watch,
        query_document,
        interval_s=interval_s,
        epoch=secrets.token_hex(6),
        turn=runs.turn,
        by_request=by_request,
        steady=steady,
    )
    reader = LossReader(opening.store(settings, tally=asked), own_log.redact(at.url), settings.redactor)

    def losses() -> Mapping[str, object]:
        found = reader.read(LOSSES_SINCE_S, until=time.monotonic() + _LOSSES_S, most=_MOST_RECORDS)
        return {name: masked(each, own_log.redact) for name, each in losses_document(found).items()}

    sources = DataSources(
        fleet=fleet.document,
        run=runs.document,
        curves=runs.curves,
        comparison=runs.comparison,
        losses=LossLooks(losses).document,
        metrics=metrics,
        change=StoredChanges(settings, at_acts, lives=lives).answer,
        slack=SlackConsole(settings, at_acts, fleet.current_view, lives=lives, left_s=left_s).answer,
    )
    return App(page(), sources, door), fleet


def _now() -> datetime:
    return datetime.now(timezone.utc)
