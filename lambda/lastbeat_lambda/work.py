"""Does what an event asks for, within the time that the invocation has, and says what came of it."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from lastbeat.fleet.report import pass_document
from lastbeat.fleet.steps import half_until
from lastbeat.model.document import outcome_document
from lastbeat.model.fleet import Shard
from lastbeat.model.outcome import Outcome
from lastbeat.model.status import Status
from lastbeat.settings import table
from lastbeat.stores.port import StoreError
from lastbeat.stores.s3 import MONITORING_REGION
from lastbeat_lambda import telling
from lastbeat_lambda.events import Check, Ignored, Messages, Notices, Pass, Request
from lastbeat_lambda.warm import Warm

if TYPE_CHECKING:
    from lastbeat.fleet.sweep import Sweep

MARGIN_S = 5.0
"""What a pass leaves of its time, for its last writes and deliveries and for the answer."""
TRANSITIONS_TOLD = 1000
"""An answer may have 6 MB."""


@dataclass(frozen=True)
class Until:
    """When Lambda ends this invocation, by ``time.monotonic()``; None: nobody said."""

    ends: float | None = None

    @classmethod
    def of(cls, context: Any) -> "Until":
        """As ``context`` tells it; without one (somebody calls the handler by hand) there is no end."""
        left_ms = getattr(context, "get_remaining_time_in_millis", None)
        return cls(time.monotonic() + left_ms() / 1000) if callable(left_ms) else cls()

    @property
    def deadline(self) -> float | None:
        """When a pass has to be through; where little time is left the margin is a quarter of that."""
        if self.ends is None:
            return None
        return self.ends - min(MARGIN_S, max(self.ends - time.monotonic(), 0.0) / 4)

    @property
    def over(self) -> bool:
        """Whether to begin nothing more."""
        return self.ends is not None and time.monotonic() > self.ends - MARGIN_S


def answer(asked: Request | Messages, warm: Warm, until: Until) -> dict[str, object]:
    """The JSON object that the invocation answers with."""
    if isinstance(asked, Messages):
        from lastbeat_lambda import messages  # noqa: PLC0415 - 40 ms, and only a queue needs it

        return messages.answer(asked.event, warm, until)
    if isinstance(asked, Notices):
        done = [answer(each, warm, until) for each in asked.each]
        return {
            "checked": [each for each in done if "run_id" in each],
            "ignored": [each["ignored"] for each in done if "ignored" in each],
        }
    if isinstance(asked, Check):
        return outcome_document(check(asked.run_id, warm))
    if isinstance(asked, Pass):
        return sweep(asked.shard, warm, until) if asked.shard else whole(warm, until)
    if isinstance(asked, Ignored):
        telling.logger.info("nothing to do: %s", asked.why)
        return {"ignored": asked.why}
    telling.logger.error("refused: %s", asked.why)
    return {"error": asked.why}


def check(run_id: str, warm: Warm) -> Outcome:
    """One run, once round."""
    with telling.about(run_id):
        outcome = warm.check(run_id)
    telling.told_check(outcome, len(warm.channels))
    return outcome


def settled(outcome: Outcome) -> bool:
    """Whether the run was seen and what was decided of it is written down: else it has to be asked again."""
    return outcome.status is not Status.UNKNOWN and outcome.recorded


def sweep(shard: Shard | None, warm: Warm, until: Until) -> dict[str, object]:
    """A pass over the fleet, or over a part of it."""
    report = warm.over(shard).make(deadline=until.deadline)
    telling.told_pass(report)
    document = pass_document(report)
    told = document["transitions"]
    if isinstance(told, list):
        document |= {"transitions": told[:TRANSITIONS_TOLD], "transitions_count": len(told)}
    return document


def whole(warm: Warm, until: Until) -> dict[str, object]:
    """The whole fleet: here, or over the queue where there is one and the fleet is large."""
    queue = warm.settings[table.QUEUE_URL]
    shards = _shards(warm, until) if isinstance(queue, str) else ()
    if len(shards) < 2:
        return sweep(None, warm, until)
    from lastbeat_lambda import fanout  # noqa: PLC0415 - loads boto3

    refused = fanout.send(str(queue), shards, warm.settings[MONITORING_REGION])
    telling.logger.info("split over the queue", extra={"shards": len(shards), "refused": len(refused)})
    # What the queue does not take is swept here, as far as the time goes: slower, but nobody goes unwatched.
    swept = [sweep(shard, warm, until) for shard in refused]
    return {"shards": len(shards), "queued": len(shards) - len(refused), "swept": swept}


def _shards(warm: Warm, until: Until) -> tuple[Shard, ...]:
    # Half of the time at most: what is not known by then is a store that does not answer, as the pass will tell.
    deadline = None if until.deadline is None else half_until(until.deadline)
    try:
        return cast("Sweep", warm.over(None).sweep).shards(deadline=deadline)
    except StoreError:
        return ()  # The pass that is made instead finds the same out, and tells it as it should be told.
