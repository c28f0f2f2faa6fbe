"""A watcher that dies at any of its calls loses nothing and decides nothing twice."""

from collections.abc import Callable, Iterator

import pytest

from lastbeat.model.policy import Policy
from lastbeat.stores.port import Expect, UnreachableError
from support.memory import Killed
from support.row_by_row import check_each
from support.world import World

Story = Callable[[World], object]

STORIES: dict[str, tuple[Story, list[str]]] = {
    "a run fails": (lambda s: (s.both(1), s.error("boom"), s.log("x")),
                    ["FAILED"]),
    "a run never starts": (lambda s: None, ["TIMED_OUT"]),
    "a warning is raised": (lambda s: (s.beat(), s.progress(1, loss="nan")), ["WARNING"]),
}  # fmt: skip


def points(story: Story) -> Iterator[tuple[str, tuple[int, bool]]]:
    """Before and after each call of a look."""
    world = World()
    story(world)
    world.store.calls.clear()
    world.look()
    for call in range(len(world.store.calls)):
        yield f"before call {call}", (call, True)
        yield f"after call {call}", (call, False)


@pytest.mark.parametrize(("story", "events"), STORIES.values(), ids=STORIES)
def test_killed_at_any_call(story: Story, events: list[str]) -> None:
    def loses_nothing(call: int, before: bool) -> None:
        world = World()
        story(world)
        world.store.die_at(call, before=before)
        with pytest.raises(Killed):
            world.look()
        world.store.heal()
        world.look()
        world.after(world.policy.lease_s + 1)
        last = world.look()
        assert set(world.channel.events) == set(events), "delivered at least once"
        assert len(world.channel.events) <= len(events) + 1, "a crash costs one repetition at most"
        assert len({message.key for message in world.channel.sent}) == len(events), "decided once"
        assert last.record is not None
        assert last.record.transitions == 1
        assert last.pending == 0

    check_each(points(story), loses_nothing)


@pytest.mark.parametrize(("story", "events"), STORIES.values(), ids=STORIES)
def test_an_answer_lost_at_any_call(story: Story, events: list[str]) -> None:
    """Not killed: one call fails, whether or not the store did it, and the same watcher goes on."""

    def tells_once(call: int, before: bool) -> None:
        world = World()
        story(world)
        left = call

        def fail_once(_operation: str, _key: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise UnreachableError("connection reset")

        if before:
            world.store.before = fail_once
        else:
            world.store.after = fail_once
        world.look()
        world.store.heal()
        for _ in range(3):
            world.look(restarted=False)
            world.after(world.policy.lease_s + 1)
        assert world.channel.events == events, "no crash, so exactly once"
        record = world.record_after_look()
        assert record.transitions == 1

    check_each(points(story), tells_once)


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_a_claim_that_arrives_when_nobody_waits_for_it_any_more_delays_the_alert_and_no_more(restarted: bool) -> None:
    world = World()
    world.error("boom")
    at_once = world.store.write
    late: list[Callable[[], str]] = []

    def hold_back(key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        late.append(lambda: at_once(key, body, expect))
        raise UnreachableError("no answer")

    world.store.write = hold_back  # type: ignore[method-assign]
    assert not world.look().recorded
    world.store.write = at_once  # type: ignore[method-assign]
    late[0]()
    for _ in range(3):
        world.look(restarted=restarted)
    assert world.channel.events == [], "whose claim it is, and whether they send, nobody knows"
    world.after(world.policy.lease_s + 1)
    for _ in range(3):
        world.look(restarted=restarted)
    assert world.channel.events == ["FAILED"]


def test_a_store_that_ignores_conditions_is_found_out_and_still_watched() -> None:
    world = World(Policy())
    honest = world.store.write
    world.store.write = lambda key, body, expect=None: honest(key, body)  # type: ignore[method-assign]
    world.both(1)
    assert any("ignores conditional writes" in note for note in world.look().notes)
    world.after(700)
    outcome = world.look()
    assert any("ignores conditional writes" in note for note in outcome.notes)
    assert world.channel.events == ["TIMED_OUT"]
