"""What people have to be told of a run, worked out from its history alone and in another way than the product does."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from lastbeat.model.record import Transition
from lastbeat.model.status import Event, Status

HOUR = timedelta(hours=1)
_NEWS = {Status.FAILED: Event.FAILED, Status.SUCCEEDED: Event.SUCCEEDED, Status.TIMED_OUT: Event.TIMED_OUT}


def natural(transition: Transition) -> Event | None:
    """What a transition is to people who want everything but RESTARTED, and know of no flapping."""
    if transition.after is Status.RUNNING:
        return Event.RECOVERED if transition.before is Status.TIMED_OUT else None
    return _NEWS[transition.after]


def is_flip(transition: Transition) -> bool:
    return {transition.before, transition.after} == {Status.RUNNING, Status.TIMED_OUT}


def wrongly_told(history: Sequence[Transition], told: Mapping[datetime, Event]) -> list[str]:
    """A sentence for each moment at which people were told what they should not have been, or not what they should."""
    happened = {transition.at: transition for transition in history}
    assert len(happened) == len(history), "one look, one transition"
    wrong = []
    flips: list[datetime] = []
    flaps, last = False, None
    for at in sorted({*happened, *told}):
        now = happened.get(at)
        steady = last is not None and at - last.at >= HOUR
        if now is None:
            # Nothing changed: the one thing left to tell is that it no longer does.
            assert last is not None
            status = Event.RECOVERED if last.after is Status.RUNNING else Event.TIMED_OUT
            expected = status if flaps and steady else None
            flaps = False
        elif is_flip(now):
            flips = [*(flip for flip in flips if at - flip < HOUR), at]
            if flaps and not steady:
                expected = None
            else:
                flaps = len(flips) > 3
                expected = Event.FLAPPING if flaps else natural(now)
        else:
            flips = []
            expected = natural(now) or (Event.RECOVERED if flaps else None)
            flaps = False
        if told.get(at) is not expected:
            wrong.append(f"at {at}, {now}: expected {expected}, told {told.get(at)}")
        last = now or last
    return wrong
