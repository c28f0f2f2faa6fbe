"""Silences, as a document that many change, on every kind of store: whoever writes at once, nothing is lost."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from threading import Barrier
from typing import TYPE_CHECKING

from lastbeat.model.silence import Silence
from lastbeat.watch.record.silences import Silences

if TYPE_CHECKING:
    from contract.stores.conftest import Root

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
WRITERS = 4


def _silence(number: int) -> Silence:
    return Silence(f"{number:08x}", f"run-{number}*", NOW, NOW + timedelta(hours=2), "moving", "ana@desk")


def test_of_many_that_are_made_and_lifted_at_once_each_is_made_and_lifted(root: "Root") -> None:
    clients = [Silences(root.open()) for _ in range(2 * WRITERS)]
    for number in range(WRITERS):
        clients[0].add(_silence(number), NOW)
    together = Barrier(2 * WRITERS)

    def act(index: int) -> int:
        together.wait(30)
        if index < WRITERS:
            return len(clients[index].lift(f"{index:08x}", NOW))
        clients[index].add(_silence(index), NOW)
        return 1

    with ThreadPoolExecutor(2 * WRITERS) as pool:
        assert list(pool.map(act, range(2 * WRITERS))) == [1] * 2 * WRITERS
    left = {silence.id for silence in Silences(root.open()).all(NOW)}
    assert left == {f"{number:08x}" for number in range(WRITERS, 2 * WRITERS)}
    assert Silences(root.open()).why("run-7", NOW) == _silence(7).summary
    assert Silences(root.open()).why("run-3", NOW) is None
