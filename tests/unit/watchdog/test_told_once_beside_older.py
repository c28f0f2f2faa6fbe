"""A watcher of an older version drops conditions that it does not know; people are told of them once all the same."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.job import GpuUse
from lastbeat.model.status import Event
from lastbeat.record.codec import decode_record, encode
from lastbeat.stores.port import DeniedError
from support.jobs import RUN as SUPERVISED_RUN
from support.memory import MemoryStore
from support.scene import RUN, Scene
from unit.supervision.test_idle_gpus import conditions, job_of, scene_of

SOCKETS = "h:9:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.1.0.7<0>\nh:9:9 [0] NCCL INFO Using network Socket\n"


def older_look(store: MemoryStore, run_id: str = RUN) -> None:
    """What an older version's look leaves of the record: all but the conditions that it does not know."""
    key = f"{run_id}/_watchdog.json"
    blob = store.read(key, 10**6)
    assert blob is not None
    record = decode_record(blob.body)
    kept = {
        name: text
        for name, text in record.conditions.items()
        if name not in {"rank_silent", "efa_fallback", "gpu_idle", "straggler", "slow"}
    }
    if kept != record.conditions:
        store.put_text(key, encode(replace(record, conditions=kept, seq=record.seq + 1)).decode())


def minute(scene: Scene, silent: bool, **more: Any) -> None:
    """Eight ranks beat, or seven of them."""
    scene.after(60)
    scene.beat(rank_beat_seconds=60.0, world_size=8, **more)
    for number in range(8):
        if number != 3 or not silent:
            told = {"rank": number, "host": f"host-{number}", "status": "running", "beat_seconds": 60.0}
            scene.put(f"ranks/{number}.json", json.dumps(told))


def warnings(scene: Scene) -> int:
    return sum(each.event is Event.WARNING for each in scene.channel.sent)


def silenced() -> Scene:
    scene = Scene()
    minute(scene, False)
    scene.look()
    for _ in range(5):
        minute(scene, True)
        scene.look()
    assert warnings(scene) == 1
    return scene


@given(st.lists(st.sampled_from(["older", "newer", "without rights"]), max_size=12))
@settings(max_examples=25, deadline=None)
def test_whoever_looks_in_whatever_order_a_silent_rank_is_told_once(looks: list[str]) -> None:
    scene = silenced()

    def refuse(operation: str, key: str) -> None:
        if operation == "read" and "/ranks/" in key:
            raise DeniedError("no rights")

    allow = scene.store.before
    for look in [*looks, "newer"]:
        minute(scene, True)
        if look == "older":
            older_look(scene.store)
            continue
        scene.store.before = refuse if look == "without rights" else allow
        outcome = scene.look()
        assert look == "without rights" or "rank_silent" in outcome.conditions
    assert warnings(scene) == 1


def test_who_may_not_read_ranks_drops_nothing() -> None:
    scene = silenced()

    def refuse(operation: str, key: str) -> None:
        if operation == "read" and "/ranks/" in key:
            raise DeniedError("no rights")

    scene.store.before = refuse
    minute(scene, True)
    assert "rank_silent" in scene.look().conditions
    minute(scene, False)
    assert scene.look().conditions == {}, "all beat again, which the listing shows"


def test_a_rank_that_beat_again_and_fell_silent_anew_is_told_again() -> None:
    scene = silenced()
    older_look(scene.store)
    minute(scene, False)
    assert scene.look().conditions == {}
    for _ in range(6):
        minute(scene, True)
        scene.look()
        older_look(scene.store)
    assert warnings(scene) == 2


def test_a_new_attempt_that_the_older_one_noticed_is_told_of_its_own() -> None:
    scene = Scene()
    minute(scene, False, attempt=1, start_time=scene.now.isoformat())
    scene.look()
    for _ in range(6):
        minute(scene, True, attempt=1)
        scene.look()
    assert warnings(scene) == 1
    older_look(scene.store)
    scene.after(60)
    known = decode_record(scene.store.read(f"{RUN}/_watchdog.json", 10**6).body)  # type: ignore[union-attr]
    began = scene.now.isoformat()
    for _ in range(7):
        minute(scene, True, attempt=2, start_time=began)
        scene.put("ranks/3.json", json.dumps({"rank": 3, "status": "running", "attempt": 2, "beat_seconds": 60.0}))
        scene.look()
        # The older version noticed the attempt, and carries what it does not know along.
        blob = scene.store.read(f"{RUN}/_watchdog.json", 10**6)
        assert blob is not None
        record = replace(decode_record(blob.body), conditions={}, conditions_told=known.conditions_told)
        scene.store.put_text(f"{RUN}/_watchdog.json", encode(record).decode())
    scene.after(300)
    minute(scene, True, attempt=2, start_time=began)
    assert "rank_silent" in scene.look().conditions
    assert warnings(scene) == 2


def test_sockets_instead_of_efa_are_told_once() -> None:
    scene = Scene()
    log = "FI_PROVIDER=efa\n" + SOCKETS
    for step in range(6):
        log += f"step {step}/1000 loss 2.5\n"
        scene.after(60)
        scene.beat()
        scene.put("logs/train.log", log)
        assert "efa_fallback" in scene.look().conditions
        older_look(scene.store)
    assert warnings(scene) == 1


def test_a_straggler_is_told_once_and_once_more_when_it_comes_back() -> None:
    scene = Scene()
    slow = {"count": 1, "ranks": [{"rank": 3, "node": "n3", "relative": 0.5}]}
    for told, expected in ((slow, 1), (slow, 1), ({"count": 0, "ranks": []}, 1), (slow, 2)):
        scene.after(60)
        scene.beat(stragglers=told)
        assert ("straggler" in scene.look().conditions) is bool(told["count"])
        assert warnings(scene) == expected
        older_look(scene.store)


def test_idle_gpus_are_told_once() -> None:
    scene = scene_of(GpuUse(0.0, 8.0))
    scene.store.pass_time(600)
    for _ in range(4):
        assert "gpu_idle" in conditions(scene)
        older_look(scene.store, SUPERVISED_RUN)
    assert [each.event for each in scene.channel.sent] == [Event.WARNING]
    job_of(scene).gpus = GpuUse(8.0, 8.0)
    assert conditions(scene) == {}
    job_of(scene).gpus = GpuUse(0.0, 8.0)
    conditions(scene)
    scene.store.pass_time(600)
    assert "gpu_idle" in conditions(scene)
    assert len(scene.channel.sent) == 2
