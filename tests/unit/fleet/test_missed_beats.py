"""A sweep hears of missed beats within a pass, and reads nothing more for them."""

import pytest

from support.world import World


@pytest.mark.parametrize("fresh", [True, False], ids=["a process a pass", "one process"])
def test_a_run_that_misses_its_beats_is_warned_of_once_until_it_beats_again(fresh: bool) -> None:
    world = World()
    run = world.run("r")

    def sweep() -> list[str]:
        world.sweep(restarted=fresh)
        return list(world.channel.events)

    run.beat(beat_seconds=30)
    for _ in range(3):
        world.after(30)
        run.beat(beat_seconds=30)
        assert sweep() == []
    world.after(120)
    assert sweep() == []
    world.after(10)
    assert sweep() == ["WARNING"]
    assert "beats_missed" in world.channel.sent[-1].conditions
    world.after(60)
    assert sweep() == ["WARNING"]
    run.beat(beat_seconds=30)
    assert [line.conditions for line in world.sweep(restarted=fresh).lines] == [()]


@pytest.mark.parametrize("fresh", [True, False], ids=["a process a pass", "one process"])
def test_a_sweep_holds_a_run_against_its_own_limit(fresh: bool) -> None:
    world = World()
    world.run("r").beat(stale_minutes=2)
    seen = []
    for _ in range(5):
        seen.append([line.status.value for line in world.sweep(restarted=fresh).lines])
        world.after(50)
    assert seen == [["RUNNING"]] * 3 + [["TIMED_OUT"]] * 2
    assert world.channel.events == ["TIMED_OUT"]
