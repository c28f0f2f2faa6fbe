"""A run that goes back and forth is one notice, and what people were told last is right once it has settled."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.policy import DEFAULT_ALERT_ON, Policy
from lastbeat.model.record import Record
from lastbeat.model.status import Event, Status
from lastbeat.watch.decide import flapping
from support.flaps import wrongly_told
from support.laws import examples
from support.world import World

MINUTE = 60.0
Act = Callable[[World], object]
Step = tuple[float, Act, str]
"""Minutes that pass, what then happens, and what the next look tells people ("" is nothing)."""


def nothing(_world: World) -> None:
    pass


def beats(world: World) -> None:
    world.both(1)


def restarts(world: World) -> None:
    world.beat(start_time=world.instance_now.isoformat())


def fails(world: World) -> None:
    world.error("boom")


FLAPS: list[Step] = [
    (0, beats, ""), (11, nothing, "TIMED_OUT"), (1, beats, "RECOVERED"), (11, nothing, "TIMED_OUT"),
    (1, beats, "FLAPPING"),
]  # fmt: skip
"""Four flips within half an hour, and then it is RUNNING."""

TABLE: list[tuple[str, list[Step]]] = [
    ("the fourth flip within an hour is told as flapping, and those after it not at all",
     [*FLAPS, (11, nothing, ""), (1, beats, ""), (11, nothing, ""), (1, beats, "")]),
    ("three flips an hour, hour after hour, are told one by one",
     [(0, beats, ""), *[step for _ in range(6) for step in
                        ((20.0, nothing, "TIMED_OUT"), (20.0, beats, "RECOVERED"))]]),
    ("a run that flapped and then runs for an hour has recovered",
     [*FLAPS, *[(9.0, beats, "")] * 6, (9, beats, "RECOVERED"), (9, beats, "")]),
    ("a run that flapped and then is silent for an hour is TIMED_OUT",
     [*FLAPS, (11, nothing, ""), (30, nothing, ""), (30, nothing, "TIMED_OUT"), (30, nothing, "")]),
    ("the hour counts from the last flip, told or not",
     [*FLAPS, (30, nothing, ""), (31, beats, ""), (31, nothing, ""), (59, nothing, ""), (1, nothing, "TIMED_OUT")]),
    ("one that kept its status for an hour while nobody looked is told as any other that changes",
     [*FLAPS, (11, nothing, ""), (61, beats, "RECOVERED"), (11, nothing, "TIMED_OUT")]),
    ("it can flap again after it has been steady, and that is a notice of its own",
     [*FLAPS, (11, nothing, ""), (61, nothing, "TIMED_OUT"), (1, beats, "RECOVERED"), (11, nothing, "TIMED_OUT"),
      (1, beats, "RECOVERED"), (11, nothing, "FLAPPING"), (1, beats, "")]),
    ("its failure is told, and ends it",
     [*FLAPS, (11, nothing, ""), (1, fails, "FAILED"), (90, nothing, "")]),
    ("a new attempt ends it: people who do not want RESTARTED are told that it recovered",
     [*FLAPS, (1, restarts, ""), (1, restarts, "RECOVERED"), (11, nothing, "TIMED_OUT")]),
    ("a new attempt that is silent from the start is told as TIMED_OUT",
     [*FLAPS, (11, nothing, ""), (1, lambda s: s.beat(age_s=5000, attempt=2), "TIMED_OUT")]),
    ("flips before other news belong to a story that is over",
     [(0, beats, ""), (11, nothing, "TIMED_OUT"), (1, beats, "RECOVERED"), (11, nothing, "TIMED_OUT"),
      (1, fails, "FAILED"), (1, restarts, ""), (11, nothing, "TIMED_OUT")]),
    ("a run that is restarted over and over and falls silent each time flaps",
     [(0, restarts, ""), (11, nothing, "TIMED_OUT"), (1, restarts, "RECOVERED"), (11, nothing, "TIMED_OUT"),
      (1, restarts, "FLAPPING"), (11, nothing, ""), (1, restarts, "")]),
]  # fmt: skip


@pytest.mark.parametrize("steps", [pytest.param(steps, id=name) for name, steps in TABLE])
def test_what_is_told_of(steps: Sequence[Step]) -> None:
    world = World(Policy(alert_on=DEFAULT_ALERT_ON - {Event.WARNING}))
    told = [_told(world, minutes, act) for minutes, act, _ in steps]
    assert told == [expected for _, _, expected in steps]
    record = world.record_after_look()
    assert wrongly_told(record.history, {m.at: m.event for m in world.channel.sent}) == []


def _told(world: World, minutes: float, act: Act) -> str:
    world.after(minutes * MINUTE)
    act(world)
    before = len(world.channel.sent)
    world.look()
    return " ".join(world.channel.events[before:])


def _flapping(policy: Policy | None = None) -> World:
    world = World(policy)
    for minutes, act, _ in FLAPS:
        _told(world, minutes, act)
    return world


def test_the_notice_says_how_often_what_follows_and_how_it_is_now() -> None:
    message = _flapping().channel.sent[-1]
    assert message.event.severity == "warning"
    assert message.status is Status.RUNNING
    assert message.reason.startswith(
        "It changed between RUNNING and TIMED_OUT 4 times within 13m. Further changes are "
    )
    assert "until it has kept one status for an hour. Now it is RUNNING: Heartbeats: " in message.reason
    assert "STALE_MINUTES" in (message.action or "")


def test_its_end_says_that_it_is_one() -> None:
    world = _flapping()
    _told(world, 11, nothing)
    _told(world, 60, nothing)
    assert world.channel.events[-1] == "TIMED_OUT"
    assert world.channel.sent[-1].reason.startswith(
        "It no longer goes back and forth: it has been TIMED_OUT for 1h 00m: Both heartbeats stale"
    )


def test_a_flapping_run_is_worth_a_look_when_it_may_have_settled() -> None:
    world = _flapping()
    record = world.record_after_look()
    assert record.since is not None
    assert flapping.settles_at(record) == record.since.replace(hour=record.since.hour + 1)
    assert flapping.settles_at(Record("run")) is None


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        pytest.param({Event.TIMED_OUT}, ["TIMED_OUT", "TIMED_OUT", "FLAPPING", "TIMED_OUT"], id="only falling silent"),
        pytest.param({Event.RECOVERED}, ["RECOVERED", "FLAPPING"], id="only the return"),
        pytest.param({Event.FAILED}, [], id="neither"),
    ],
)
def test_who_wants_only_some_of_it(wanted: set[Event], told: list[str]) -> None:
    world = _flapping(Policy(alert_on=frozenset(wanted)))
    _told(world, 11, nothing)
    _told(world, 61, nothing)
    assert world.channel.events == told


def test_from_who_wants_warnings_alone_nothing_is_kept() -> None:
    world = World(Policy(alert_on=frozenset({Event.WARNING})))
    world.both(1)
    for _ in range(6):
        assert _told(world, 11, nothing) == ""
        assert _told(world, 1, World.beat) == "WARNING"


def test_stale_heartbeats_are_part_of_flapping_and_other_conditions_are_not() -> None:
    world = _flapping()
    # Only one of the two beats comes back: a condition, at each flip anew.
    for _ in range(3):
        assert _told(world, 11, nothing) == ""
        assert _told(world, 1, World.beat) == ""
    assert _told(world, 1, lambda s: (s.beat(), s.progress(2, loss="nan"))) == "WARNING"
    assert set(world.channel.sent[-1].conditions) == {"loss_nan"}


def test_a_stale_heartbeat_that_outlasts_the_flapping_is_told_with_its_end() -> None:
    world = _flapping()
    for _ in range(6):
        assert _told(world, 9.5, World.beat) == ""
    assert _told(world, 9.5, World.beat) == "RECOVERED"
    assert set(world.channel.sent[-1].conditions) == {"progress_stale"}


_acts = st.sampled_from([beats, beats, beats, nothing, nothing, nothing, restarts, fails, World.beat])
_step = st.tuples(st.sampled_from([1.0, 5.0, 11.0, 12.0, 25.0, 61.0, 130.0]), _acts)
# By chance alone hardly any life would flap.
_falls_silent = st.tuples(st.just(11.0), st.just(nothing)), st.tuples(st.just(1.0), st.just(beats))
_lives = st.lists(
    st.one_of(
        _step.map(lambda step: [step]), st.tuples(*_falls_silent).map(list), st.tuples(*_falls_silent * 2).map(list)
    ),
    max_size=12,  # A record keeps fifty transitions.
).map(lambda parts: [step for part in parts for step in part])


def _lived(steps: Sequence[tuple[float, Act]]) -> World:
    world = World(Policy(alert_on=DEFAULT_ALERT_ON - {Event.WARNING}))
    beats(world)
    world.look()
    for minutes, act in steps:
        _told(world, minutes, act)
    return world


@given(_lives)
@settings(max_examples=examples(30, 5000))
def test_whatever_a_run_does_people_are_told_what_its_history_asks_for(steps: list[tuple[float, Act]]) -> None:
    world = _lived(steps)
    record = world.record_after_look()
    assert wrongly_told(record.history, {m.at: m.event for m in world.channel.sent}) == []
    notices = [i for i, event in enumerate(world.channel.events) if event == "FLAPPING"]
    assert all(later > earlier + 1 for earlier, later in pairwise(notices)), "an end in between"


@given(_lives, st.booleans())
@settings(max_examples=examples(12, 5000))
def test_the_last_that_people_were_told_is_right_once_it_is_steady(steps: list[tuple[float, Act]], alive: bool) -> None:
    world = _lived(steps)
    for _ in range(9):
        _told(world, 9, beats if alive else nothing)
    record = world.record_after_look()
    assert record.flapping_since is None
    last = next((m for m in reversed(world.channel.sent)), None)
    if record.status is Status.TIMED_OUT:
        assert last is not None
        assert last.event is Event.TIMED_OUT
    elif last is not None and last.event in {Event.TIMED_OUT, Event.RECOVERED, Event.FLAPPING}:
        assert record.status is Status.RUNNING
        assert last.event is Event.RECOVERED
