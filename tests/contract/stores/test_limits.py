"""Limits on every kind of store: whoever changes them at the same time, nothing is lost."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from threading import Barrier
from typing import TYPE_CHECKING

from lastbeat.model.limits import LimitEntry
from lastbeat.model.policy import Policy
from lastbeat.watch.record.limits import FleetLimits

if TYPE_CHECKING:
    from contract.stores.conftest import Root

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
WRITERS = 4


def test_of_many_that_are_set_and_cleared_at_once_each_is_set_and_cleared(root: "Root") -> None:
    clients = [FleetLimits(root.open()) for _ in range(2 * WRITERS)]
    for number in range(WRITERS):
        clients[0].change(f"run-{number}*", lambda entry: replace(entry, stale_minutes=5.0))
    together = Barrier(2 * WRITERS)

    def act(index: int) -> object:
        together.wait(30)
        if index < WRITERS:
            return clients[index].clear(f"run-{index}*") is not None
        made = clients[index].change(f"run-{index}*", lambda entry: replace(entry, stale_minutes=float(index)))
        return made.stale_minutes == index

    with ThreadPoolExecutor(2 * WRITERS) as pool:
        assert list(pool.map(act, range(2 * WRITERS))) == [True] * 2 * WRITERS
    left = {LimitEntry(f"run-{n}*", stale_minutes=float(n)) for n in range(WRITERS, 2 * WRITERS)}
    assert set(FleetLimits(root.open()).all()) == left
    reader = FleetLimits(root.open())
    assert reader.policy("run-7-a", Policy(), NOW).stale_s == 420
    assert reader.policy("run-3-a", Policy(), NOW) == Policy()
