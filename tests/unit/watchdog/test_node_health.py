"""What nodes say of their health, as people hear of it: once, with what to do, and until it is over."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.health import HEALTH_CONDITIONS, REMEDIES
from lastbeat.model.status import Event, Status
from lastbeat.stores.port import DeniedError
from support.world import RUN, World

LOST = {"name": "gpu_lost", "text": "GPU 3 is lost to the driver", "since": "2026-01-01T00:00:00Z"}
DISK = {"name": "disk_low", "text": "/scratch: 2.0 GB of 1.0 TB free, full in about 20m"}


class Node:
    """A training whose node, or nodes, say how they are."""

    def __init__(self, ranks: int = 1, *, restarted: bool = True) -> None:
        self.world, self.ranks, self.step, self.restarted = World(), ranks, 0, restarted

    def minute(self, *conditions: dict[str, Any], **more: Any) -> dict[str, str]:
        """A minute later it beats, and says this of its node; what a look then makes of it."""
        self.step += 1
        self.world.after(60)
        fields: dict[str, Any] = {"host": "gpu-7", "health": {"conditions": list(conditions)}}
        if self.ranks > 1:
            fields["world_size"] = self.ranks
        self.world.beat(**{**fields, **more})
        self.world.progress(self.step)
        outcome = self.world.look(restarted=self.restarted)
        assert outcome.status is Status.RUNNING
        return dict(outcome.conditions)

    def other(self, rank: int, *conditions: dict[str, Any], **more: Any) -> None:
        about = {"rank": rank, "host": f"gpu-{rank}", **more, "conditions": list(conditions)}
        self.world.put(f"ranks/{rank}.health", json.dumps(about))

    @property
    def warnings(self) -> list[Any]:
        return [each for each in self.world.channel.sent if each.event is Event.WARNING]


@pytest.mark.parametrize("name", HEALTH_CONDITIONS)
def test_a_condition_is_told_once_with_what_to_do_and_taken_back_when_it_is_over(name: str) -> None:
    node, said = Node(), {"name": name, "text": "as the node says"}
    assert node.minute() == {}
    for _ in range(3):
        assert node.minute(said) == {name: "as the node says"}
    assert node.minute() == {}
    [message] = node.warnings
    assert message.conditions == {name: "as the node says"}
    assert message.action == REMEDIES[name]
    assert node.minute(said) == {name: "as the node says"}
    assert len(node.warnings) == 2


def test_other_nodes_are_named() -> None:
    node = Node(ranks=24)
    node.minute()
    node.other(8, LOST)
    node.other(16, {**LOST, "text": "GPU 0 is lost to the driver"})
    raised = node.minute(DISK)
    assert raised == {
        "gpu_lost": "gpu-8: GPU 3 is lost to the driver; gpu-16: GPU 0 is lost to the driver",
        "disk_low": f"gpu-7: {DISK['text']}",
    }
    node.world.delete("ranks/8.health")
    assert node.minute()["gpu_lost"] == "gpu-16: GPU 0 is lost to the driver"
    node.world.delete("ranks/16.health")
    assert node.minute() == {}
    assert len(node.warnings) == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_of_very_many_nodes_a_few_are_read_in_a_look_and_what_they_say_stands(restarted: bool) -> None:
    node = Node(ranks=512, restarted=restarted)
    node.minute()
    lost = False
    for number in range(30):
        # They write their marks anew, by turns.
        for rank in range(8, 8 * 40, 8):
            if number == 0 or (number + rank // 8) % 10 == 0:
                node.other(rank, DISK, *([LOST] if rank == 256 else []))
        raised = node.minute()
        assert "disk_low" in raised
        assert "gpu_lost" in raised or not lost
        lost = "gpu_lost" in raised
    assert lost
    for rank in range(8, 8 * 40, 8):
        node.world.delete(f"ranks/{rank}.health")
    assert node.minute() == {}
    assert [list(each.conditions) for each in node.warnings] == [["disk_low"], ["gpu_lost", "disk_low"]]


@pytest.mark.parametrize(("condition", "told"), [(DISK, 1), (LOST, 2)])
def test_what_stands_on_the_node_is_not_told_again_with_each_attempt(condition: dict[str, str], told: int) -> None:
    node = Node()
    node.minute(condition, attempt=1)
    node.minute(condition, attempt=2, start_time=node.world.now.isoformat())
    assert len(node.warnings) == told


def test_what_an_earlier_attempt_left_behind_counts_for_nobody() -> None:
    node = Node(ranks=16)
    node.other(8, LOST)
    node.world.after(600)
    began = node.world.now.isoformat()
    assert node.minute(attempt=2, start_time=began) == {}
    node.other(8, LOST, attempt=1)
    assert node.minute(attempt=2, start_time=began) == {}
    node.other(8, LOST, attempt=2)
    assert "gpu_lost" in node.minute(attempt=2, start_time=began)


def test_what_the_store_does_not_give_stands() -> None:
    node = Node(ranks=16)
    node.minute()
    node.other(8, LOST)
    assert "gpu_lost" in node.minute()

    def refuse(operation: str, key: str) -> None:
        if operation == "read" and key.endswith(".health"):
            raise DeniedError("no rights")

    allowed, node.world.store.before = node.world.store.before, refuse
    node.other(8, LOST)
    assert "gpu_lost" in node.minute()
    node.world.store.before = allowed
    node.world.delete("ranks/8.health")
    assert node.minute() == {}
    assert len(node.warnings) == 1


HOSTILE: list[Any] = [
    pytest.param("gpu_lost", id="text"),
    pytest.param({"name": "gpu_lost"}, id="no list"),
    pytest.param([None, 7, "gpu_lost", [], {"name": 7}, {"name": "stalled", "text": "x"}], id="names of others"),
]


@pytest.mark.parametrize("conditions", HOSTILE)
def test_what_is_no_condition_raises_none(conditions: Any) -> None:
    node = Node(ranks=16)
    node.world.put("ranks/8.health", json.dumps({"conditions": conditions}))
    assert node.minute(health={"conditions": conditions}) == {}


@given(st.lists(st.sampled_from(["lost", "well", "unreadable"]), min_size=1, max_size=15))
@settings(max_examples=30, deadline=None)
def test_whatever_can_be_seen_people_hear_once_of_each_time_it_begins(looks: list[str]) -> None:
    node, begins, holds = Node(), 0, False
    for look in looks:
        if look == "unreadable":
            node.world.after(60)
            node.world.put("metadata.json", "{")
            node.world.progress(100 + node.step)
            node.world.look()
            continue
        node.minute(*([LOST] if look == "lost" else []))
        begins += look == "lost" and not holds
        holds = look == "lost"
    told = [each for each in node.warnings if "gpu_lost" in each.conditions and "heartbeat" not in str(each.conditions)]
    assert len(told) <= begins
    assert (begins == 0) == (not [each for each in node.warnings if "gpu_lost" in each.conditions])
    assert node.world.store.held[f"{RUN}/_watchdog.json"]
