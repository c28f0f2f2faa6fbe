"""An SNS topic with an SQS queue behind it, so that a test reads what a subscriber gets."""

import json
import uuid
from dataclasses import dataclass
from typing import Any

from support.s3 import S3Server


@dataclass(frozen=True)
class Topic:
    """``arn`` to publish to; what arrives is read with :meth:`received`."""

    arn: str
    queue_url: str
    sqs: Any

    def received(self) -> list[dict[str, Any]]:
        """Everything that lies in the queue, each as SNS wraps it for SQS; the queue is empty afterwards."""
        found: list[dict[str, Any]] = []
        while batch := self.sqs.receive_message(QueueUrl=self.queue_url, MaxNumberOfMessages=10).get("Messages"):
            for each in batch:
                found.append(json.loads(each["Body"]))
                self.sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=each["ReceiptHandle"])
        return found


def topic(server: S3Server, policy: dict[str, list[str]] | None = None, *, fifo: bool = False) -> Topic:
    """A new topic; ``policy`` is the filter policy of its one subscription."""
    name = f"alerts-{uuid.uuid4().hex[:12]}" + (".fifo" if fifo else "")
    sns, sqs = server.sns(), server.sqs()
    arn = sns.create_topic(Name=name, Attributes={"FifoTopic": "true"} if fifo else {})["TopicArn"]
    queue = sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"} if fifo else {})["QueueUrl"]
    queue_arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    rules = {"FilterPolicy": json.dumps(policy)} if policy else {}
    sns.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=queue_arn, Attributes=rules)
    return Topic(arn, queue, sqs)
