"""The execution environment: state that the function keeps warm between events, and the handling of each event."""

import logging
import os
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import lastbeat_lambda
from lastbeat import settings as configuration
from lastbeat.alerts.port import Channel
from lastbeat.fleet.configured import configured_sweep
from lastbeat.fleet.deadlines import half_until
from lastbeat.fleet.report import pass_document
from lastbeat.model.document import outcome_document
from lastbeat.model.fleet import Shard
from lastbeat.model.outcome import Outcome
from lastbeat.model.status import Status
from lastbeat.settings import Settings, old_names, opening, table
from lastbeat.settings.channels import configured_channels
from lastbeat.stores.clock import steady
from lastbeat.stores.port import Store, StoreError
from lastbeat.stores.s3 import MONITORING_REGION
from lastbeat.views.left_gists import left_for_views
from lastbeat.watch.configured import configured_watch
from lastbeat_lambda import telemetry
from lastbeat_lambda.events import CheckRequest, Ignored, ObjectEvents, QueueBatch, Request, SweepRequest
from lastbeat_lambda.secret_error import SecretError

if TYPE_CHECKING:
    from lastbeat.fleet.sweep import Sweep
    from lastbeat_lambda.fleet_page import FleetPage

SECRET_S = 900.0
"""A webhook address that is stored elsewhere is read again after this many seconds."""
FROZEN_S = 2.0
"""Lambda freezes an idle environment. If the monotonic clock lost more than this many seconds, durations are wrong."""
SHARDS_KEPT = 4
"""Most shards whose sweeps are kept warm."""
MARGIN_S = 5.0
"""Seconds at the end of an invocation, reserved for a pass's last writes and deliveries, and for the answer."""
TRANSITIONS_LIMIT = 1000
"""Most transitions in an answer, which may have at most 6 MB."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TimeLimit:
    """When Lambda ends this invocation, by ``time.monotonic()``; None for no limit."""

    ends: float | None = None

    @classmethod
    def of(cls, context: Any) -> "TimeLimit":
        """The limit in ``context``; no limit if the handler is called by hand, without a context."""
        left_ms = getattr(context, "get_remaining_time_in_millis", None)
        return cls(time.monotonic() + left_ms() / 1000) if callable(left_ms) else cls()

    @property
    def deadline(self) -> float | None:
        """When a pass must be finished. The margin is at most a quarter of the remaining time."""
        if self.ends is None:
            return None
        return self.ends - min(MARGIN_S, max(self.ends - time.monotonic(), 0.0) / 4)

    @property
    def over(self) -> bool:
        """Whether too little time is left to begin anything."""
        return self.ends is not None and time.monotonic() > self.ends - MARGIN_S


def _variables() -> dict[str, str]:
    """The environment variables for settings, credentials and endpoints."""
    names = {*old_names.HINTS, *(setting.name for setting in configuration.every_setting())}
    return {name: text for name, text in os.environ.items() if name in names or name.startswith("AWS_")}


@dataclass
class ExecutionEnvironment:
    """Settings, channels, the store, and a sweep for the fleet or for each of its shards."""

    settings: Settings
    channels: tuple[Channel, ...]
    store: Store
    secret: str | None = None
    """The webhook's address as read at :attr:`read_at`; None if it is not stored elsewhere."""
    read_at: float = field(default_factory=time.time)
    began: tuple[float, float] = field(default_factory=lambda: (time.time(), steady()))
    variables: dict[str, str] = field(default_factory=_variables)
    """The environment variables that the settings were read from."""
    sweeps: "OrderedDict[Shard | None, Sweep]" = field(default_factory=OrderedDict)
    page: "FleetPage | None" = None
    """The fleet's page, if a request for it came."""

    # Lifetime.

    @classmethod
    def made(cls, earlier: "ExecutionEnvironment | None" = None) -> "ExecutionEnvironment":
        """A new environment from the environment variables, or ``earlier`` if only its secret had to be read again.

        Raises ``SettingsError`` and ``SecretError``.
        """
        settings = configuration.load(watching=True)
        telemetry.follow(settings)
        secret = None
        place = settings[table.SLACK_WEBHOOK_FROM]
        if isinstance(place, str):
            secret = _secret(place, settings, earlier)
            if earlier is not None and earlier.secret == secret and earlier.lasts():
                # Keeps deliveries that are not recorded yet, and channels that are paused for a while.
                earlier.read_at = time.time()
                return earlier
            settings = configuration.load(environ={**os.environ, "SLACK_WEBHOOK_URL": secret}, watching=True)
            telemetry.follow(settings)
        for warning in (*settings.warnings, *settings.name_hints):
            _log.warning("%s", warning)
        made = cls(settings, configured_channels(settings), opening.store(settings), secret)
        if earlier is not None and earlier.variables == made.variables:
            # Its clocks go on while the machine is frozen.
            made.page = earlier.page
        return made

    def outdated(self) -> bool:
        """Whether a new environment is needed before the next event."""
        return not self.lasts() or (self.secret is not None and time.time() - self.read_at > SECRET_S)

    def lasts(self) -> bool:
        """Whether everything except the secret is still valid."""
        return not self.was_frozen() and self.variables == _variables()

    def was_frozen(self) -> bool:
        """Whether Lambda has frozen this machine since the environment was made."""
        return abs((time.time() - self.began[0]) - (steady() - self.began[1])) > FROZEN_S

    def sweep_of(self, shard: Shard | None) -> "Sweep":
        """The sweep of the fleet, or of a shard."""
        if shard not in self.sweeps:
            self.sweeps[shard] = configured_sweep(
                self.settings, self.channels, clock=_now, shard=shard, make_views=left_for_views
            )
        self.sweeps.move_to_end(shard)
        while len(self.sweeps) > SHARDS_KEPT:
            self.sweeps.popitem(last=False)
        return self.sweeps[shard]

    # Requests.

    def answer_page(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Answer a request that came to the function's own address."""
        self.page = self.page or lastbeat_lambda.fleet_page.FleetPage(self.settings)
        return self.page.answer(event, context)

    def answer(self, request: Request | QueueBatch, limit: TimeLimit) -> dict[str, object]:
        """Carry out ``request``. Returns the JSON object that the invocation answers with."""
        if isinstance(request, QueueBatch):
            return lastbeat_lambda.batches.answer_batch(request.event, self, limit)
        if isinstance(request, ObjectEvents):
            done = [self.answer(each, limit) for each in request.each]
            return {
                "checked": [each for each in done if "run_id" in each],
                "ignored": [each["ignored"] for each in done if "ignored" in each],
            }
        if isinstance(request, CheckRequest):
            return outcome_document(self.check(request.run_id))
        if isinstance(request, SweepRequest):
            return self.sweep(request.shard, limit) if request.shard else self._sweep_all(limit)
        if isinstance(request, Ignored):
            telemetry.logger.info("nothing to do: %s", request.why)
            return {"ignored": request.why}
        telemetry.logger.error("refused: %s", request.why)
        return {"error": request.why}

    def check(self, run_id: str) -> Outcome:
        """Check one run."""
        with telemetry.about(run_id):
            outcome = configured_watch(self.settings, run_id, self.channels, clock=_now, at=self.store).tick()
        telemetry.report_check(outcome, len(self.channels))
        return outcome

    def sweep(self, shard: Shard | None, limit: TimeLimit) -> dict[str, object]:
        """Make one pass over the fleet, or over a shard."""
        report = self.sweep_of(shard).run(deadline=limit.deadline)
        telemetry.report_pass(report)
        document = pass_document(report)
        told = document["transitions"]
        if isinstance(told, list):
            document |= {"transitions": told[:TRANSITIONS_LIMIT], "transitions_count": len(told)}
        return document

    def _sweep_all(self, limit: TimeLimit) -> dict[str, object]:
        """Sweep the whole fleet: here, or by shards over the queue if there is one and the fleet is large."""
        queue = self.settings[table.QUEUE_URL]
        shards = self._shards(limit) if isinstance(queue, str) else ()
        if len(shards) < 2:
            return self.sweep(None, limit)
        refused = lastbeat_lambda.sharding.send_shards(str(queue), shards, self.settings[MONITORING_REGION])
        telemetry.logger.info("split over the queue", extra={"shards": len(shards), "refused": len(refused)})
        # Shards that the queue refuses are swept here as far as time allows: slower, but not unwatched.
        swept = [self.sweep(shard, limit) for shard in refused]
        return {"shards": len(shards), "queued": len(shards) - len(refused), "swept": swept}

    def _shards(self, limit: TimeLimit) -> tuple[Shard, ...]:
        # At most half of the time: a store that has not answered by then will not answer, and the pass reports that.
        deadline = None if limit.deadline is None else half_until(limit.deadline)
        try:
            return self.sweep_of(None).shards(deadline=deadline)
        except StoreError:
            return ()  # The single pass that follows meets the same error and reports it.


def settled(outcome: Outcome) -> bool:
    """Whether the run was observed and the decision recorded. If not, it must be checked again."""
    return outcome.status is not Status.UNKNOWN and outcome.recorded


def _secret(place: str, settings: Settings, earlier: ExecutionEnvironment | None) -> str:
    try:
        return lastbeat_lambda.parameter.read_secret(place, settings.environ, settings[MONITORING_REGION])
    except SecretError as error:
        if earlier is None or earlier.secret is None:
            raise
        # The address most likely still works, and a pass without it would send no alerts.
        _log.warning("%s; going on with the address that was read before", error)
        return earlier.secret


def _now() -> datetime:
    return datetime.now(timezone.utc)
