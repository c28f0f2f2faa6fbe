"""Dumps of flight recorders in a run's folder: the alert and ``show`` name the collective and the rank."""

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest

from lastbeat.alerts.document import document
from lastbeat.alerts.plain import render
from lastbeat.alerts.slack_blocks import payload
from lastbeat.model.alert import Message
from lastbeat.model.policy import Policy
from lastbeat.stores.port import UnreachableError
from lastbeat.views.one_run import RunWatch
from lastbeat.views.run_document import run_document
from lastbeat.watch.observe.log_observer import LogSettings
from support.flight_dumps import WORLD, Step, pickled, run, write
from support.flight_dumps import document as dump
from support.missing_ranks import ranks
from support.there import there
from support.world import RUN, World

EIGHT = {WORLD: range(8)}
STUCK = {rank: [Step(), Step(line=88)] if rank != 5 else [Step()] for rank in range(8)}
ERROR = "torch.distributed.DistBackendError: NCCL timeout\nrank 3 of 8 on h100-008, process 99\n"
SENTENCE = (
    "all_reduce #2 of group default_pg (0): rank 5 on h100-010 never joined; ranks 0-4, 6-7 wait since 11:06:42 UTC"
)
PLACES = (
    "rank 5 on h100-010 was last at train.py:10 in step (all_reduce #1, 11:06:41); ranks 0-4, 6-7 wait at train.py:88 "
    "in step"
)


@pytest.fixture
def world() -> World:
    world = World(Policy())
    world.options["signals"] = LogSettings(dumps=("*rank*",))
    world.after((datetime(2026, 11, 20, 18, 56, tzinfo=timezone.utc) - world.now).total_seconds())
    return world


def put_dumps(world: World, *, age_s: float = 0.0) -> None:
    for rank, made in run(STUCK, EIGHT).items():
        world.put(f"flight/rank_{rank}", pickled(dump(made, EIGHT, rank)), age_s=age_s)


def begin(world: World) -> None:
    world.beat(world_size=8, beat_seconds=30.0)
    world.look()
    for rank, text in ranks(8, 5).items():
        world.put(f"logs/rank{rank}.txt", text)
        world.put(f"ranks/{rank}.json", json.dumps({"rank": rank, "host": f"h100-{rank + 5:03}", "step": 3554}))


def fail(world: World) -> Message:
    begin(world)
    put_dumps(world)
    world.error(ERROR)
    (alert,) = world.look().alerts
    return alert


def test_the_alert_says_it_in_two_lines(world: World) -> None:
    alert = fail(world)
    assert alert.cause == "nccl_timeout"
    assert (there(alert.evidence).text, there(alert.evidence).rank) == (SENTENCE, 5)
    assert there(alert.evidence).file == "flight/rank_5"
    assert alert.ranks == PLACES
    text = render(alert)
    assert SENTENCE in text
    assert PLACES in text
    assert there(alert.action).startswith("Look at rank 5 on h100-010.")
    found = document(alert)
    assert (found["ranks"], there(alert.evidence).host) == (PLACES, "h100-010")
    assert SENTENCE in json.dumps(payload(alert))


def test_a_run_that_fell_silent_without_logs_is_explained_by_its_dumps(world: World) -> None:
    world.beat(world_size=8, beat_seconds=30.0)
    world.look()
    put_dumps(world)
    world.after(1200)
    (alert,) = world.look().alerts
    assert (alert.status, alert.cause) == ("TIMED_OUT", "hang")
    assert there(alert.evidence).text.startswith("all_reduce #2 of group default_pg (0): rank 5 never joined")


def test_show_says_the_same_whether_it_was_recorded_or_not(world: World) -> None:
    fail(world)
    for recorded in (True, False):
        if not recorded:
            world.delete("_watchdog.json")
        watch = RunWatch(world.store, Policy(), RUN, catalogue=LogSettings(dumps=("*rank*",)))
        view = there(watch.look())
        stuck = there(there(view.explained).stuck)
        assert (stuck.sentence, view.suspects) == (SENTENCE, PLACES)
        explained = run_document(view)["explained"]
        assert isinstance(explained, dict)
        assert explained["stuck"]["root"] == 5
        assert explained["stuck"]["ranks"][0] == {
            "ranks": "5",
            "count": 1,
            "does": "never joined",
            "host": "h100-010",
            "call": "all_reduce #1 [4096] Float",
            "since": "2026-11-18T11:06:41Z",
            "frame": "train.py:10 in step",
        }


@pytest.mark.parametrize(
    ("before", "said"),
    [
        pytest.param((), "NCCL timeout", id="none had come, and the log of a rank that waited had the cause"),
        pytest.param(
            range(1, 5),
            "all_reduce #2 of group default_pg (0): ranks 0, 5-7 left no dump; ranks 1-4 wait since 11:06:42 UTC",
            id="some had come",
        ),
    ],
)
def test_dumps_that_come_after_the_alert_are_in_what_show_says(world: World, before: Sequence[int], said: str) -> None:
    world.beat(world_size=8, beat_seconds=30.0)
    world.look()
    made = run(STUCK, EIGHT)
    for rank in before:
        world.put(f"flight/rank_{rank}", pickled(dump(made[rank], EIGHT, rank)))
    world.error(ERROR)
    (alert,) = world.look().alerts
    assert said in there(alert.evidence).text
    watch = RunWatch(world.store, Policy(), RUN, catalogue=LogSettings(dumps=("*rank*",)))
    assert said in there(there(watch.look()).explained).cause.evidence.text
    world.after(20)
    put_dumps(world)
    for reads_them in (True, False):
        world.store.calls.clear()
        view = there(watch.look())
        found = there(view.explained)
        assert (there(found.stuck).root, found.cause.error_type) == (5, "nccl_timeout")
        assert "rank 5 never joined" in found.cause.evidence.text
        assert [note for note in view.notes if note.startswith("Dumps of flight recorders came after the alert")]
        assert any(call[0] == "read" and "flight/" in call[1] for call in world.store.calls) is reads_them
    assert not world.look().alerts


def test_a_store_that_does_not_list_them_delays_no_alert(world: World) -> None:
    begin(world)
    put_dumps(world)
    world.error(ERROR)
    world.store.refuse("list", UnreachableError("no answer"), named=f"{RUN}/flight/")
    (alert,) = world.look().alerts
    assert alert.cause == "nccl_timeout"
    assert there(alert.evidence).text != SENTENCE


def test_dumps_beside_logs_on_this_machine_count(world: World, tmp_path: Path) -> None:
    world.options["signals"] = LogSettings(places=(str(tmp_path / "*.log"),), dumps=("*trace*",))
    world.beat(world_size=8, beat_seconds=30.0)
    world.look()
    write(tmp_path, STUCK, EIGHT)
    for rank, text in ranks(8, 5).items():
        (tmp_path / f"rank{rank}.log").write_text(text)
    world.error(ERROR)
    (alert,) = world.look().alerts
    assert there(alert.evidence).rank == 5
    assert there(alert.evidence).text.startswith("all_reduce #2 of group default_pg (0): rank 5 never joined")
