"""Which nodes a restart leaves out: those with a broken GPU, and those that re-runs of a bad result put in doubt."""

import json
from typing import Any

import pytest

from lastbeat.jobs.restarts.loading import load
from lastbeat.model.job import JobState
from lastbeat.model.rerun import RerunFinding, RerunReport, RerunVerdict
from lastbeat.model.status import Status
from support.jobs import RUN, SupervisedScene
from unit.supervision.test_supervised import running, settled

CRASH = "RuntimeError: NCCL error: unhandled system error"


def condition(name: str) -> dict[str, str]:
    return {"name": name, "text": "as the node says"}


def ended_ill(own: list[dict[str, str]], *others: tuple[int, str, list[dict[str, str]]]) -> SupervisedScene:
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
    scene = ended_ill(own, *others)
    assert scene.launcher.submitted == ["run-r0", "run-r1"]
    assert set(expected) <= set(scene.launcher.jobs["run-r1"].spec.excluded_nodes)
    assert not {"n7", "n8", "n9", "", "n8,n9 --all"} - set(expected) & set(
        scene.launcher.jobs["run-r1"].spec.excluded_nodes
    )


NAN = "FloatingPointError: loss is nan\n"


def finding(verdict: RerunVerdict, host: str = "n7", rank: int = 1) -> RerunFinding:
    return RerunFinding(verdict, rank, host, "GPU-5c8e", 7, "loss is NaN (nan, then nan)")


REPRODUCED = finding(RerunVerdict.REPRODUCED)


def ended(status: int, *findings: RerunFinding, said: int | None) -> SupervisedScene:
    """A job that ended with ``status``, and said that it would end with ``said``."""
    scene = SupervisedScene(policy=load("megatron_transient"))
    scene.launcher.nodes = ("n1", "n7", "n9")
    running(scene)
    fields: dict[str, Any] = RerunReport(findings, said).fields()
    start = {"start_time": scene.store.now.isoformat(), "last_update": scene.store.now.isoformat()}
    scene.store.put_text(f"{RUN}/metadata.json", json.dumps({**start, **fields}))
    scene.store.pass_time(5)
    scene.store.put_text(f"{RUN}/_error", NAN)
    scene.end("run-r0", JobState.FAILED, status)
    settled(scene)
    return scene


@pytest.mark.parametrize(
    ("status", "findings", "excluded"),
    [
        pytest.param(16, [REPRODUCED], ("n7",), id="as its exit status says"),
        pytest.param(1, [REPRODUCED], ("n7",), id="though its launcher makes another status of it"),
        pytest.param(1, [REPRODUCED, finding(RerunVerdict.REPRODUCED, "n9", 2)], ("n7", "n9"), id="each of two nodes"),
        pytest.param(1, [finding(RerunVerdict.TRANSIENT_ERROR), finding(RerunVerdict.SAME_DEVICE)], ("n7",),
                     id="on the same device again"),
        pytest.param(16, [], ("n1", "n7", "n9"), id="off all nodes of the old job, where nobody has said which"),
    ],
)  # fmt: skip
def test_a_job_that_asks_for_other_hardware_is_kept_off_the_node_in_doubt(
    status: int, findings: list[RerunFinding], excluded: tuple[str, ...]
) -> None:
    scene = ended(status, *findings, said=16 if findings else None)
    assert scene.launcher.submitted == ["run-r0", "run-r1"], (
        "a policy that excludes bad numbers does not keep it from that"
    )
    assert scene.launcher.jobs["run-r1"].spec.excluded_nodes == excluded


def test_a_name_that_the_launcher_does_not_know_keeps_it_off_all_nodes() -> None:
    """In a pod, a host's name is the pod's."""
    scene = ended(1, finding(RerunVerdict.REPRODUCED, "train-0-x7f2p"), said=16)
    assert {"n1", "n7", "n9"} <= set(scene.launcher.jobs["run-r1"].spec.excluded_nodes)
    scene = ended(1, finding(RerunVerdict.REPRODUCED, "n7.cluster.example"), said=16)
    assert "n1" not in scene.launcher.jobs["run-r1"].spec.excluded_nodes, "a long name is known"


def test_a_fault_of_the_hardware_is_not_resumed_and_the_alert_says_so() -> None:
    scene = ended(1, finding(RerunVerdict.PERSISTENT_ERROR), said=17)
    assert scene.launcher.submitted == ["run-r0"]
    (message,) = [each for each in scene.channel.sent if each.status is Status.FAILED]
    assert message.restart is not None
    assert "exit status 17" in message.restart
