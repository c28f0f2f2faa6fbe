"""The machine's name in metadata.json: at once what is known at once, then what the cloud says."""

import json
import threading
from typing import Any

from lastbeat.training.sdk.instance import Instance
from lastbeat.training.sdk.reporter import Reporter, RunEnvironment
from lastbeat.training.sdk.run import Run
from support.memory import MemoryStore
from support.waiting import until

KEY = "run/metadata.json"


def metadata(store: MemoryStore) -> dict[str, Any]:
    until(lambda: KEY in store.held)
    found: dict[str, Any] = json.loads(store.held[KEY].body)
    return found


def test_the_first_heartbeat_does_not_wait_for_the_cloud() -> None:
    store, asked, answer = MemoryStore(), threading.Event(), threading.Event()

    def ask() -> Instance:
        asked.set()
        answer.wait(30)
        return Instance("i-0abc", "us-east-1b", "p5.48xlarge", "host-1")

    run = Run("run", Reporter(lambda: RunEnvironment(store, "host-1", beat_s=0.05, find_instance=ask)))
    asked.wait(30)
    first = metadata(store)
    assert first["instance_id"] == "host-1"
    assert "zone" not in first
    answer.set()
    run.complete()
    last = metadata(store)
    told = (last["instance_id"], last["zone"], last["instance_type"], last["host"])
    assert told == ("i-0abc", "us-east-1b", "p5.48xlarge", "host-1")
