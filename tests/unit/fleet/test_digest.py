"""The digest: what it names, and that one is sent a day, whatever happens to the passes."""

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.alerts import plain, slack_blocks
from lastbeat.alerts.plain import lines
from lastbeat.fleet.digest import DailyDigest, compose, read_digest, runs_of
from lastbeat.model.digest import DIGEST, DigestTime, read_time
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.record import Acknowledgement, Attempt, LeftOut, Record, Transition
from lastbeat.model.state import State
from lastbeat.model.status import Event, Status
from lastbeat.settings import SettingsError, load
from lastbeat.stores.port import StoreError
from support.channel import down
from support.memory import START, Killed, MemoryStore
from support.row_by_row import labelled
from support.world import World

AT_TWO = DigestTime(read_time("14:00").at)
"""Two hours after ``START``."""


def record(status: Status, *, hours: float = 2, cause: str | None = None, warns: str = "", **more: Any) -> Record:
    """A run that came to be so this many hours ago."""
    at = START - timedelta(hours=hours)
    state = State(status, "", cause=cause, conditions={warns: ""} if warns else {})
    return replace(Record("run", state, since=at, happened_at=at), **more)


def restarted(*hours: float) -> tuple[Transition, ...]:
    """The history of a run that began two days ago, with an attempt more for each of these ages."""
    ages = (48.0, *hours)
    return tuple(
        Transition(number, START - timedelta(hours=age), None, Status.RUNNING, "", number)
        for number, age in enumerate(ages, 1)
    )


LEFT = LeftOut(START, "ana")
SEEN = Acknowledgement(START, "ana")
NAMED: list[Any] = [
    ("a failure needs attention", record(Status.FAILED, cause="oom"), "FAILED, oom, 2h 00m before", True),
    ("so does a run that fell silent", record(Status.TIMED_OUT), "TIMED_OUT, 2h 00m before", True),
    ("a failure that a person looks after does not", record(Status.FAILED, acknowledgement=SEEN),
     "FAILED, 2h 00m before", False),
    ("a success is named", record(Status.SUCCEEDED), "SUCCEEDED, 2h 00m before", False),
    ("a warning needs attention since whenever", record(Status.RUNNING, hours=99, warns="slow"),
     "RUNNING (WARNING), slow", True),
    ("a run that goes on is not named", record(Status.RUNNING), None, False),
    ("nor an end of an earlier day", record(Status.SUCCEEDED, hours=30), None, False),
    ("nor a run that was taken out of the fleet", record(Status.FAILED, left_out=LEFT), None, False),
    ("a run that was restarted in the night is", record(Status.RUNNING, history=restarted(5, 3), attempt=Attempt(3)),
     "RUNNING, restarted 2 times", False),
    ("one that was restarted before is not", record(Status.RUNNING, history=restarted(30)), None, False),
]  # fmt: skip


@pytest.mark.parametrize(("known", "note", "needy"), labelled(NAMED))
def test_which_runs_it_names(known: Record, note: str | None, needy: bool) -> None:
    runs = runs_of([known], START - timedelta(days=1), START)
    message = compose(runs, START - timedelta(days=1), START, where="s3://bucket/runs")
    assert message.member_notes == (() if note is None else (note,))
    assert [run.needs_attention for run in runs] == [needy] * len(runs)
    assert (message.action is not None) is needy


def test_what_people_read() -> None:
    found = [
        replace(record(Status.SUCCEEDED), run_id="good"),
        replace(record(Status.FAILED, cause="oom"), run_id="bad"),
        replace(record(Status.RUNNING, history=restarted(5, 3)), run_id="again"),
    ]
    since = START - timedelta(days=1)
    message = compose(
        runs_of(found, since, START), since, START, where="s3://bucket/runs", zone=ZoneInfo("Europe/Zurich"), alive=1,
        link=lambda run_id: f"https://runs.example.com/#/runs/{run_id}",
    )  # fmt: skip
    assert message.reason == (
        "1 run needs attention. Since Wed 13:00 CET: 1 FAILED, 1 SUCCEEDED, 2 restarts of 1 run. 1 run going on."
    )
    assert message.members == ("bad", "good", "again"), "what needs attention comes first"
    text = plain.render(message)
    assert "│   bad: FAILED, oom, 2h 00m before  https://runs.example.com/#/runs/bad" in text
    assert "lastbeat fleet --root s3://bucket/runs" in text
    assert "• `bad` `FAILED, oom, 2h 00m before` <https://runs.example.com/#/runs/bad|open>" in str(
        slack_blocks.payload(message)
    )
    assert message.severity == "info"


def test_a_quiet_day_is_told_too() -> None:
    message = compose((), START - timedelta(days=1), START, where="runs", alive=12)
    assert message.reason == "All is well. Since Wed 12:00 UTC: no run ended. 12 runs going on."
    assert [line for line in lines(message) if line.startswith(("Status", "Attempt"))] == []


def test_it_does_not_say_that_all_is_well_where_no_pass_has_looked() -> None:
    store = MemoryStore()
    store.put_text("new/metadata.json", "{}")
    message = read_digest(store, START - timedelta(days=1))
    assert message.reason.startswith("No recorded run needs attention.")
    assert message.notes == ("No pass has looked at 1 run, so this digest leaves them out",)


def sent(world: World) -> int:
    return [message.event for message in world.channel.sent].count(Event.DIGEST)


def daily(world: World, time: DigestTime = AT_TWO) -> DailyDigest:
    return DailyDigest(world._context({}), world.channels, time)


def test_a_sweep_sends_one_a_day_and_begins_with_the_first_time_after_it_was_set() -> None:
    world = World(fleet=FleetPolicy(digest=AT_TWO))
    world.run("mistral").both(1)
    counts = []
    for _ in range(30):
        world.beat_all()
        world.sweep(restarted=True)
        counts.append(sent(world))
        world.after(2 * 3600)
    assert counts[0] == 0
    assert counts[1] == 1, "at 14:00"
    assert counts[12] == 1
    assert counts[13] == 2, "at 14:00 of the next day"
    assert counts[-1] == 3


@pytest.mark.parametrize("call", range(1, 9))
@pytest.mark.parametrize("before", [True, False])
def test_a_pass_that_dies_at_any_call_neither_loses_nor_doubles_it(call: int, before: bool) -> None:
    world = World()
    world.run("mistral").error("boom", age_s=60)
    world.sweep()
    daily(world).send(float("inf"))
    world.after(2 * 3600)
    world.store.die_at(call, before=before)
    with suppress(Killed):
        daily(world).send(float("inf"))
    world.store.heal()
    told = sent(world)
    for _ in range(3):
        world.after(120)
        daily(world).send(float("inf"))
    held = world.store.held[DIGEST].body.decode()
    assert held.count('"event":"DIGEST"') + held.count('"event": "DIGEST"') in {1, 2}, "one is decided"
    # It may go out twice only where a pass dies between sending and writing that down, as any alert may.
    assert sent(world) in {1, told + 1}


def test_of_two_at_once_one_sends() -> None:
    world = World()
    one, other = daily(world), daily(world)
    one.send(float("inf"))
    world.after(2 * 3600)

    def overtaken(operation: str, key: str) -> None:
        if (operation, key) == ("write", DIGEST):
            world.store.heal()
            other.send(float("inf"))

    world.store.before = overtaken
    assert one.send(float("inf")) == ()
    assert sent(world) == 1, "the other has sent it in between"
    for _ in range(3):
        assert one.send(float("inf")) == ()
    assert sent(world) == 1


def test_a_channel_that_is_down_gets_it_later() -> None:
    world = World()
    sender = daily(world)
    sender.send(float("inf"))
    world.after(2 * 3600)
    world.channel.fault = down
    sender.send(float("inf"))
    assert sent(world) == 0
    world.channel.fault = lambda _message: None
    world.after(3600)
    daily(world).send(float("inf"))
    assert sent(world) == 1


def test_a_store_that_does_not_answer_is_a_note_and_another_try() -> None:
    world = World()
    sender = daily(world)
    sender.send(float("inf"))
    world.after(2 * 3600)
    world.store.refuse("list", StoreError("no"))
    (note,) = sender.send(float("inf"))
    assert "a later pass tries again" in note
    world.store.heal()
    assert sender.send(float("inf")) == ()
    assert sent(world) == 1


ZONES = st.sampled_from(["UTC", "Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"])
TIMES = st.sampled_from(["00:00", "00:30", "02:00", "02:30", "03:00", "08:00", "23:59"])


@given(zone=ZONES, time=TIMES, start=st.integers(0, 365 * 24), every_min=st.sampled_from([17, 60, 400]))
def test_days_on_which_clocks_change_have_one_digest_like_others(
    zone: str, time: str, start: int, every_min: int
) -> None:
    digest = DigestTime(read_time(time).at, zone)
    now = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(hours=start)
    last, days = digest.due_at(now), []
    for _ in range(10 * 24 * 60 // every_min):
        now += timedelta(minutes=every_min)
        if digest.is_due(last, now):
            last = digest.due_at(now)
            assert now - last <= timedelta(minutes=every_min), "it is not late"
            days.append(last.astimezone(ZoneInfo(zone)).date())
    assert days == [days[0] + timedelta(days=index) for index in range(len(days))]
    assert len(days) >= 9


def test_a_new_time_of_day_does_not_send_a_second_one_on_the_same_day() -> None:
    eight = DigestTime(read_time("08:00").at, "Europe/Zurich")
    nine = replace(eight, at=read_time("09:00").at)
    at_eight = eight.due_at(START)
    assert not nine.is_due(at_eight, START)
    assert nine.is_due(at_eight, START + timedelta(days=1))


FAULTS = [
    ("a zone that does not exist", "08:00 Europe/Zurch",
     "names no zone: no time zone is called 'Europe/Zurch' on this machine (the nearest is Europe/Zurich)"),
    ("a zone like no other", "08:00 %%%", "UTC is always known"),
    ("a path is no zone", "08:00 ../../etc/passwd", "names no zone"),
    ("no time", "Europe/Zurich", "is no time of day with a zone; use for example 08:00 Europe/Zurich"),
    ("an hour too many", "24:00 UTC", "is no time of day"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), labelled(FAULTS))
def test_what_is_wrong_with_the_setting(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as told:
        load(environ={"LASTBEAT_DIGEST": text, "MONITORING_ROOT": "/tmp"})
    assert said in str(told.value)
    assert "use for example 08:00 Europe/Zurich" in str(told.value)
