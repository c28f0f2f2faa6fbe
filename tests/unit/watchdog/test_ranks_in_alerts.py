"""An alert of a distributed training names the rank that it was; ranks are read for that alone."""

import json
from typing import Any

import pytest

from lastbeat.alerts.document import document
from lastbeat.alerts.plain import render
from lastbeat.alerts.slack_blocks import payload
from lastbeat.model.alert import Message
from lastbeat.model.policy import Policy
from lastbeat.model.status import Event
from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.watch.observe.ranks import MOST_READ
from support.world import RUN, World

ASKED = {("list", f"{RUN}/ranks/")}


@pytest.fixture
def world() -> World:
    return World(Policy(stall_s=600.0))


def beat(world: World, numbers: range, step: int = 50, **more: Any) -> None:
    for number in numbers:
        world.rank(number, **{"step": step, "host": f"host-{16 + number}", "beat_seconds": 10.0, **more})


def asked(world: World) -> int:
    return sum(key.startswith(f"{RUN}/ranks/") for _, key in world.store.calls)


def hang(world: World, ranks: int = 4, dead: int = 1) -> None:
    """All ranks stand at step 50, and ``dead`` has been silent for a while; the stall limit is over for twice its
    time."""
    for minute in range(22):
        world.beat(world_size=ranks, beat_seconds=30.0)
        world.progress(50)
        if minute <= 19:
            beat(world, range(dead, dead + 1))
        beat(world, range(dead))
        beat(world, range(dead + 1, ranks))
        world.look()
        world.after(60)


def test_a_silent_rank_is_named_on_every_channel(world: World) -> None:
    hang(world)
    warned, timed_out = world.channel.sent
    assert (warned.event, timed_out.event) == (Event.WARNING, Event.TIMED_OUT)
    assert warned.ranks == "all 4 ranks beat and stand at step 50"
    said = "rank 1 on host-17, last step 50, silent for 1m; 3 others wait"
    assert timed_out.ranks == said
    assert document(timed_out)["ranks"] == said
    assert f"Ranks: {said}" in render(timed_out)
    assert f"Ranks: {said}" in json.dumps(payload(timed_out))


def test_of_thousands_a_bounded_number_is_read_the_silent_ones_among_them(world: World) -> None:
    beat(world, range(700, 701))
    world.after(300)
    beat(world, range(700))
    beat(world, range(701, 3000))
    world.beat(world_size=3000)
    world.error("RuntimeError: boom")
    world.store.calls.clear()
    world.look()
    read = [key for op, key in world.store.calls if op == "read" and "/ranks/" in key]
    assert len(read) == MOST_READ
    assert f"{RUN}/ranks/700.json" in read
    assert sum(op == "list" and key.startswith(f"{RUN}/ranks/") for op, key in world.store.calls) <= 4


def test_a_training_of_a_single_process_is_not_asked_for_ranks(world: World) -> None:
    world.beat(beat_seconds=30.0)
    world.look()
    world.error("RuntimeError: boom")
    world.store.calls.clear()
    (alert,) = world.look().alerts
    assert (alert.ranks, ASKED & set(world.store.calls)) == (None, set())


@pytest.mark.parametrize(
    ("operation", "fault"),
    [
        pytest.param("list", DeniedError("access denied"), id="that may not be listed"),
        pytest.param("read", UnreachableError("no answer"), id="that cannot be read"),
    ],
)
def test_ranks_stop_no_alert(world: World, operation: str, fault: Exception) -> None:
    world.beat(world_size=2, beat_seconds=30.0)
    beat(world, range(2))
    world.look()
    world.error("RuntimeError: boom\nrank 1 of 2 on host-17, process 99\n")

    world.store.refuse(operation, fault, under=f"{RUN}/ranks/")
    (alert,) = world.look().alerts
    assert (alert.event, alert.ranks) == (Event.FAILED, None)
    assert asked(world) <= 2


OUT_OF_MEMORY = (
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/home/u/train.py", line 88, in step\n'
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of\n"
)
LOST = "[rank0]: RuntimeError: [/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.5]:22966\n"


def failed(world: World, rank0: str, rank1: str) -> Message:
    world.beat(world_size=2, beat_seconds=30.0)
    beat(world, range(2), step=70)
    world.look()
    world.log(rank0)
    world.put("logs/rank1.txt", rank1)
    world.error("")
    (alert,) = world.look().alerts
    return alert


def test_log_lines_are_those_around_the_error_whatever_was_printed_after_it(world: World) -> None:
    before = "".join(f"step {n}/1000 loss 2.5\n" for n in range(60))
    alert = failed(world, before + LOST, before + OUT_OF_MEMORY + "".join(f"teardown {n}\n" for n in range(29)))
    assert alert.log_name == "logs/rank1.txt"
    assert any("OutOfMemoryError" in line for line in alert.log_tail)
    assert (alert.log_tail[0], alert.log_tail[-1]) == ("step 50/1000 loss 2.5", "teardown 6")
    assert len(alert.log_tail) <= 20


def test_the_main_log_stands_in_where_the_log_with_the_error_cannot_be_read(world: World) -> None:
    def refuse(op: str, key: str) -> None:
        if op == "read" and key.endswith("rank1.txt"):
            reads.append(key)
            if len(reads) > 1:
                raise UnreachableError("no answer")

    reads = list[str]()
    world.store.before = refuse
    alert = failed(world, "step 1/1000 loss 2.5\nstep 2/1000 loss 2.4\n", OUT_OF_MEMORY)
    assert (alert.cause, alert.log_name) == ("oom", "")
    assert alert.log_tail[-1] == "step 2/1000 loss 2.4"
