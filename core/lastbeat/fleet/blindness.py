"""A sweep that cannot see says so of itself: once for the fleet, not once for each run of it."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime

from lastbeat.deliver.message import RunLocation
from lastbeat.deliver.port import Channel
from lastbeat.effects.blindness import FLEET, RUN, SOME_RUNS, BlindnessAlert, Subject, state_key
from lastbeat.model.fleet import PassReport
from lastbeat.model.policy import Policy
from lastbeat.model.status import Status
from lastbeat.record.repository import RecordRepository
from lastbeat.stores.port import Store
from lastbeat.stores.volatile import VolatileStore

_ALONE = 10
"""Up to so many runs that cannot be observed are told of one by one."""
_FLEET = "_fleet"
_SOME = "_some"


class Blindness:
    """What people are told when passes cannot see the fleet, or some of its runs, for ``policy.blind_s``."""

    def __init__(
        self,
        url: str,
        channels: Sequence[Channel],
        policy: Policy,
        *,
        clock: Callable[[], datetime],
        state: Store | None,
    ) -> None:
        self._url = url
        self._channels = channels
        self._policy = policy
        self._clock = clock
        self._state = state or VolatileStore(clock)
        self._token = os.urandom(6).hex()
        self._fleet = self._sight(_FLEET, FLEET)
        # Apart from the fleet: where many runs are closed for good, people still have to hear when nothing is seen.
        self._some = self._sight(_SOME, SOME_RUNS)
        self._runs: dict[str, BlindnessAlert] = {}

    def lost(self, reason: str) -> None:
        """A pass that could not see the fleet at all."""
        self._fleet.lost(self._url, reason)

    def after(
        self, report: PassReport, since: Callable[[str], datetime | None] = lambda _run_id: None
    ) -> tuple[str, ...]:
        """A pass that could see, but for ``report.unreadable``; ``since`` when a run could not be. Returns notes."""
        if report.unreadable_count > _ALONE:
            first, why = next(iter(report.unreadable.items()))
            reason = f"{report.unreadable_count} runs could not be observed, {first} among them: {why}"
            if _saw_any(report):
                self._fleet.regained(self._url)
                self._some.lost(self._url, reason)
            else:
                self._fleet.lost(self._url, reason)
            return (reason,)
        self._fleet.regained(self._url)
        self._some.regained(self._url)
        for run_id, why in report.unreadable.items():
            if run_id not in self._runs:
                self._runs[run_id] = self._sight(run_id)
            began = since(run_id)
            # By the clock that these memories go by, which may be another one than the store's.
            ours = None if began is None else self._clock() - (report.at - began)
            self._runs[run_id].lost(run_id, why, ours)
        return ()

    def regained(self, run_id: str) -> None:
        """A run that passes could not observe was looked at."""
        (self._runs.pop(run_id, None) or self._sight(run_id)).regained(run_id)

    def _sight(self, run_id: str, subject: Subject = RUN) -> BlindnessAlert:
        keeper = RecordRepository(self._state, state_key("blind", self._url, run_id), self._token)
        place = RunLocation(f"{self._url.rstrip('/')}/{run_id + '/' if subject is RUN else ''}")
        return BlindnessAlert(keeper, self._channels, self._policy, place, self._clock, subject=subject)


def _saw_any(report: PassReport) -> bool:
    return any(count for status, count in report.statuses.items() if status != Status.UNKNOWN.value)
