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


_WHOLE_BATCH = ({"itemIdentifier": ""},)
"""What SQS takes for a failure of all messages."""


def answer(event: dict[str, Any], warm: Warm, until: work.Until) -> dict[str, object]:
    """``batchItemFailures`` as SQS wants them, and ``checked``, what became of the others.

    SQS itself never leaves out an id; who passes messages on may. One without it is done like any other, and where it
    fails nobody can be told but by the log: a failure that names none would bring back the whole batch.
    """
    done: list[dict[str, object]] = []
    lost: list[str] = []

    def message(record: SQSRecord) -> None:
        try:
            done.extend(_one(record, warm, until))
        except Exception as fault:
            if _id(record):
                raise
            lost.append(str(fault))
            done.append({"error": str(fault)})
            telling.logger.exception("a message without an id failed, and cannot be asked for again")

    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    told = process_partial_response(event=event, record_handler=message, processor=processor, context=None)
    nobody_named = not any(_id(SQSRecord(record)) for record in event["Records"])
    failed = _WHOLE_BATCH if lost and nobody_named else told["batchItemFailures"]
    return {"batchItemFailures": list(failed), "checked": done}


def _id(record: SQSRecord) -> str | None:
    given = record.raw_event.get("messageId")
    return given if isinstance(given, str) and given else None


def _one(record: SQSRecord, warm: Warm, until: work.Until) -> list[dict[str, object]]:
    if until.over:
        raise NotDoneError("no time was left for this message; it comes back")
    asked = read_message(record.raw_event.get("body"), warm.settings.root)
    if isinstance(asked, Refused):
        # Not dropped: after the queue's maxReceiveCount it lies in the dead-letter queue, where people find it.
        telling.logger.error("refused: %s", asked.why, extra={"message_id": _id(record)})
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
    attributes = record.raw_event.get("attributes")
    sent = attributes.get("SentTimestamp") if isinstance(attributes, dict) else None
    return time.time() - int(sent) / 1000 if isinstance(sent, str) and sent.isdigit() else 0.0
