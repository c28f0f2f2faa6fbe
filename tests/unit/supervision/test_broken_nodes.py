"""A job is not started again on a node that has said that one of its GPUs is broken."""

import json
from typing import Any

import pytest

from lastbeat.jobs.restarts.loading import load
from lastbeat.model.job import JobState
from support.jobs import RUN, SupervisedScene
from unit.supervision.test_supervised import running, settled

CRASH = "RuntimeError: NCCL error: unhandled system error"


def condition(name: str) -> dict[str, str]:
    return {"name": name, "text": "as the node says"}


def ended(own: list[dict[str, str]], *others: tuple[int, str, list[dict[str, str]]]) -> SupervisedScene:
    """A job of 32 ranks that ended; ``own`` is what the node of rank 0 has said, ``others`` what other nodes have."""
    scene = running(SupervisedScene(policy=load("megatron_transient")))
    now = scene.store.now.isoformat()
    fields: dict[str, Any] = {"host": "n7", "world_size": 32, "health": {"conditions": own}}
    scene.store.put_text(f"{RUN}/metadata.json", json.dumps({"start_time": now, "last_update": now, **fields}))
    for rank, host, conditions in others:
        document = {"rank": rank, "host": host, "conditions": conditions}
        scene.store.put_text(f"{RUN}/ranks/{rank}.health", json.dumps(document))
    scene.store.pass_time(5)
    scene.store.put_text(f"{RUN}/_error", CRASH)
    scene.end("run-r0", JobState.FAILED, 1)
    settled(scene)
    return scene


LEFT_OUT: list[Any] = [
    pytest.param([condition("gpu_lost")], [], ("n7",), id="the node of rank 0, which lost a GPU"),
    pytest.param([], [(8, "n8", [condition("gpu_ecc")])], ("n8",), id="another node, with errors of memory"),
    pytest.param(
        [condition("gpu_lost")], [(8, "n8", [condition("gpu_lost")]), (16, "n9", [condition("disk_low")])],
        ("n7", "n8"), id="several, and none whose disk is full",
    ),
    pytest.param([condition("ram_low"), condition("gpu_throttled")], [], (), id="none that is not broken"),
    pytest.param([], [(8, "", [condition("gpu_lost")])], (), id="none without a name"),
    pytest.param([], [(8, "n8,n9 --all", [condition("gpu_lost")])], (), id="nothing that is no name of a host"),
]  # fmt: skip


@pytest.mark.parametrize(("own", "others", "expected"), LEFT_OUT)
def test_which_nodes_are_left_out(own: list[Any], others: list[Any], expected: tuple[str, ...]) -> None:
    scene = ended(own, *others)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]
    assert set(expected) <= set(scene.launcher.jobs["run-r1"].spec.excluded_nodes)
    assert not {"n7", "n8", "n9", "", "n8,n9 --all"} - set(expected) & set(
        scene.launcher.jobs["run-r1"].spec.excluded_nodes
    )
