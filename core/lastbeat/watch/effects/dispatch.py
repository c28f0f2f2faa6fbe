"""Sends claimed alerts, each channel on its own thread, so that one that hangs delays no other."""

import logging
import threading
import time
from collections.abc import Iterable, Sequence

from lastbeat.alerts.port import Channel, DeliveryError, Receipt
from lastbeat.watch.effects.outbox import DeliveryClaim, DeliveryResult, receipt_of

log = logging.getLogger(__name__)

DeliveryResults = dict[tuple[int, str], DeliveryResult]

SEND_LIMIT_S = 15.0
"""Longest duration of one send in s, by the channels' own limits. No send begins with less time left."""


def dispatch(claims: Iterable[DeliveryClaim], channels: Sequence[Channel], time_limit_s: float) -> DeliveryResults:
    """Send the claimed alerts, oldest first on each channel. Returns the result of each send that began.

    Returns within ``time_limit_s``; a send without an answer by then counts as failed for now. A channel that failed
    for now gets nothing newer in this pass. An alert that was not begun has no result, and a later pass sends it.
    """
    results: DeliveryResults = {}
    until = time.monotonic() + time_limit_s
    waiting = []
    for channel in channels:
        mine = [claim for claim in claims if claim.identity == channel.identity]
        if mine:
            begun: list[DeliveryClaim] = []
            send = threading.Thread(target=_send_all, args=(channel, mine, begun, results, until), daemon=True)
            send.start()
            waiting.append((send, begun))
    for thread, begun in waiting:
        thread.join(max(0.0, until - time.monotonic()))
        for claim in tuple(begun):
            late = DeliveryError(f"no answer within {time_limit_s:g} s", retryable=True)
            results.setdefault((claim.number, claim.identity), late)
    # A thread that still runs may add to ``results`` later, but the returned copy no longer changes.
    return dict(results)


def _send_all(
    channel: Channel,
    claims: Sequence[DeliveryClaim],
    begun: list[DeliveryClaim],
    results: DeliveryResults,
    until: float,
) -> None:
    receipts = {claim.message.topic: claim.receipt for claim in claims}
    for claim in claims:
        if time.monotonic() + (SEND_LIMIT_S if begun else 0.0) > until:
            return
        begun.append(claim)
        topic = claim.message.topic
        result = _send(channel, claim, receipts[topic])
        receipts[topic] = receipt_of(result) or receipts[topic]
        results[claim.number, claim.identity] = result
        if claim.keeps_order and isinstance(result, DeliveryError) and result.retryable:
            return


def _send(channel: Channel, claim: DeliveryClaim, receipt: Receipt | None) -> DeliveryResult:
    try:
        return channel.send(claim.message, receipt)
    except DeliveryError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a fault of one channel must not silence the others
        # Text and traceback of an unforeseen error may hold the webhook's address; its type does not.
        log.warning("channel %s broke on alert %s: %s", channel.describe, claim.number, type(error).__name__)
        return DeliveryError(f"the channel broke: {type(error).__name__}", retryable=True)
