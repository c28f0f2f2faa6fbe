"""A batch of messages of the queue, each on its own: what fails comes back, and ends in the dead-letter queue."""

import time
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lastbeat.model.document import outcome_document
from lastbeat_lambda import telling, work
from lastbeat_lambda.events import Check, Ignored, Notices, Pass, Refused, read_message
from lastbeat_lambda.warm import Warm

OLD_INTERVALS = 2
"""A shard's message that waited longer is not worth a pass: newer ones are on their way."""


class NotDoneError(Exception):
    """The message has to come back."""


def answer(event: dict[str, Any], warm: Warm, until: work.Until) -> dict[str, object]:
    """``batchItemFailures`` as SQS wants them, and ``checked``, what became of the others."""
    done: list[dict[str, object]] = []

    def message(record: SQSRecord) -> None:
        done.extend(_one(record, warm, until))

    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    told = process_partial_response(event=event, record_handler=message, processor=processor, context=None)
    return {"batchItemFailures": told["batchItemFailures"], "checked": done}


def _one(record: SQSRecord, warm: Warm, until: work.Until) -> list[dict[str, object]]:
    if until.over:
        raise NotDoneError("no time was left for this message; it comes back")
    asked = read_message(record.raw_event.get("body"), warm.settings.root)
    if isinstance(asked, Refused):
        # Not dropped: after the queue's maxReceiveCount it lies in the dead-letter queue, where people find it.
        telling.logger.error("refused: %s", asked.why, extra={"message_id": record.raw_event.get("messageId")})
        raise NotDoneError(asked.why)
    if isinstance(asked, Pass) and _waited_s(record) > OLD_INTERVALS * warm.settings.fleet.interval_s:
        asked = Ignored("a shard's message that waited too long: newer ones are on their way")
    done = []
    for each in asked.each if isinstance(asked, Notices) else (asked,):
        if isinstance(each, Check):
            outcome = work.check(each.run_id, warm)
            if not work.settled(outcome):
                raise NotDoneError(f"{each.run_id} could not be observed or recorded: {outcome.reason}")
            done.append(outcome_document(outcome))
        else:
            done.append(work.answer(each, warm, until))
    return done


def _waited_s(record: SQSRecord) -> float:
    sent = (record.raw_event.get("attributes") or {}).get("SentTimestamp")
    return time.time() - int(sent) / 1000 if isinstance(sent, str) and sent.isdigit() else 0.0
