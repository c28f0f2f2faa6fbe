"""A rank that falls silent while others beat is named at once; ranks that are well cost no request."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from lastbeat.model.status import Event, Status
from lastbeat.observe.ranks import MOST_IN_A_LOOK
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from support.scene import RUN, Scene


@pytest.fixture
def scene() -> Scene:
    return Scene()


def beat(scene: Scene, ranks: Iterable[int], **more: object) -> None:
    for number in ranks:
        told = {"rank": number, "step": 50, "host": f"host-{14 + number}", "status": "running", "beat_seconds": 60.0}
        scene.put(f"ranks/{number}.json", json.dumps({**told, **more}))


def minutes(scene: Scene, count: int, ranks: Iterable[int], **more: Any) -> None:
    """So many minutes in which these ranks beat, and the run with them, each with a look."""
    for _ in range(count):
        scene.beat(rank_beat_seconds=60.0, **{"world_size": 8, **more})
        beat(scene, ranks)
        scene.look()
        scene.after(60)


def read(scene: Scene) -> list[str]:
    return [key for op, key in scene.store.calls if op == "read" and "/ranks/" in key]


WITHOUT_3 = [number for number in range(8) if number != 3]


def test_a_silent_rank_is_named_within_five_beats_and_told_once(scene: Scene) -> None:
    minutes(scene, 3, range(8))
    minutes(scene, 4, WITHOUT_3)
    assert scene.channel.sent == []
    minutes(scene, 6, WITHOUT_3)
    (alert,) = scene.channel.sent
    assert alert.event is Event.WARNING
    assert alert.conditions == {"rank_silent": "rank 3 on host-17 silent for 5m, 7 others alive"}
    assert alert.action is not None
    assert "rank's host" in alert.action


def words(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [told for told in caplog.messages if "Did not get subsequent heartbeat" in told]


def test_the_log_says_once_how_long_a_rank_was_waited_for(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    minutes(scene, 3, range(8))
    assert words(caplog) == []
    minutes(scene, 8, WITHOUT_3)
    assert words(caplog) == [f"{RUN}: Did not get subsequent heartbeat. Waited 300 seconds."]


def test_and_so_it_does_of_a_run_that_is_timed_out(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    scene.beat()
    scene.look()
    for _ in range(30):
        scene.after(60)
        outcome = scene.look()
    assert outcome.status is Status.TIMED_OUT
    assert words(caplog) == [f"{RUN}: Did not get subsequent heartbeat. Waited 660 seconds."]


def test_one_that_never_began_has_missed_no_beat(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    for _ in range(30):
        scene.after(60)
        scene.look()
    assert words(caplog) == []


def test_it_is_cleared_when_the_rank_beats_again(scene: Scene) -> None:
    minutes(scene, 1, range(8))
    minutes(scene, 6, WITHOUT_3)
    minutes(scene, 1, range(8))
    outcome = scene.look()
    assert (outcome.status, dict(outcome.conditions)) == (Status.RUNNING, {})


def test_ranks_that_are_well_cost_nothing_and_a_silent_one_is_read_once(scene: Scene) -> None:
    scene.store.calls.clear()
    minutes(scene, 10, range(8))
    assert read(scene) == []
    assert ("list", f"{RUN}/ranks/") not in scene.store.calls
    for _ in range(10):
        scene.beat(rank_beat_seconds=60.0, world_size=8)
        beat(scene, WITHOUT_3)
        scene.look(restarted=False)
        scene.after(60)
    assert read(scene) == [f"{RUN}/ranks/3.json"]


def test_what_an_earlier_attempt_left_behind_is_neither_named_nor_read(scene: Scene) -> None:
    minutes(scene, 3, range(8), attempt=1, start_time=scene.now.isoformat())
    scene.after(30)
    began = scene.now.isoformat()
    scene.store.calls.clear()
    minutes(scene, 10, range(4), world_size=8, attempt=2, start_time=began)
    assert scene.channel.sent == []
    assert read(scene) == []


@pytest.mark.parametrize("fault", [UnreachableError("away"), DeniedError("no")], ids=["away", "not allowed"])
def test_of_a_rank_that_cannot_be_read_nothing_is_said(scene: Scene, fault: StoreError) -> None:
    def refuse(operation: str, key: str) -> None:
        if operation == "read" and "/ranks/" in key:
            raise fault

    scene.store.before = refuse
    minutes(scene, 1, range(8))
    minutes(scene, 8, WITHOUT_3)
    assert scene.channel.sent == []
    assert scene.look().status is Status.RUNNING


def test_what_is_known_of_a_rank_stands_while_the_store_is_away(scene: Scene) -> None:
    minutes(scene, 1, range(8))
    minutes(scene, 6, WITHOUT_3)

    def refuse(operation: str, key: str) -> None:
        if operation == "read" and "/ranks/" in key:
            raise UnreachableError("away")

    scene.store.before = refuse
    minutes(scene, 2, WITHOUT_3)
    assert "rank_silent" in scene.look().conditions
    scene.store.heal()
    minutes(scene, 2, WITHOUT_3)
    assert len(scene.channel.sent) == 1


def test_ten_thousand_ranks_with_files_of_30_mb_cost_a_bounded_number_of_bounded_reads(scene: Scene) -> None:
    scene.put("ranks/77.json", "x" * 30_000_000)
    beat(scene, range(100, 200))
    scene.after(300)
    beat(scene, [number for number in range(10_000) if number != 77 and not 100 <= number < 200])
    scene.beat(rank_beat_seconds=60.0, world_size=10_000)
    scene.store.calls.clear()
    outcome = scene.look()
    assert outcome.conditions["rank_silent"].endswith("9899 others alive")
    assert len(read(scene)) == MOST_IN_A_LOOK
    assert sum(op == "list" for op, _ in scene.store.calls) <= 12
