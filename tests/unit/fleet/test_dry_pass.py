"""``sweep --dry-run``: what a pass would decide and send, and nothing of it is written or sent."""

from lastbeat.model.fleet import PassReport
from lastbeat.stores.port import DeniedError
from lastbeat.stores.reading import ReadingStore
from support.channel import ListChannel, down
from support.world import World, running


def dry(world: World) -> PassReport:
    """One dry pass, after which nothing is otherwise than before."""
    before = (dict(world.store.held), dict(world.state.held), len(world.channel.sent))
    through, world.through = world.through, ReadingStore(world.store)
    try:
        report = world.fresh_sweep(dry_run=True, state=ReadingStore(world.state)).run()
    finally:
        world.through = through
    assert (dict(world.store.held), dict(world.state.held), len(world.channel.sent)) == before
    return report


def planned(report: PassReport) -> list[tuple[str, str]]:
    return [(each.message.event.value, each.message.subject) for each in report.would_send or ()]


def test_it_tells_what_the_next_pass_then_sends() -> None:
    world = running(8)
    world.sweep()
    world.after(900)
    world.run("run-0000").both(2)
    world.run("run-0001").error("boom")
    for number in (2, 3):
        world.run(f"run-{number:04}").complete()
    told = dry(world)
    assert sorted(planned(told)) == [
        ("FAILED", "run-0001"), ("SUCCEEDED", "run-0002"), ("SUCCEEDED", "run-0003"),
        *(("TIMED_OUT", f"run-{number:04}") for number in range(4, 8)),
    ]  # fmt: skip
    report = world.sweep(restarted=True)
    assert sorted((m.event.value, m.subject) for m in world.channel.sent) == sorted(planned(told))
    assert told.statuses == report.statuses
    assert {run_id for run_id, _ in told.transitions} == {run_id for run_id, _ in report.transitions}
    assert planned(dry(world)) == [], "what was sent is not sent again"


def test_a_first_look_is_one_alert_and_stays_to_be_told() -> None:
    world = World()
    for number in range(6):
        world.run(f"run-{number:04}").error("boom", age_s=3600)
    for _ in range(2):
        assert planned(dry(world)) == [("FIRST_LOOK", "6 runs")]
    world.sweep()
    assert [message.event.value for message in world.channel.sent] == ["FIRST_LOOK"]


def test_what_waits_for_its_channel_is_told_too() -> None:
    world = running(8)
    world.sweep()
    world.run("run-0001").error("boom")
    world.channel.fault = down
    world.sweep()
    world.after(60)
    assert planned(dry(world)) == [("FAILED", "run-0001")]


def test_it_says_which_channels_would_get_it() -> None:
    world = running(8)
    world.channels = [world.channel, ListChannel("other:2")]
    world.run("run-0001").error("boom")
    (alert,) = dry(world).would_send or ()
    assert alert.channels == ("list:1", "other:2")


def test_a_fleet_that_cannot_be_seen_is_told_to_nobody() -> None:
    world = running(8)
    world.store.refuse("any", DeniedError("403"))
    report = dry(world)
    assert report.blind is not None
    assert report.would_send is None
