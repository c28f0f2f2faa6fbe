"""Ending and restarting a run from elsewhere: the page and Slack say first what it would do, then a person confirms it.

What was confirmed names the attempt or the job that it was about. So a confirmation that comes twice, or late, ends or
restarts nothing else.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from lastbeat.jobs.restart_requests import ask_restart
from lastbeat.model.record import Record
from lastbeat.settings import Settings
from lastbeat.stores.port import Store
from lastbeat.views.acting.stopping import Lives, PlannedAct, outdated, plan_stop
from lastbeat.watch.record.agent_mark import agent_at_work
from lastbeat.watch.record.repository import RecordRepository


def _restart(settings: Settings, store: Store, run_id: str, lives: Lives) -> PlannedAct:  # noqa: ARG001 - as the others
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
                raise outdated(run_id)
            said = asked.outlook
            return asked.record

        repository.update(change)
        return [said]

    return PlannedAct(run_id, planned.job, (planned.outlook,), ask)


ACTS: Final[Mapping[Literal["stop", "restart"], Callable[[Settings, Store, str, Lives], PlannedAct]]] = {
    "stop": plan_stop,
    "restart": _restart,
}
"""What can be done to a run."""
