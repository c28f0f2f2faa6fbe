"""Sending what was claimed: every channel on its own thread, so that one that hangs holds up none."""

import logging
import threading
import time
from collections.abc import Iterable, Sequence

from lastbeat.deliver.port import Channel, DeliveryError
from lastbeat.effects.outbox import Claim

log = logging.getLogger(__name__)

Results = dict[tuple[int, str], DeliveryError | None]

SEND_LIMIT_S = 15.0
"""What one sending may take, by the channels' own limits. None begins that could not end in time."""
_MOST_FAILURES = 2


def dispatch(claims: Iterable[Claim], channels: Sequence[Channel], time_limit_s: float) -> Results:
    """Send the claimed alerts, oldest first on each channel, and say what became of each that was begun.

    Returns after ``time_limit_s`` at the latest; what a channel has not answered by then counts as failed for
    now. A channel that failed twice in one pass is not asked again in it. What was not begun has no result: its
    claim runs out, and a later pass has it.
    """
    results: Results = {}
    until = time.monotonic() + time_limit_s
    waiting = []
    for channel in channels:
        mine = [claim for claim in claims if claim.identity == channel.identity]
        if mine:
            begun: list[Claim] = []
            send = threading.Thread(target=_send_all, args=(channel, mine, begun, results, until), daemon=True)
            send.start()
            waiting.append((send, begun))
    for thread, begun in waiting:
        thread.join(max(0.0, until - time.monotonic()))
        for claim in tuple(begun):
            late = DeliveryError(f"no answer within {time_limit_s:g} s", retryable=True)
            results.setdefault((claim.number, claim.identity), late)
    # A thread that is still at it may add to ``results`` later; what is returned does not change any more.
    return dict(results)


def _send_all(channel: Channel, claims: Sequence[Claim], begun: list[Claim], results: Results, until: float) -> None:
    failed = 0
    for claim in claims:
        too_late = begun and time.monotonic() + SEND_LIMIT_S > until
        if failed >= _MOST_FAILURES or too_late:
            return
        begun.append(claim)
        error = _send(channel, claim)
        failed += error is not None
        results[claim.number, claim.identity] = error


def _send(channel: Channel, claim: Claim) -> DeliveryError | None:
    try:
        channel.send(claim.message)
    except DeliveryError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a fault in one channel must not silence the others
        # The text and the trace of an unforeseen error may hold the webhook's address; its type does not.
        log.warning("channel %s broke on alert %s: %s", channel.describe, claim.number, type(error).__name__)
        return DeliveryError(f"the channel broke: {type(error).__name__}", retryable=True)
    return None
