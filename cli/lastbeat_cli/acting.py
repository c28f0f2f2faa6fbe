"""Ending and restarting a run from elsewhere: the page and Slack say first what it would do, then a person confirms it.

What was confirmed names the attempt or the job that it was about. So a confirmation that comes twice, or late, ends or
restarts nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from lastbeat.jobs.restart_requests import ask_restart
from lastbeat.model.record import Record
from lastbeat.settings import Settings
from lastbeat.stores.port import Store, StoreError
from lastbeat.watch.record.agent_mark import agent_at_work
from lastbeat.watch.record.repository import RecordRepository
from lastbeat_cli.stop import PlannedStop, plan_stop


class OutdatedError(StoreError):
    """The run is no longer what the person confirmed."""


@dataclass(frozen=True, slots=True)
class PlannedAct:
    """What can be done to a run, and what that does."""

    run_id: str
    plan: PlannedStop

    @property
    def seen(self) -> str:
        return self.plan.seen

    @property
    def outlook(self) -> tuple[str, ...]:
        return self.plan.outlook

    def confirmed(self, seen: str, by: str, why: str) -> list[str]:
        """Do it, if ``seen`` is what it is about. Returns what was done. Raises :class:`StoreError`."""
        if seen != self.seen:
            raise OutdatedError(f"{self.run_id} has changed since you were asked", "look at it again, then confirm")
        return self.plan.ask(by, why)


def _stop(settings: Settings, store: Store, run_id: str) -> PlannedAct:
    return PlannedAct(run_id, plan_stop(settings, store, run_id))


def _restart(settings: Settings, store: Store, run_id: str) -> PlannedAct:  # noqa: ARG001 - as the others
    repository = RecordRepository.of_run(store, run_id)
    now, known = store.clock(), repository.reload()
    launcher = known.supervision.launcher if known is not None and known.supervision is not None else ""
    agent = agent_at_work(store, launcher, now)
    planned = ask_restart(known, run_id, "you", now, agent)

    def ask(by: str, why: str) -> list[str]:  # noqa: ARG001 - a restart has no reason of its own
        said = ""

        def change(record: Record | None) -> Record:
            nonlocal said
            asked = ask_restart(record, run_id, by, now, agent)
            if asked.job != planned.job:
                raise OutdatedError(f"{run_id} has changed since you were asked", "look at it again, then confirm")
            said = asked.outlook
            return asked.record

        repository.update(change)
        return [said]

    return PlannedAct(run_id, PlannedStop(planned.job, (planned.outlook,), ask))


ACTS: Final[Mapping[Literal["stop", "restart"], Callable[[Settings, Store, str], PlannedAct]]] = {
    "stop": _stop,
    "restart": _restart,
}
"""What can be done to a run."""
