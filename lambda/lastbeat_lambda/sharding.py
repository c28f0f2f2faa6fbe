"""Splits a large fleet over the queue: a message for each shard."""

import json
import logging
from collections.abc import Sequence
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from lastbeat.model.fleet import Shard

BATCH_LIMIT = 10
"""Most messages that SQS accepts in one request."""

_log = logging.getLogger(__name__)
_clients: dict[str, Any] = {}


def send_shards(queue_url: str, shards: Sequence[Shard], region: str) -> tuple[Shard, ...]:
    """Send a message for each of ``shards``. Returns the shards that the queue refused."""
    refused: list[Shard] = []
    for first in range(0, len(shards), BATCH_LIMIT):
        refused.extend(_send(queue_url, shards[first : first + BATCH_LIMIT], region))
    return tuple(refused)


def _send(queue_url: str, shards: Sequence[Shard], region: str) -> Sequence[Shard]:
    entries = [
        {"Id": str(number), "MessageBody": json.dumps({"sweep": {"after": shard.after, "until": shard.until}})}
        for number, shard in enumerate(shards)
    ]
    try:
        answer = _client(region).send_message_batch(QueueUrl=queue_url, Entries=entries)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "Unknown")
        _log.error("the queue answered %s, so that %d shards are swept here", code, len(shards))
        return shards
    except (BotoCoreError, ValueError) as error:
        _log.error(
            "the queue could not be asked (%s), so that %d shards are swept here", type(error).__name__, len(shards)
        )
        return shards
    lost = [failed for failed in answer.get("Failed", []) if str(failed.get("Id", "")).isdigit()]
    for failed in lost:
        _log.error("the queue refused a shard, which is swept here: %s", failed.get("Code"))
    return [shards[int(failed["Id"])] for failed in lost if int(failed["Id"]) < len(shards)]


def _client(region: str) -> Any:
    if region not in _clients:
        config = Config(connect_timeout=3, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 2})
        _clients[region] = boto3.session.Session(region_name=region).client("sqs", config=config)
    return _clients[region]
