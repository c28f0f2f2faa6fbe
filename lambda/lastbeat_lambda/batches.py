"""Handles batches of the queue, message by message."""

import time
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lastbeat.model.document import outcome_document
from lastbeat_lambda import telemetry
from lastbeat_lambda.environment import ExecutionEnvironment, TimeLimit, settled
from lastbeat_lambda.events import CheckRequest, Ignored, InvalidRequest, ObjectEvents, SweepRequest, read_message

OLD_INTERVALS = 2
"""A shard's message that waited for more than this many intervals is dropped: newer ones are on their way."""
_WHOLE_BATCH = ({"itemIdentifier": ""},)
"""The answer that SQS takes as a failure of all messages."""


class BatchItemError(Exception):
    """A message failed. SQS delivers it again, and after ``maxReceiveCount`` times keeps it as a dead letter."""


def answer_batch(event: dict[str, Any], environment: ExecutionEnvironment, limit: TimeLimit) -> dict[str, object]:
    """Handle each message of a batch on its own. Returns ``batchItemFailures`` as SQS expects them, and ``checked``.

    SQS itself never omits a message's id, but programs that forward messages may. A message without an id is handled
    like any other. Its failure is only logged, because a failure without an id would return the whole batch.
    """
    done: list[dict[str, object]] = []
    lost: list[str] = []

    def message(record: SQSRecord) -> None:
        try:
            done.extend(_one(record, environment, limit))
        except Exception as fault:
            if _id(record):
                raise
            lost.append(str(fault))
            done.append({"error": str(fault)})
            telemetry.logger.exception("a message without an id failed, and cannot be asked for again")

    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    told = process_partial_response(event=event, record_handler=message, processor=processor, context=None)
    none_has_an_id = not any(_id(SQSRecord(record)) for record in event["Records"])
    failed = _WHOLE_BATCH if lost and none_has_an_id else told["batchItemFailures"]
    return {"batchItemFailures": list(failed), "checked": done}


def _id(record: SQSRecord) -> str | None:
    given = record.raw_event.get("messageId")
    return given if isinstance(given, str) and given else None


def _one(record: SQSRecord, environment: ExecutionEnvironment, limit: TimeLimit) -> list[dict[str, object]]:
    if limit.over:
        raise BatchItemError("no time was left for this message; it comes back")
    request = read_message(record.raw_event.get("body"), environment.settings.root)
    if isinstance(request, InvalidRequest):
        # Raised although a retry cannot help, so that the message ends up among the dead letters.
        telemetry.logger.error("refused: %s", request.why, extra={"message_id": _id(record)})
        raise BatchItemError(request.why)
    old_s = OLD_INTERVALS * environment.settings.fleet.interval_s
    if isinstance(request, SweepRequest) and _waited_s(record) > old_s:
        request = Ignored("a shard's message that waited too long: newer ones are on their way")
    done = []
    for each in request.each if isinstance(request, ObjectEvents) else (request,):
        if isinstance(each, CheckRequest):
            outcome = environment.check(each.run_id)
            if not settled(outcome):
                raise BatchItemError(f"{each.run_id} could not be observed or recorded: {outcome.reason}")
            done.append(outcome_document(outcome))
        else:
            done.append(environment.answer(each, limit))
    return done


def _waited_s(record: SQSRecord) -> float:
    attributes = record.raw_event.get("attributes")
    sent = attributes.get("SentTimestamp") if isinstance(attributes, dict) else None
    return time.time() - int(sent) / 1000 if isinstance(sent, str) and sent.isdigit() else 0.0
