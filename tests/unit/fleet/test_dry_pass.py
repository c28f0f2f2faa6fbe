"""``sweep --dry-run``: what a pass would decide and send, and nothing of it is written or sent."""

import pytest

from lastbeat.model.fleet import PassReport
from lastbeat.stores.port import DeniedError
from lastbeat.stores.reading import ReadingStore
from support.channel import ListChannel, down
from support.fleet import FleetScene


def dry(scene: FleetScene) -> PassReport:
    """One dry pass, after which nothing is otherwise than before."""
    before = (dict(scene.store.held), dict(scene.state.held), len(scene.channel.sent))
    through, scene.through = scene.through, ReadingStore(scene.store)
    try:
        report = scene.fresh_sweep(dry_run=True, state=ReadingStore(scene.state)).run()
    finally:
        scene.through = through
    assert (dict(scene.store.held), dict(scene.state.held), len(scene.channel.sent)) == before
    return report


def planned(report: PassReport) -> list[tuple[str, str]]:
    return [(each.message.event.value, each.message.subject) for each in report.would_send or ()]


def fleet() -> FleetScene:
    scene = FleetScene()
    for number in range(8):
        scene.run(f"run-{number}").both(1)
    return scene


def test_it_tells_what_the_next_pass_then_sends() -> None:
    scene = fleet()
    scene.sweep()
    scene.after(900)
    scene.run("run-0").both(2)
    scene.run("run-1").error("boom")
    for number in (2, 3):
        scene.run(f"run-{number}").complete()
    told = dry(scene)
    assert sorted(planned(told)) == [
        ("FAILED", "run-1"), ("SUCCEEDED", "run-2"), ("SUCCEEDED", "run-3"),
        *(("TIMED_OUT", f"run-{number}") for number in range(4, 8)),
    ]  # fmt: skip
    report = scene.sweep(restarted=True)
    assert sorted((m.event.value, m.subject) for m in scene.channel.sent) == sorted(planned(told))
    assert told.statuses == report.statuses
    assert {run_id for run_id, _ in told.transitions} == {run_id for run_id, _ in report.transitions}
    assert planned(dry(scene)) == [], "what was sent is not sent again"


def test_a_group_is_one_alert() -> None:
    scene = fleet()
    scene.sweep()
    scene.after(900)
    assert planned(dry(scene)) == [("TIMED_OUT", "8 runs")]


def test_a_first_look_is_one_alert_and_stays_to_be_told() -> None:
    scene = FleetScene()
    for number in range(6):
        scene.run(f"run-{number}").error("boom", age_s=3600)
    for _ in range(2):
        assert planned(dry(scene)) == [("FIRST_LOOK", "6 runs")]
    scene.sweep()
    assert [message.event.value for message in scene.channel.sent] == ["FIRST_LOOK"]


def test_alerts_say_how_many_transitions_they_stand_for() -> None:
    scene = FleetScene()
    for number in range(6):
        scene.run(f"ended-{number}").error("boom", age_s=3600)
    assert [each.transitions for each in dry(scene).would_send or ()] == [6]
    scene = fleet()
    scene.sweep()
    scene.after(900)
    scene.run("run-1").error("boom")
    found = {each.message.event.value: each.transitions for each in dry(scene).would_send or ()}
    assert found == {"TIMED_OUT": 7, "FAILED": 1}


def test_what_waits_for_its_channel_is_told_too() -> None:
    scene = fleet()
    scene.sweep()
    scene.run("run-1").error("boom")
    scene.channel.fault = down
    scene.sweep()
    scene.after(60)
    assert planned(dry(scene)) == [("FAILED", "run-1")]


def test_it_says_which_channels_would_get_it() -> None:
    scene = fleet()
    scene.channels = [scene.channel, ListChannel("other:2")]
    scene.run("run-1").error("boom")
    (alert,) = dry(scene).would_send or ()
    assert alert.channels == ("list:1", "other:2")


def test_a_fleet_that_cannot_be_seen_is_told_to_nobody() -> None:
    scene = fleet()

    def refuse(_operation: str, _key: str) -> None:
        raise DeniedError("403")

    scene.store.before = refuse
    report = dry(scene)
    assert report.blind is not None
    assert report.would_send is None


@pytest.mark.parametrize("write", [True, False])
def test_a_store_that_is_only_read_refuses_all_else(write: bool) -> None:
    store = ReadingStore(FleetScene().store)
    with pytest.raises(DeniedError, match="dry run"):
        store.write("a/b", b"") if write else store.delete("a/b")
