"""What training raised itself is told once, whoever watches and whatever becomes of the run."""

from dataclasses import replace

import pytest

from lastbeat.alerts import plain
from lastbeat.model.raised_alert import RaisedAlert, encode_alerts
from lastbeat.model.status import Event, Status
from support.world import RUN, World

ALERT = RaisedAlert("a1", "Loss is high", "3.5 at step 70", "warning")


def raise_alerts(world: World, *alerts: RaisedAlert, age_s: float = 0.0) -> None:
    world.put("_alerts.json", encode_alerts(RUN, alerts).decode(), age_s=age_s)


def test_it_is_told_once_however_many_watch() -> None:
    world = World()
    world.both(1)
    world.look()
    raise_alerts(world, ALERT)
    for _ in range(3):
        world.after(30)
        world.both(2)
        world.look()
    (message,) = world.channel.sent
    assert (message.event, message.status, message.severity) == (Event.ALERT, Status.RUNNING, "warning")
    assert message.reason == "Loss is high: 3.5 at step 70"
    assert message.action is None
    assert plain.render(message).startswith(f"│ 📣 ALERT: {RUN}\n│ Loss is high: 3.5 at step 70")


def test_those_of_one_look_are_one_message_as_severe_as_the_worst() -> None:
    world = World()
    world.both(1)
    several = [replace(ALERT, id=str(number), text=str(number), level="info") for number in range(7)]
    raise_alerts(world, *several[:6], replace(several[6], level="error", rank=3))
    world.look()
    (message,) = world.channel.sent
    assert message.severity == "critical"
    assert message.reason.startswith("Loss is high: 2 · ")
    assert message.reason.endswith("Loss is high: 6 (rank 3) · and 2 more before")


def test_only_new_ones_are_told_later_also_in_the_next_attempt() -> None:
    world = World()
    world.beat(attempt=1)
    raise_alerts(world, ALERT)
    world.look()
    world.after(60)
    world.beat(attempt=2)
    world.look()
    raise_alerts(world, ALERT, replace(ALERT, id="a2", title="Again"))
    world.after(60)
    world.beat(attempt=2)
    world.look()
    assert [message.reason for message in world.channel.sent if message.event is Event.ALERT] == [
        "Loss is high: 3.5 at step 70",
        "Again: 3.5 at step 70",
    ]


@pytest.mark.parametrize("wanted", [True, False], ids=["with warnings", "and not without"])
def test_it_is_wanted_with_warnings(wanted: bool) -> None:
    world = World()
    world.policy = replace(world.policy, alert_on=frozenset({Event.WARNING} if wanted else {Event.FAILED}))
    world.both(1)
    raise_alerts(world, ALERT)
    world.look()
    assert world.channel.events == (["ALERT"] if wanted else [])


def test_who_only_raises_alerts_is_no_run_that_timed_out() -> None:
    world = World()
    raise_alerts(world, ALERT)
    assert world.look().status is Status.NO_HEARTBEAT
    world.after(3600)
    assert world.look().status is Status.NO_HEARTBEAT
    assert world.channel.events == ["ALERT"]
    world.both(1)
    assert world.look().status is Status.RUNNING
    assert world.channel.events == ["ALERT"], "it has not recovered from anything"


def test_hostile_text_stays_one_line_without_its_secrets() -> None:
    world = World()
    world.both(1)
    raise_alerts(world, replace(ALERT, title="\x1b[31m<!channel>\n", text="key hf_abcdefghijklmnopqrstuvwxyz\nmore"))
    world.look()
    (message,) = world.channel.sent
    assert message.reason == "<!channel>: key *** more"


def test_a_sweep_sees_it_within_a_pass_and_healthy_runs_cost_nothing_more() -> None:
    world = World()
    runs = [world.run(f"run-{number}") for number in range(5)]
    for _ in range(5):
        world.after(60)
        for run in runs:
            run.both(1)
        world.sweep()
    before = len([call for call in world.store.calls if call[0] == "read"])
    runs[3].put("_alerts.json", encode_alerts("run-3", [ALERT]).decode())
    world.sweep()
    reads = [key for kind, key in world.store.calls[before:] if kind == "read" and "_alerts" in key]
    assert set(reads) <= {"run-3/_alerts.json"}
    told = [message for message in world.channel.sent if message.event is Event.ALERT]
    assert [message.run_id for message in told] == ["run-3"]
    count = sum(call == ("read", "run-3/_alerts.json") for call in world.store.calls)
    for _ in range(5):
        world.after(60)
        for run in runs:
            run.both(2)
        world.sweep()
    assert sum(call == ("read", "run-3/_alerts.json") for call in world.store.calls) == count
