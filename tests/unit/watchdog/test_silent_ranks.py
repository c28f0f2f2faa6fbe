"""A rank that falls silent while others beat is named at once; ranks that are well cost no request."""

from collections.abc import Iterable
from typing import Any

import pytest

from lastbeat.model.status import Event
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from lastbeat.watch.observe.ranks import MOST_IN_A_LOOK
from support.world import RUN, World


@pytest.fixture
def world() -> World:
    return World()


def beat(world: World, ranks: Iterable[int], **more: Any) -> None:
    for number in ranks:
        world.rank(number, step=50, **more)


def minutes(world: World, count: int, ranks: Iterable[int], **more: Any) -> None:
    """So many minutes in which these ranks beat, and the run with them, each with a look."""
    for _ in range(count):
        world.beat(rank_beat_seconds=60.0, **{"world_size": 8, **more})
        beat(world, ranks)
        world.look()
        world.after(60)


def read(world: World) -> list[str]:
    return [key for op, key in world.store.calls if op == "read" and "/ranks/" in key]


WITHOUT_3 = [number for number in range(8) if number != 3]


def test_a_silent_rank_is_named_within_five_beats_and_told_once(world: World) -> None:
    minutes(world, 3, range(8))
    minutes(world, 4, WITHOUT_3)
    assert world.channel.sent == []
    minutes(world, 6, WITHOUT_3)
    (alert,) = world.channel.sent
    assert alert.event is Event.WARNING
    assert alert.conditions == {"rank_silent": "rank 3 on host-17 silent for 5m, 7 others alive"}
    assert alert.action is not None
    assert "rank's host" in alert.action


def words(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [told for told in caplog.messages if "Did not get subsequent heartbeat" in told]


def test_the_log_says_once_how_long_a_rank_was_waited_for(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    minutes(world, 3, range(8))
    assert words(caplog) == []
    minutes(world, 8, WITHOUT_3)
    assert words(caplog) == [f"{RUN}: Did not get subsequent heartbeat. Waited 300 seconds."]


def test_what_an_earlier_attempt_left_behind_is_neither_named_nor_read(world: World) -> None:
    minutes(world, 3, range(8), attempt=1, start_time=world.now.isoformat())
    world.after(30)
    began = world.now.isoformat()
    world.store.calls.clear()
    minutes(world, 10, range(4), world_size=8, attempt=2, start_time=began)
    assert world.channel.sent == []
    assert read(world) == []


@pytest.mark.parametrize("fault", [UnreachableError("away"), DeniedError("no")], ids=["away", "not allowed"])
def test_what_is_known_of_a_rank_stands_while_it_cannot_be_read(world: World, fault: StoreError) -> None:
    minutes(world, 1, range(8))
    minutes(world, 6, WITHOUT_3)

    def refuse(operation: str, key: str) -> None:
        if operation == "read" and "/ranks/" in key:
            raise fault

    world.store.before = refuse
    minutes(world, 2, WITHOUT_3)
    assert "rank_silent" in world.look().conditions
    world.store.heal()
    minutes(world, 2, WITHOUT_3)
    world.store.before = refuse
    minutes(world, 1, range(8))
    assert world.look().conditions == {}, "all beat again, which the listing shows"
    assert len(world.channel.sent) == 1


def test_ten_thousand_ranks_with_files_of_30_mb_cost_a_bounded_number_of_bounded_reads(world: World) -> None:
    world.put("ranks/77.json", "x" * 30_000_000)
    beat(world, range(100, 200))
    world.after(300)
    beat(world, [number for number in range(10_000) if number != 77 and not 100 <= number < 200])
    world.beat(rank_beat_seconds=60.0, world_size=10_000)
    world.store.calls.clear()
    outcome = world.look()
    assert outcome.conditions["rank_silent"].endswith("9899 others alive")
    assert len(read(world)) == MOST_IN_A_LOOK
    assert sum(op == "list" for op, _ in world.store.calls) <= 12
